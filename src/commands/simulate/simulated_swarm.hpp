#pragma once
// The swarm of a deck in virtual time: the peers of the protocol on the deck's machines, with its
// faults, in this process.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "commands/simulate/virtual_faults.hpp"
#include "config/config.hpp"
#include "model/tensors.hpp"
#include "protocol/membership/initial_membership.hpp"
#include "protocol/run_plan.hpp"
#include "simulation/deck_models.hpp"
#include "simulation/hollow_compute.hpp"
#include "simulation/run_journal.hpp"
#include "simulation/world.hpp"
#include "torture/referee.hpp"

namespace swarmpi {

/// How a simulated run ended.
struct SimulatedEnd {
  Status status;
  std::string violation;  ///< of a rule of the protocol; "" if none was broken
  bool complete = false;
  std::int64_t events = 0;
  double simulated_s = 0;
  std::int64_t peers = 0;  ///< that were there at any time
  std::int64_t sent_bytes = 0;
};

class SimulatedSwarm {
 public:
  /// `faults`: as of preemption_of_all(). `check`: torture's referee watches. REQUIRES: a checked
  /// deck whose peers all have devices; `config` and `journal` outlive this.
  SimulatedSwarm(const Config& config, std::vector<TraceEvent> faults, RunJournal& journal,
                 bool check);

  void watch(Observer& observer) { world_.watch(observer); }
  /// Until the run has ended, or `interrupted` says so.
  SimulatedEnd run(const std::function<bool()>& interrupted);
  std::int64_t events() const { return world_.events(); }
  double now_s() const { return world_.now_s(); }
  const View& first_view() const { return first_view_; }
  const std::vector<StageSpec>& specs() const { return specs_; }

 private:
  void add(PeerId peer, double start_s);
  std::string broken_rule() const;
  Status status() const;

  const Config& config_;
  RunJournal& journal_;
  std::vector<StageSpec> specs_;
  InitialMembership membership_;
  std::shared_ptr<const RunPlan> plan_;
  View first_view_;
  ResumeState resume_;
  HollowModel model_;
  NetworkLinks links_;
  DeviceCosts costs_;
  PlainDisk disks_;
  VirtualDisk disk_;
  std::vector<std::unique_ptr<HollowCompute>> computes_;
  VirtualWorld world_;
  std::optional<Referee> referee_;
  VirtualFaults faults_;
};

}  // namespace swarmpi
