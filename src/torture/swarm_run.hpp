#pragma once
// One run in virtual time from its start to its end, watched by the referee.

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

/// A request to these peers to stop, as by a signal.
struct StopRequest {
  std::int64_t after_events = 0;
  std::vector<PeerId> peers;
};

/// A peer that joins a running swarm.
struct Newcomer {
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
  std::vector<Newcomer> joins;
  CollectiveModel* collectives = nullptr;  ///< where the plan has some
  bool states_may_differ =
      false;  ///< the referee leaves it to the core to find replicas that differ
  bool state_holds_up_messages = false;  ///< they wait in line behind pieces that take long
  double most_s = 600;                   ///< a run that takes longer hangs
  std::int64_t most_events = 1'000'000;  ///< likewise; of a crowd as many more as it has pairs
};

struct SwarmEnd {
  std::string violation;  ///< the first rule that was broken; "" if none was
  Status status;          ///< how all peers ended
  RunRecord run_record;   ///< as the journal has it
  std::vector<DeathCost> deaths;
  std::string injected;  ///< the faults that happened: to whom, and when
  FaultCounts faults{};
  MomentCounts moments{};             ///< at which they happened
  std::int64_t joined = 0;            ///< peers that were let in
  CollectiveCounts collectives;       ///< what came of them
  MoveCounts moves{};                 ///< how the moves of Algorithm 2 ended
  std::int64_t came_back = 0;         ///< times that a peer whose disk had hung could lead again
  std::int64_t given_up_loading = 0;  ///< peers that could not load their stages
  bool stage_was_lost = false;        ///< all peers that served it at the start have died
  bool nobody_is_left = false;
  bool lacked_memory = false;  ///< the run ended for it
  std::int64_t refusals = 0;   ///< stages for which a peer had no memory left
  bool was_cut_off = false;    ///< a peer ended because it could not reach the others
  std::int64_t events = 0;
  std::int64_t jobs = 0;
  std::int64_t recomputed = 0;  ///< backward passes without kept activations, but in the last stage
  std::int64_t repairs = 0;     ///< microbatches that were sent or issued again, each time
  double seconds = 0;
};

/// Runs the swarm on `disk`, whose journal is empty. `observer` may be null.
SwarmEnd run_swarm(const SwarmSetting& setting, LinkModel& links, CostModel& costs,
                   DiskModel& disks, VirtualDisk& disk, Observer* observer = nullptr);

}  // namespace swarmpi
