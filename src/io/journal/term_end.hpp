#pragma once
// The end of a term file, without what is before it.

#include <cstdint>
#include <optional>
#include <string>

#include "core/status.hpp"
#include "io/journal/journal.hpp"

namespace swarmpi {

struct TermEnd {
  std::optional<JournalBegin> begin;  ///< nothing where its first record never got to disk
  std::int64_t last_step = -1;        ///< of the last row of /steps; -1: there is none
  bool torn = false;                  ///< bytes follow that are no whole record
};

/// Reads the first record, and as much of the end as holds a row of /steps and proves that no
/// record before is broken: a record says how many were durable before it. Errors: as of a
/// TermReader; what is damaged before the end is not found.
Result<TermEnd> read_term_end(const std::string& path);

}  // namespace swarmpi
