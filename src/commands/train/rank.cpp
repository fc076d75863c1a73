#include "commands/train/rank.hpp"

#include <unistd.h>

#include <csignal>
#include <optional>
#include <utility>

#include "commands/train/newcomer.hpp"
#include "core/check.hpp"
#include "core/clock.hpp"
#include "core/machine.hpp"
#include "emulation/emulated_peer_host.hpp"
#include "emulation/fault_clock.hpp"
#include "transport/loopback.hpp"
#include "transport/mpi/mpi_transport.hpp"

namespace swarmpi {
namespace {

// From an emulated death until the others hear of it: about what ULFM takes on one host.
constexpr double kDetectionS = 5e-3;
// How often a process without a peer looks whether the others have one.
constexpr double kLookS = 0.05;

bool emulates_preemption(const Preparation& run) { return run.config.faults.mode == "emulated"; }

// To this very process.
void inject_fault(const std::string& event, Inbox& inbox) {
  if (event == "notice") return inbox.post(StopRequested{"told to go by the deck"});
  SWARMPI_CHECK(event == "kill", "a fault that a process can do to itself");
  kill(getpid(), SIGKILL);
}

// The peer is the process, and falls with it.
Outcome run_peer_once(Preparation& run, Stages stages, Transport& transport, PayloadPool& payloads,
                      PeerEnvironment environment, Inbox& inbox, bool quiet) {
  environment.inject_fault = [&](const std::string& event) { inject_fault(event, inbox); };
  const FaultClock clock(run.preemption.here, run.start.state.time_s,
                         [&](const TraceEvent& event) { inject_fault(event.event, inbox); });
  return run_peer(run, std::move(stages), transport, payloads, environment, inbox, quiet);
}

Outcome nobody_is_left(bool reports_outcome) {
  return {Status::stopped("no peer is left"), reports_outcome};
}

// ---- Emulated preemption

class Rank {
 public:
  Rank(Preparation& run, MpiTransport& transport, EmulatedPeerHost& host, Inbox& inbox)
      : run_(run), transport_(transport), host_(host), inbox_(inbox) {}

  Outcome run_peers(Stages stages, PayloadPool& payloads, PeerEnvironment environment, bool quiet) {
    environment.emulated_process = &host_.emulated_process();
    environment.inject_fault = [&](const std::string& event) {
      host_.inject_fault({0, event, run_.self.value});
    };
    const FaultClock clock(run_.preemption.here, run_.start.state.time_s,
                           [&](const TraceEvent& event) { host_.inject_fault(event); });
    while (true) {
      const Outcome outcome =
          run_peer(run_, std::move(stages), transport_, payloads, environment, inbox_, quiet);
      if (!outcome.died && !outcome.left) {
        transport_.part(outcome.saw_the_end);
        return outcome;
      }
      finish_death();
      if (!await_next()) break;
      stages.clear();
    }
    if (transport_.anybody_saw_the_end()) return {Status(), false};
    return nobody_is_left(transport_.is_first());
  }

 private:
  // All that was the peer's is gone by now.
  void finish_death() {
    transport_.fall_silent();
    host_.clear();
    const WallClock clock;
    while (clock.now_s() < kDetectionS) {
      transport_.wait(inbox_.descriptor(), kDetectionS - clock.now_s());
      host_.clear();
    }
    transport_.announce_death(run_.self);
  }

  // Says whether another has come, before all others have parted.
  bool await_next() {
    bool parted = false;
    while (true) {
      while (transport_.receive()) {
      }
      host_.clear();
      // Nobody comes to a run that has ended, or to nobody.
      const bool over = transport_.anybody_saw_the_end() || transport_.all_others_parted();
      if (!parted && (over || !host_.expects_newcomers())) {
        parted = true;
        transport_.part(false);
      }
      const std::optional<PeerId> next = parted ? std::nullopt : host_.admit_next();
      if (next) {
        admit(*next);
        return true;
      }
      if (parted && transport_.all_others_parted()) return false;
      transport_.wait(inbox_.descriptor(), kLookS);
    }
  }

  void admit(PeerId self) {
    run_.self = self;
    run_.membership.join_contacts.clear();
    for (const TraceEvent& join : run_.preemption.joins) {
      if (join.peer == self.value) break;
      run_.membership.join_contacts.emplace_back(static_cast<std::int32_t>(join.peer));
    }
    transport_.admit(self);
  }

  Preparation& run_;
  MpiTransport& transport_;
  EmulatedPeerHost& host_;
  Inbox& inbox_;
};

}  // namespace

Outcome run_alone(Preparation& run, Stages stages, Inbox& inbox, bool quiet) {
  PayloadPool payloads;
  LoopbackTransport transport(run.self);
  PeerEnvironment environment{host_name()};
  if (!emulates_preemption(run)) {
    return run_peer_once(run, std::move(stages), transport, payloads, environment, inbox, quiet);
  }
  EmulatedPeerHost host(run.self, run.preemption.here, inbox);
  environment.emulated_process = &host.emulated_process();
  environment.inject_fault = [&](const std::string& event) {
    host.inject_fault({0, event, run.self.value});
  };
  const FaultClock clock(run.preemption.here, run.start.state.time_s,
                         [&](const TraceEvent& event) { host.inject_fault(event); });
  Outcome outcome =
      run_peer(run, std::move(stages), transport, payloads, environment, inbox, quiet);
  return outcome.died ? nobody_is_left(true) : outcome;
}

Outcome run_rank(Preparation& run, Stages stages, MpiSession& session, const std::string& hosts,
                 Inbox& inbox, bool quiet) {
  PayloadPool payloads;
  PeerEnvironment environment{hosts, session.ranks_on_host(), session.reports_lost_ranks()};
  if (!emulates_preemption(run)) {
    MpiTransportOptions options;
    if (run.config.swarm.spawn) {
      options.spawned_arguments = arguments_of_spawned();
      options.start_info = [&](PeerId newcomer) {
        return newcomer_info(run, newcomer, session.ranks_on_host());
      };
    }
    MpiTransport transport(session, payloads, options);
    return run_peer_once(run, std::move(stages), transport, payloads, environment, inbox, quiet);
  }
  environment.recovers = true;
  EmulatedPeerHost host(run.self, run.preemption.here, inbox);
  MpiTransportOptions options;
  options.rank_of = [&placement = run.preemption.placement](PeerId peer) {
    const auto found = placement.find(peer.value);
    return found == placement.end() ? -1 : found->second;
  };
  options.emulated_process = &host.emulated_process();
  MpiTransport transport(session, payloads, options);
  return Rank(run, transport, host, inbox)
      .run_peers(std::move(stages), payloads, environment, quiet);
}

}  // namespace swarmpi
