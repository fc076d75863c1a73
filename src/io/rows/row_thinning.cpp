#include "io/rows/row_thinning.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "core/hash.hpp"

namespace swarmpi {

namespace {

/// The same for all runs and machines, in [0, 1).
double place_of(std::int64_t step, std::int64_t peer, std::int64_t stage) {
  const std::int64_t numbers[] = {step, peer, stage};
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
  return place_of(peer->step, peer->peer, peer->stage) < fraction_;
}

std::optional<GoodputRow> RowThinning::thinned(const GoodputRow& row) {
  constexpr std::int64_t kAllStages = -1;
  GoodputRow sum = row;
  if (const auto before = left_out_.extract(row.peer); !before.empty()) sum += before.mapped();
  if (place_of(row.step, row.peer, kAllStages) < fraction_) return sum;
  left_out_[row.peer] = sum;
  return std::nullopt;
}

std::vector<GoodputRow> RowThinning::rest() {
  std::vector<GoodputRow> rows;
  for (const auto& [peer, row] : std::exchange(left_out_, {})) rows.push_back(row);
  return rows;
}

}  // namespace swarmpi
