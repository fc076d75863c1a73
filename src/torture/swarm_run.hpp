#pragma once
// One run in virtual time from its start to its end, under the referee's eyes.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "simulation/world.hpp"
#include "torture/fault_schedule.hpp"
#include "torture/referee.hpp"
#include "torture/run_record.hpp"

namespace swarmpi {

/// Somebody asks these peers to stop.
struct StopRequest {
  std::int64_t after_events = 0;
  std::vector<PeerId> peers;
};

/// Somebody comes who was not there at the start.
struct Joining {
  PeerId peer;
  double at_s = 0;
};

struct SwarmSetting {
  RunPlan plan;
  InitialMembership membership;
  ResumeState resume;
  std::function<std::unique_ptr<VirtualCompute>(PeerId)> compute;
  std::function<double(PeerId)> start_s;         ///< empty: all at once
  std::function<double(PeerId)> clock_offset_s;  ///< empty: none
  std::optional<StopRequest> stop;
  FaultSchedule faults;
  std::vector<Joining> joins;
  bool states_may_differ = false;        ///< replicas' states: a fault that the core is to find
  double most_s = 600;                   ///< a run that takes longer hangs
  std::int64_t most_events = 1'000'000;  ///< likewise
};

struct SwarmEnd {
  std::string fault;     ///< what was against the rules; "" if nothing
  Status status;         ///< how all peers ended
  RunRecord run_record;  ///< as it was written down
  std::vector<DeathCost> deaths;
  std::string killed;  ///< what happened to whom, and when
  FaultCounts faults{};
  MomentCounts moments{};       ///< at which it did
  std::int64_t joined = 0;      ///< peers that were let in
  bool stage_was_lost = false;  ///< with all who served it at the start
  bool nobody_is_left = false;
  bool was_cut_off = false;  ///< somebody, by all others or by one who leads
  std::int64_t events = 0;
  std::int64_t jobs = 0;
  double seconds = 0;
};

/// Runs the swarm on `disk`, whose journal is empty. `trace`: hears everything too.
SwarmEnd run_swarm(const SwarmSetting& setting, LinkModel& links, CostModel& costs,
                   DiskModel& disks, VirtualDisk& disk, Observer* trace = nullptr);

}  // namespace swarmpi
