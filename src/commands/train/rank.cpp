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

// From an emulated death until it is announced to the other ranks: about what ULFM takes to report
// a real one on one host.
constexpr double kDetectionS = 5e-3;
// How often a rank without a peer looks whether another peer has come or the run is over.
constexpr double kPollS = 0.05;

bool emulates_preemption(const PreparedRun& run) {
  return run.config.faults.mode == FaultsMode::emulated;
}

// To this process, which is its peer.
void inject_fault(FaultEvent event, Inbox& inbox) {
  if (event == FaultEvent::notice)
    return inbox.post(StopRequested{"preemption notice from [faults] in the deck"});
  SWARMPI_CHECK(event == FaultEvent::kill, "a process can inject only kill and notice into itself");
  kill(getpid(), SIGKILL);
}

// Runs a peer whose death is that of the process.
Outcome run_peer_once(PreparedRun& run, Stages stages, Transport& transport, PayloadPool& payloads,
                      PeerEnvironment environment, Inbox& inbox, bool quiet) {
  environment.inject_fault = [&](FaultEvent event) { inject_fault(event, inbox); };
  const FaultClock clock(run.preemption.local_events, run.start.state.time_s,
                         [&](const TraceEvent& event) { inject_fault(event.event, inbox); });
  return run_peer(run, std::move(stages), transport, payloads, environment, inbox, quiet);
}

Outcome no_peer_left(bool reports_outcome) {
  return {.status = Status::stopped("no peer is left: all were killed or preempted, by [faults] in "
                                    "the deck or for their silence"),
          .reports_outcome = reports_outcome};
}

// ---- Emulated preemption

// A rank whose peers die without the process: after each death the next peer of the placement may
// join from here.
class EmulatedRank {
 public:
  EmulatedRank(PreparedRun& run, MpiTransport& transport, EmulatedPeerHost& host, Inbox& inbox)
      : run_(run), transport_(transport), host_(host), inbox_(inbox) {}

  Outcome run_peers(Stages stages, PayloadPool& payloads, PeerEnvironment environment, bool quiet) {
    environment.emulated_process = &host_.emulated_process();
    environment.inject_fault = [&](FaultEvent event) {
      host_.inject_fault({0, event, run_.self.value});
    };
    const FaultClock clock(run_.preemption.local_events, run_.start.state.time_s,
                           [&](const TraceEvent& event) { host_.inject_fault(event); });
    while (true) {
      const Outcome outcome =
          run_peer(run_, std::move(stages), transport_, payloads, environment, inbox_, quiet);
      if (!outcome.died && !outcome.departed) {
        transport_.part(outcome.saw_the_end);
        return outcome;
      }
      finish_death();
      if (!await_newcomer()) break;
      stages.clear();
    }
    if (transport_.anybody_saw_the_end()) return {.reports_outcome = false};
    return no_peer_left(transport_.is_first());
  }

 private:
  // Makes a death known. The peer and its stages are destroyed by now.
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

  // Waits until the next peer comes to this rank: true; or until all other ranks have parted:
  // false.
  bool await_newcomer() {
    bool parted = false;
    while (true) {
      while (transport_.receive()) {
      }
      host_.clear();
      // No peer can join a run that has ended, or one without other ranks.
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
      transport_.wait(inbox_.descriptor(), kPollS);
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

  PreparedRun& run_;
  MpiTransport& transport_;
  EmulatedPeerHost& host_;
  Inbox& inbox_;
};

}  // namespace

Outcome run_alone(PreparedRun& run, Stages stages, Inbox& inbox, bool quiet) {
  PayloadPool payloads;
  LoopbackTransport transport(run.self);
  PeerEnvironment environment{host_name()};
  if (!emulates_preemption(run)) {
    return run_peer_once(run, std::move(stages), transport, payloads, environment, inbox, quiet);
  }
  EmulatedPeerHost host(run.self, run.preemption.local_events, inbox);
  environment.emulated_process = &host.emulated_process();
  environment.inject_fault = [&](FaultEvent event) {
    host.inject_fault({0, event, run.self.value});
  };
  const FaultClock clock(run.preemption.local_events, run.start.state.time_s,
                         [&](const TraceEvent& event) { host.inject_fault(event); });
  Outcome outcome =
      run_peer(run, std::move(stages), transport, payloads, environment, inbox, quiet);
  return outcome.died ? no_peer_left(true) : outcome;
}

Outcome run_rank(PreparedRun& run, Stages stages, MpiSession& session, const std::string& hosts,
                 Inbox& inbox, bool quiet) {
  PayloadPool payloads;
  PeerEnvironment environment{hosts, session.ranks_on_host(), session.reports_lost_ranks()};
  if (!emulates_preemption(run)) {
    MpiTransportOptions options;
    if (run.config.swarm.spawn) {
      options.spawned_arguments = arguments_of_spawned();
      options.start_info = [&](PeerId newcomer) {
        return packed_newcomer_info(run, newcomer, session.ranks_on_host());
      };
    }
    MpiTransport transport(session, payloads, options);
    return run_peer_once(run, std::move(stages), transport, payloads, environment, inbox, quiet);
  }
  environment.recovers = true;
  EmulatedPeerHost host(run.self, run.preemption.local_events, inbox);
  MpiTransportOptions options;
  options.rank_of = [&placement = run.preemption.placement](PeerId peer) {
    const auto found = placement.find(peer.value);
    return found == placement.end() ? -1 : found->second;
  };
  options.emulated_process = &host.emulated_process();
  MpiTransport transport(session, payloads, options);
  return EmulatedRank(run, transport, host, inbox)
      .run_peers(std::move(stages), payloads, environment, quiet);
}

}  // namespace swarmpi
