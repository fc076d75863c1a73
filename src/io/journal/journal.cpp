#include "io/journal/journal.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <optional>
#include <sstream>
#include <utility>

#include "io/file_calls.hpp"
#include "io/files.hpp"
#include "io/journal/follower.hpp"
#include "io/journal/format.hpp"
#include "io/journal/term_end.hpp"
#include "io/journal/term_proof.hpp"

namespace swarmpi {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kTermPrefix = "term-";
constexpr std::int64_t kMostTerms = 1'000'000'000'000'000;  // higher numbers are not SwarMPI's

std::string end_path(const std::string& folder) { return folder + "/ended"; }

std::string complete_mark_path(const std::string& folder) { return folder + "/complete"; }

/// The mark names its term and is void once there is a later one, for then the run went on.
std::string mark_text(std::int64_t term) { return "term " + std::to_string(term) + "\n"; }

std::optional<std::int64_t> term_number(const std::string& name, std::string_view prefix) {
  if (name.rfind(prefix, 0) != 0) return {};
  std::int64_t term = 0;
  const char* end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data() + prefix.size(), end, term);
  // Names such as term-01 or term--1 are not SwarMPI's.
  if (parsed.ec != std::errc() || term < 0 || name != prefix.data() + std::to_string(term)) {
    return {};
  }
  return term;
}

std::optional<std::int64_t> term_of(const std::string& name) {
  return term_number(name, kTermPrefix);
}

/// The term that a mark names; 0 where it names none.
std::int64_t term_in(const std::string& path) {
  std::error_code unknown;
  if (!fs::is_regular_file(fs::symlink_status(path, unknown))) return 0;
  const Result<std::string> text = read_file(path);
  std::int64_t term = 0;
  if (text.ok()) (void)std::sscanf(text.value().c_str(), "term %" SCNd64, &term);
  return term;
}

/// The run goes on, and scripts take the mark for its end. That of a later term stays: the run may
/// have ended while the disk of this process hung.
Status remove_mark_before(const std::string& folder, std::int64_t term) {
  const std::string path = complete_mark_path(folder);
  if (term_in(path) > term) return {};
  if (const int error = remove_file(path)) return io_error("removing", path, error);
  return {};
}

bool is_complete(const std::string& folder, std::int64_t highest_term) {
  const Result<std::string> mark = read_file(complete_mark_path(folder));
  return mark.ok() && mark.value() == mark_text(highest_term);
}

Status end_is_missing(const std::string& folder, std::int64_t term) {
  return Status::failed(
      fmt::format("journal {} is damaged: its end is missing, though the run is complete",
                  term_path(folder, term)));
}

Status after_failed_write(const std::string& path) {
  return Status::stopped("journal " + path + ": not written, an earlier write failed");
}

}  // namespace

std::string term_path(const std::string& folder, std::int64_t term) {
  return folder + "/term-" + std::to_string(term);
}

std::vector<std::int64_t> terms_in(const std::string& folder) {
  std::vector<std::int64_t> terms;
  const FileCall call("listing", folder);
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (const auto term = term_of(at->path().filename().string())) terms.push_back(*term);
  }
  std::sort(terms.begin(), terms.end());
  return terms;
}

Result<std::unique_ptr<JournalWriter>> JournalWriter::create(const std::string& folder,
                                                             const JournalBegin& begin) {
  if (const Status created = create_folder(folder); !created.ok()) return created;
  const std::string path = term_path(folder, begin.term);
  Descriptor file = Descriptor::open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND);
  if (!file.valid() && errno == EEXIST) return std::unique_ptr<JournalWriter>();
  if (!file.valid()) return io_error("creating journal", path, errno);
  // Held until this process ends: see is_being_written(). Not all file systems have locks.
  ::flock(file.number(), LOCK_EX | LOCK_NB);
  // The file stays even if what follows fails: other processes may have seen its number.
  if (const int error = write_all(file, encode(begin))) {
    return io_error("writing journal", path, error);
  }
  std::unique_ptr<JournalWriter> writer(new JournalWriter(std::move(file), path));
  writer->records_ = 1;
  if (const Status synced = writer->sync(); !synced.ok()) return synced;
  if (Status removed = remove_mark_before(folder, begin.term); !removed.ok()) return removed;
  if (Status marked = mark_earlier_terms_over(folder, begin.term); !marked.ok()) return marked;
  if (const Status synced = sync_path(folder); !synced.ok()) return synced;
  return writer;
}

std::vector<std::string> mark_paths(const std::string& folder) {
  return {complete_mark_path(folder), end_path(folder)};
}

