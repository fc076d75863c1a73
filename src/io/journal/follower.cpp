#include "io/journal/follower.hpp"

#include <algorithm>

#include "core/clock.hpp"
#include "io/journal/journal.hpp"

namespace swarmpi {

Status JournalFollower::read_some(std::int64_t term, TermReader& reader) {
  const auto begin = [&](const JournalBegin& first) {
    if (first.term != term) return was_renamed(folder_, term, first.term);
    last_ = first;
    merge_.begin(first);
    return Status();
  };
  const auto use = [&](const Record& record) {
    const Status merged = merge_.add(record);
    return merged.ok() ? merged : Status::failed(folder_ + ": " + merged.message());
  };
  const Status read = reader.read(begin, use);
  return read.ok() ? merge_.status() : read;
}

Result<bool> JournalFollower::read_on(double limit_s) {
  const WallClock clock;
  for (const std::int64_t term : terms_in(folder_)) {
    if (term < std::max(from_term_, highest_term())) continue;
    TermReader& reader = readers_.try_emplace(term, term_path(folder_, term)).first->second;
    do {
      if (Status read = read_some(term, reader); !read.ok()) return read;
      if (clock.now_s() >= limit_s && !reader.at_end()) return false;
    } while (!reader.at_end());
  }
  return true;
}

bool JournalFollower::missed_rows() const {
  for (const std::int64_t term : terms_in(folder_)) {
    if (term < from_term_ || term >= highest_term()) continue;
    const auto reader = readers_.find(term);
    if (reader == readers_.end() || reader->second.has_grown()) return true;
  }
  return false;
}

}  // namespace swarmpi
