#include "io/rows/row_thinning.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "core/hash.hpp"

namespace swarmpi {

namespace {

/// The same for all runs and machines, in [0, 1).
double place_of(const PeerRow& row) {
  const std::int64_t numbers[] = {row.step, row.peer, row.stage};
  constexpr double kUnit = 1.0 / 9007199254740992.0;  // 2^-53
  return static_cast<double>(hash_bytes(numbers, sizeof numbers) >> 11) * kUnit;
}

}  // namespace

bool RowThinning::keeps(const Record& row) {
  if (const auto* step = std::get_if<StepRow>(&row)) {
    const double seconds = step->time_s - std::exchange(last_time_s_, step->time_s);
    const auto expected = static_cast<double>(std::exchange(rows_, 0));
    // Where the run has gone back to a checkpoint, time has as well.
    if (seconds > 0 && expected > 0) {
      fraction_ = std::min(1.0, kRowsPerMinute / 60 * seconds / expected);
    }
    return true;
  }
  const auto* const peer = std::get_if<PeerRow>(&row);
  if (peer == nullptr) return true;
  ++rows_;
  return place_of(*peer) < fraction_;
}

}  // namespace swarmpi
