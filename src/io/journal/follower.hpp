#pragma once
// The merged history of a journal to which somebody appends: it is read on from where it was.

#include <cstdint>
#include <map>
#include <string>

#include "core/status.hpp"
#include "io/journal/merge.hpp"
#include "io/journal/term_reader.hpp"

namespace swarmpi {

class JournalFollower {
 public:
  /// `scratch_path`: as of JournalMerge. `from_term`: earlier ones are not looked at.
  explicit JournalFollower(std::string folder, const std::string& scratch_path = "",
                           std::int64_t from_term = 0)
      : folder_(std::move(folder)), from_term_(from_term), merge_(scratch_path) {}

  /// Reads on for about so long; true once all is read that is there. After an error it must be
  /// made anew. Errors: failed, where the journal contradicts itself or is damaged; bad_input
  /// (foreign, of another version); stopped.
  Result<bool> read_on(double limit_s);
  /// Whether the file of an earlier term was not seen, or has changed, since a later one was read:
  /// a leader that was taken for dead has synced rows. Then the history must be read anew.
  bool missed_rows() const;

  JournalMerge& merge() { return merge_; }
  /// Of the newest term that has begun.
  const JournalBegin& last() const { return last_; }
  std::int64_t highest_term() const { return readers_.empty() ? 0 : readers_.rbegin()->first; }
  /// Whether bytes at the end of the newest term are no whole record.
  bool torn() const { return !readers_.empty() && readers_.rbegin()->second.torn(); }

 private:
  Status read_some(std::int64_t term, TermReader& reader);

  std::string folder_;
  std::int64_t from_term_;
  JournalMerge merge_;
  JournalBegin last_;
  std::map<std::int64_t, TermReader> readers_;  // of the terms so far; the last is read on
};

}  // namespace swarmpi
