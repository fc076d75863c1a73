#pragma once
// Several runs beside each other: what came out, and what differs in their decks.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/run_file.hpp"

namespace swarmpi {

/// What one line of the table tells.
struct RunFigures {
  std::string name;
  RunFileHead head;
  std::int64_t steps = 0;    ///< that were trained, skipped ones included
  std::int64_t skipped = 0;  ///< of them
  double loss = 0;           ///< the last; NaN where there are no steps
  double held_out = 0;       ///< the last; NaN where there is none
  std::int64_t tokens = 0;
  double seconds = 0;                     ///< in which they were trained on
  double time_s = 0;                      ///< of the last step
  std::optional<std::int64_t> peers = 0;  ///< that did a microbatch; none: nobody knows
  std::int64_t lost = 0;                  ///< peers that died
};

/// Reads each row but those of throughput once; its memory does not grow with their number.
RunFigures figures_of(const std::string& name, const RunFileHead& head, TableRows& rows);

/// A line for each run, with the keys of the deck in which they differ (but for where they write),
/// each value of a table's row by itself, versions and fingerprints where these differ, and
/// verdicts where not all are valid and complete.
std::string run_table(const std::vector<RunFigures>& runs, std::size_t columns);

}  // namespace swarmpi
