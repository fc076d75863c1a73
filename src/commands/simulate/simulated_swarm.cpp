#include "commands/simulate/simulated_swarm.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "commands/train/preemption.hpp"
#include "model/cost.hpp"
#include "runtime/assembly.hpp"

namespace swarmpi {
namespace {

std::shared_ptr<const RunPlan> plan_of(const Config& config, const std::vector<StageSpec>& specs,
                                       const std::vector<TraceEvent>& faults,
                                       const InitialMembership& membership, bool check) {
  RunPlan plan = make_plan(config, specs, std::ssize(membership.workers));
  plan.validate_every = 0;
  plan.recovers = config.swarm.recovery != Recovery::off;
  plan.kept_bytes = plan.recovers ? kept_for_repairs_bytes(config) : 0;
  plan.between_deaths_s = between_deaths_s(config, faults);
  if (config.train.max_hours > 0) plan.stops_at_s = 3600 * config.train.max_hours;
  for (const TraceEvent& event : faults) {
    const bool silent = event.event == FaultEvent::stop || event.event == FaultEvent::go_on ||
                        event.event == FaultEvent::cut || event.event == FaultEvent::heal;
    if (silent) plan.faults_by_clock.push_back(event);
  }
  plan.torture_only.checks_counts = check;
  plan.share_blocks();
  return std::make_shared<const RunPlan>(std::move(plan));
}

}  // namespace

SimulatedSwarm::SimulatedSwarm(const Config& config, std::vector<TraceEvent> faults,
                               RunJournal& journal, bool check)
    : config_(config),
      journal_(journal),
      specs_(partition_model(config)),
      membership_(make_membership(config.swarm.peers, config.swarm.spares)),
      plan_(plan_of(config, specs_, faults, membership_, check)),
      first_view_(swarmpi::first_view(*plan_, membership_)),
      model_(config, *plan_),
      links_(config),
      costs_(config, specs_),
      world_(links_, costs_, disks_, disk_),
      faults_(config, std::move(faults), world_,
              [this](PeerId peer, double at_s) { add(peer, at_s); }) {
  disk_.sink = &journal;
  disk_.keeps_journal = check;
  if (check) {
    referee_.emplace(*plan_, membership_, resume_, disk_);
    referee_->expect_slow_work();
    world_.watch(*referee_);
  }
  for (const PeerId peer : membership_.all()) add(peer, 0);
}

// A newcomer asks those who are there now: of the peers of the start none may be left.
void SimulatedSwarm::add(PeerId peer, double start_s) {
  InitialMembership membership = membership_;
  if (!membership.contains(peer)) {
    constexpr std::size_t kMostContacts = 16;
    std::vector<PeerId> there = world_.active_peers();
    if (there.size() > kMostContacts) there.resize(kMostContacts);
    membership.join_contacts = std::move(there);
    if (referee_) referee_->expect_newcomer(peer);
  }
  computes_.push_back(std::make_unique<HollowCompute>(peer, model_, resume_));
  world_.add(peer, std::make_unique<Peer>(peer, plan_, std::move(membership), resume_),
             *computes_.back(), start_s, 0);
}

std::string SimulatedSwarm::broken_rule() const {
  if (!world_.violation().ok()) return world_.violation().message();
  return referee_ ? referee_->violation() : "";
}

// That of whoever reports how the run ended: of others the first who lives.
Status SimulatedSwarm::status() const {
  if (disk_.complete()) return {};
  std::optional<Status> first;
  for (const std::unique_ptr<HollowCompute>& compute : computes_) {
    const PeerId id = compute->self();
    if (world_.dead(id) || !world_.peer(id).done()) continue;
    const Peer& peer = world_.peer(id);
    if (peer.reports_outcome()) return peer.status();
    if (!first) first = peer.status();
  }
  return first.value_or(Status::stopped("no peer is left"));
}

SimulatedEnd SimulatedSwarm::run(const std::function<bool()>& interrupted) {
  SimulatedEnd end;
  bool goes_on = true;
  while (goes_on && !world_.all_done() && journal_.status().ok()) {
    if (interrupted()) {
      end.status = Status::stopped("interrupted");
      break;
    }
    faults_.apply_due();
    goes_on = world_.step() && broken_rule().empty();
  }
  end.violation = broken_rule();
  if (end.violation.empty() && referee_ && world_.all_done()) {
    end.violation = referee_->at_the_end(world_);
  }
  if (end.violation.empty() && !goes_on && !world_.all_done()) {
    end.violation = "nothing happens any more, and peers wait: " + world_.waiting_for();
  }
  if (end.status.ok()) end.status = journal_.status();
  if (end.status.ok() && world_.all_done()) end.status = status();
  end.complete = disk_.complete();
  end.events = world_.events();
  end.simulated_s = world_.now_s();
  end.peers = std::ssize(computes_);
  end.sent_bytes = links_.sent_bytes();
  return end;
}

}  // namespace swarmpi