bool is_being_written(const std::string& folder) {
  const std::int64_t term = highest_term(folder);
  if (term == 0) return false;
  const Descriptor file = Descriptor::open(term_path(folder, term), O_RDONLY);
  return file.valid() && ::flock(file.number(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

Status JournalWriter::append(const Record& record) {
  if (broken_) return after_failed_write(path_);
  if (const int error = write_all(file_, encode(record, synced_))) {
    broken_ = true;
    return io_error("writing journal", path_, error);
  }
  ++records_;
  return {};
}

Status JournalWriter::sync() {
  if (broken_) return after_failed_write(path_);
  if (const int error = sync_descriptor(file_)) {
    broken_ = true;
    return io_error("syncing journal", path_, error);
  }
  synced_ = records_;
  return {};
}

Result<JournalContent> read_journal(const std::string& folder, std::int64_t from_term) {
  JournalFollower follower(folder, "", from_term);
  constexpr double kNoLimitS = std::numeric_limits<double>::infinity();
  if (const Result<bool> read = follower.read_on(kNoLimitS); !read.ok()) return read.status();
  JournalContent content;
  content.last = follower.last();
  content.history = follower.merge().history();
  content.highest_term = follower.highest_term();
  content.complete = is_complete(folder, content.highest_term);
  if (content.complete && follower.torn()) return end_is_missing(folder, content.highest_term);
  return content;
}

Result<JournalEnd> read_journal_end(const std::string& folder, std::int64_t from_term) {
  JournalEnd end;
  const std::vector<std::int64_t> terms = terms_in(folder);
  if (terms.empty() || terms.back() < from_term) return end;
  end.highest_term = terms.back();
  end.complete = is_complete(folder, end.highest_term);
  bool begun = false;
  for (auto term = terms.rbegin(); term != terms.rend() && *term >= from_term; ++term) {
    const Result<TermEnd> read = read_term_end(term_path(folder, *term));
    if (!read.ok()) return read.status();
    const TermEnd& of_term = read.value();
    if (end.complete && of_term.torn && *term == end.highest_term) {
      return end_is_missing(folder, *term);
    }
    if (!of_term.begin) continue;
    if (of_term.begin->term != *term) return was_renamed(folder, *term, of_term.begin->term);
    if (!begun) end.last = *of_term.begin;
    begun = true;
    end.last_step = of_term.last_step;
    if (end.last_step >= 0) break;
    // Of a run that began again at step 0 the rows before do not count.
    if (of_term.begin->from_step < 0) from_term = std::max(from_term, of_term.begin->first_term);
  }
  return end;
}

Result<std::int64_t> step_of_start(const std::string& folder, const JournalBegin& last) {
  if (last.first_term == 0) return last.from_step;
  for (const std::int64_t term : terms_in(folder)) {
    if (term < last.first_term) continue;
    const Result<TermEnd> read = read_term_end(term_path(folder, term));
    if (!read.ok()) return read.status();
    const std::optional<JournalBegin>& begin = read.value().begin;
    if (begin && begin->first_term == last.first_term) return begin->from_step;
  }
  return last.from_step;
}

std::int64_t highest_term(const std::string& folder) {
  const std::vector<std::int64_t> terms = terms_in(folder);
  return terms.empty() ? 0 : terms.back();
}

std::int64_t highest_named_term(const std::string& folder) {
  std::int64_t highest = 0;
  const auto named = [&highest](std::int64_t term) {
    if (term <= kMostTerms) highest = std::max(highest, term);
  };
  const FileCall call("listing", folder);
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    for (const std::string_view prefix : {kTermPrefix, kOverPrefix, kProofPrefix}) {
      const std::optional<std::int64_t> term = term_number(name, prefix);
      if (!term) continue;
      named(*term);
      if (prefix != kTermPrefix) named(term_in(at->path().string()));
    }
  }
  named(term_in(complete_mark_path(folder)));
  if (const std::optional<RunEnd> end = read_end(folder))
    named(std::max(end->first_term, end->term));
  return highest;
}

Status was_renamed(const std::string& folder, std::int64_t term, std::int64_t its_term) {
  return Status::failed(fmt::format("journal {} belongs to term {}: it was renamed",
                                    term_path(folder, term), its_term));
}

Status mark_complete(const std::string& folder, std::int64_t term, const MayPublish& may_publish) {
  return write_file_durably(complete_mark_path(folder), mark_text(term), may_publish);
}

Status mark_ended(const std::string& folder, const RunEnd& end, const MayPublish& may_publish) {
  const std::string text = fmt::format("run {} term {} status {}\n{}\n", end.first_term, end.term,
                                       static_cast<int>(end.code), end.why);
  return write_file_durably(end_path(folder), text, may_publish);
}

std::optional<RunEnd> read_end(const std::string& folder) {
  const Result<std::string> text = read_file(end_path(folder));
  if (!text.ok()) return std::nullopt;
  std::istringstream lines(text.value());
  std::string run, term, status;
  int code = -1;
  RunEnd end;
  lines >> run >> end.first_term >> term >> end.term >> status >> code;
  lines.get();
  std::getline(lines, end.why);
  const bool well_formed = lines && run == "run" && term == "term" && status == "status";
  if (!well_formed || code < 0 || code > 3) return std::nullopt;
  end.code = static_cast<ExitStatus>(code);
  return end;
}

std::string journal_folder(const std::string& run_file) { return run_file + ".journal"; }

}  // namespace swarmpi
