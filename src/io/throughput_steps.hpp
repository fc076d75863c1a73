#pragma once
// The column /throughput/step of a run file. It is in no journal: the step of a row is the one that
// was committed at its time.

#include <cstdint>

#include "io/descriptor.hpp"
#include "io/table_rows.hpp"

namespace swarmpi {

/// Steps are looked up so many at a time: memory does not depend on their number.
inline constexpr std::size_t kStepsAtOnce = std::size_t{1} << 17;

/// Writes the step of each row of /throughput to `file`, from `offset` on; -1 for a step that was
/// made again after the run had gone back, and has another time since. Returns 0 or an errno.
int write_throughput_steps(TableRows& rows, const Descriptor& file, std::int64_t offset,
                           std::size_t steps_at_once = kStepsAtOnce);

}  // namespace swarmpi
