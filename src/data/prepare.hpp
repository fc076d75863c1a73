#pragma once
// `swarmpi prepare`: joins text files and folders into one file of byte tokens.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/status.hpp"

namespace swarmpi {

/// Files of one kind that prepare leaves out.
struct LeftOut {
  std::int64_t files = 0;
  std::string first;  ///< the first of them, by path

  void add(const std::string& path) {
    if (files++ == 0) first = path;
  }
};

struct PreparedText {
  std::int64_t files = 0;
  std::int64_t bytes = 0;
  std::int64_t duplicates = 0;  ///< files left out because their content was there already
  std::map<std::string, LeftOut> foreign;  ///< each foreign_file(), by what it is and what to do
  LeftOut binary;                          ///< with NUL bytes
  LeftOut utf16;                           ///< they begin with the mark of UTF-16 or UTF-32
  LeftOut not_utf8;                        ///< text of another encoding, or none
  LeftOut unreadable;                      ///< files, and folders
  bool was_there = false;                  ///< with this very content: nothing was written

  std::int64_t not_text() const;
  /// A line for each kind of files that were left out, with what to do; "" for none.
  std::string advice() const;
};

enum class Existing : std::uint8_t { keep, replace };

/// Writes `out` atomically: all text files under `sources` (folders recursively, following no
/// links), sorted by path, each content once, separated by a newline. The result depends on the
/// files' names and contents alone. Errors: bad_input; also where `out` holds something else
/// already, which is to be kept.
Result<PreparedText> prepare_text(const std::string& out, const std::vector<std::string>& sources,
                                  Existing existing = Existing::keep);

}  // namespace swarmpi
