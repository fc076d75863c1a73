#include "torture/swarm_run.hpp"

#include <algorithm>
#include <cstddef>

#include "protocol/messages/process_port.hpp"
#include "torture/fault_injector.hpp"

namespace swarmpi {
namespace {

constexpr std::int64_t kEventsBetweenQuestions = 199;
constexpr std::size_t kUsualPeers = 16;

void ask_to_stop(VirtualWorld& world, const StopRequest& stop) {
  for (const PeerId id : stop.peers) {
    world.post(world.now_s(), id, StopRequested{"somebody asked"});
  }
}

// The status of the run: complete, or that of the first live member. A peer that was cut off does
// not know that others went on.
Status run_status(const VirtualWorld& world, const Referee& referee, const VirtualDisk& disk) {
  if (disk.complete()) return Status();
  for (const PeerId id : referee.members()) {
    if (!world.dead(id)) return world.peer(id).status();
  }
  return Status::stopped("nobody is left");
}

}  // namespace

SwarmEnd run_swarm(const SwarmSetting& setting, LinkModel& links, CostModel& costs,
                   DiskModel& disks, VirtualDisk& disk, Observer* observer) {
  disk.resumed_from = setting.resume.step;
  VirtualWorld world(links, costs, disks, disk);
  if (setting.collectives != nullptr) {
    world.have_collectives(*setting.collectives, setting.plan.train.microbatches);
  }
  Referee referee(setting.plan, setting.membership, setting.resume, disk);
  FaultInjector injector(setting.faults, setting.plan, setting.membership, world, referee);
  if (setting.states_may_differ) referee.ignore_state_differences();
  if (setting.state_holds_up_messages) referee.expect_slow_work();
  if (observer != nullptr) world.watch(*observer);
  world.watch(referee);
  // Last: when it kills at an event, the other observers have seen that event.
  if (!setting.faults.all.empty()) world.watch(injector);
  std::vector<std::unique_ptr<VirtualCompute>> computes;
  for (const PeerId id : setting.membership.all()) {
    computes.push_back(setting.compute(id));
    world.add(id, std::make_unique<Peer>(id, setting.plan, setting.membership, setting.resume),
              *computes.back(), setting.start_s ? setting.start_s(id) : 0,
              setting.clock_offset_s ? setting.clock_offset_s(id) : 0);
  }
  for (const Newcomer& newcomer : setting.joins) {
    referee.expect_newcomer(newcomer.peer);
    computes.push_back(setting.compute(newcomer.peer));
    world.add(
        newcomer.peer,
        std::make_unique<Peer>(newcomer.peer, setting.plan, setting.membership, setting.resume),
        *computes.back(), newcomer.at_s, 0);
  }
  bool stop_asked = false;
  // Each of a crowd that waits for one whose jobs hang pings all others.
  const std::size_t peers = setting.membership.all().size() + setting.joins.size();
  const auto crowds = static_cast<std::int64_t>(peers * peers / (kUsualPeers * kUsualPeers));
  const std::int64_t most_events = setting.most_events * std::max<std::int64_t>(crowds, 1);
  while (world.events() < most_events && world.now_s() < setting.most_s) {
    // waiting_for() must work at any time.
    if (world.events() % kEventsBetweenQuestions == 0) (void)world.waiting_for();
    if (setting.stop && !stop_asked && world.events() >= setting.stop->after_events) {
      stop_asked = true;
      ask_to_stop(world, *setting.stop);
    }
    if (!world.step() || !referee.violation().empty()) break;
  }
  SwarmEnd end;
  end.violation = world.violation().ok() ? referee.at_the_end(world) : world.violation().message();
  if (end.violation.empty() && referee.somebody_was_cut_off() && !setting.faults.has_silence() &&
      !setting.faults.has_hangs()) {
    end.violation = "a peer ended as cut off, though no peer was stopped and no link was cut";
  }
  const std::string journal = add_journal(end.run_record, disk, Step(setting.resume.step));
  if (end.violation.empty() && !journal.empty()) end.violation = "the journal: " + journal;
  end.run_record.commits = referee.commits();
  end.deaths = referee.deaths();
  end.injected = injector.text();
  end.faults = injector.counts();
  end.moments = injector.moments();
  end.joined = referee.joined();
  end.moves = referee.moves();
  end.collectives = referee.collectives();
  end.came_back = referee.came_back();
  end.given_up_loading = referee.given_up_loading();
  end.stage_was_lost = referee.stage_was_lost();
  end.nobody_is_left = end.violation.empty() && referee.members().empty();
  end.lacked_memory = referee.lacked_memory();
  end.refusals = referee.refusals();
  end.was_cut_off = referee.somebody_was_cut_off();
  end.events = world.events();
  end.jobs = referee.jobs();
  end.recomputed = referee.recomputed();
  end.repairs = referee.repairs();
  end.seconds = world.now_s();
  if (end.violation.empty()) end.status = run_status(world, referee, disk);
  return end;
}

}  // namespace swarmpi
