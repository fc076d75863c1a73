#include "io/journal/term_reader.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>

#include "io/files.hpp"

namespace swarmpi {
namespace {

constexpr std::size_t kReadAheadBytes = std::size_t{1} << 20;

/// Whether record `number` was durable before a record that begins at this byte or later. A break
/// may be as long as a disk, so memory holds one piece at a time.
bool was_durable_before(const Descriptor& file, std::int64_t at, int version,
                        std::uint64_t number) {
  // Pieces overlap by more than a row, so each row is whole in one of them.
  constexpr std::int64_t kOverlapBytes = kReadAheadBytes;
  std::string bytes(16 * kReadAheadBytes, '\0');
  for (std::int64_t count = 1; count > 0; at += std::ssize(bytes) - kOverlapBytes) {
    count = read_at(file, bytes.data(), bytes.size(), at);
    if (count > 0 && was_durable({bytes.data(), static_cast<std::size_t>(count)}, version, number))
      return true;
  }
  return false;
}

Status broken(const std::string& path, const std::string& why) {
  return Status::failed(fmt::format("journal {} {}", path, why));
}

}  // namespace

Status TermReader::use_frames(std::string_view bytes, std::size_t& used,
                              const std::function<Status(const JournalBegin&)>& begin,
                              const std::function<Status(const Record&)>& use) {
  while (used < bytes.size()) {
    const std::optional<RecordFrame> frame = first_frame(bytes.substr(used), version_);
    if (!frame) return {};
    if ((records_ == 0) != is_begin(*frame)) return broken(path_, "has records out of order");
    Status done;
    if (records_ == 0) {
      const std::optional<JournalBegin> first = decode_begin(*frame, version_);
      if (!first) return broken(path_, "has an invalid first record");
      done = begin(*first);
    } else {
      const std::optional<Record> record = decode_row(*frame, version_);
      if (!record) {
        return broken(path_, fmt::format("has an invalid record at byte {}",
                                         offset_ + static_cast<std::int64_t>(used)));
      }
      done = use(*record);
    }
    if (!done.ok()) return done;
    ++records_;
    used += frame->size_bytes;
  }
  return {};
}

Status TermReader::read(const std::function<Status(const JournalBegin&)>& begin,
                        const std::function<Status(const Record&)>& use) {
  const auto unread = [this](const std::string& why) {
    return Status::bad_input(fmt::format("cannot read {}: {}", path_, why));
  };
  const Result<OpenedFile> opened = open_to_read(path_);
  if (!opened.ok()) return unread(opened.status().message());
  const Descriptor& file = opened.value().file;
  seen_bytes_ = opened.value().size_bytes;
  std::string bytes;
  // Longer than a piece is a record of a long deck only.
  for (std::size_t wanted = kReadAheadBytes;; wanted *= 2) {
    bytes.resize(wanted);
    const std::int64_t count = read_at(file, bytes.data(), wanted, offset_);
    if (count < 0) return unread(std::strerror(errno));
    bytes.resize(static_cast<std::size_t>(count));
    if (offset_ == 0) {
      const Result<int> version = journal_version(bytes, path_);
      if (!version.ok()) return version.status();
      version_ = version.value();
    }
    std::size_t used = 0;
    if (Status status = use_frames(bytes, used, begin, use); !status.ok()) return status;
    offset_ += static_cast<std::int64_t>(used);
    at_end_ = bytes.size() < wanted || (used == 0 && wanted >= kLongestRecordBytes);
    torn_ = at_end_ && used < bytes.size();
    if (torn_ && was_durable_before(file, offset_, version_, records_)) {
      return broken(path_, fmt::format("is damaged at byte {}: records that were durable cannot be "
                                       "read",
                                       offset_));
    }
    if (used > 0 || at_end_) return {};
  }
}

bool TermReader::has_grown() const {
  const Result<OpenedFile> opened = open_to_read(path_);
  return opened.ok() && opened.value().size_bytes != seen_bytes_;
}

}  // namespace swarmpi
