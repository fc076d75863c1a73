#pragma once
// Reads a term file from its start on, record by record, also while somebody appends to it.

#include <cstdint>
#include <functional>
#include <string>

#include "core/status.hpp"
#include "io/journal/format.hpp"

namespace swarmpi {

class TermReader {
 public:
  explicit TermReader(std::string path) : path_(std::move(path)) {}

  /// Hands on the whole records that have come since, in order, some megabytes of them at most; the
  /// first of the file is a JournalBegin. Errors: those of `begin` and `use`; stopped, where it
  /// cannot be read; failed (damaged); bad_input (of another version, not a journal).
  Status read(const std::function<Status(const JournalBegin&)>& begin,
              const std::function<Status(const Record&)>& use);
  /// Whether read() has come to the end of what there is.
  bool at_end() const { return at_end_; }
  /// Whether bytes follow that are no whole record.
  bool torn() const { return torn_; }
  bool begun() const { return records_ > 0; }
  /// Whether the file has other bytes behind those that were read than at the last read().
  bool has_grown() const;

 private:
  Status use_frames(std::string_view bytes, std::size_t& used,
                    const std::function<Status(const JournalBegin&)>& begin,
                    const std::function<Status(const Record&)>& use);

  std::string path_;
  std::int64_t offset_ = 0;  // of the first record that was not read yet
  std::int64_t seen_bytes_ = 0;
  std::uint64_t records_ = 0;
  int version_ = 0;  // 0: not known yet
  bool at_end_ = false;
  bool torn_ = false;
};

}  // namespace swarmpi
