#pragma once
// Random traces of preemptible machines: failures of single peers as a Poisson process, the same
// with more of them by day than by night, and bursts in which a zone loses many of its peers.

#include <cstdint>
#include <vector>

#include "core/choices.hpp"
#include "hardware/preemption_trace.hpp"

namespace swarmpi {

struct TraceModel {
  enum class Kind : std::uint8_t { poisson, diurnal, burst };
  Kind kind = Kind::poisson;
  std::int64_t peers = 1;  ///< at the start: 0 to peers - 1
  double hours = 1;
  double mtbf_s = 4 * 3600;  ///< mean time between failures of one peer
  double return_s = 0;       ///< mean time until a newcomer joins for a dead peer; 0: none joins
  std::uint64_t seed = 1;
};

constexpr auto names_of(TraceModel::Kind) { return names({"poisson", "diurnal", "burst"}); }

/// Kills, and joins of newcomers with ids from `peers` on, in order of time.
std::vector<TraceEvent> make_trace(const TraceModel& model);

}  // namespace swarmpi
