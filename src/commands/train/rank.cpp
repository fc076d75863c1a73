#include "commands/train/rank.hpp"

#include <unistd.h>

#include <csignal>
#include <memory>
#include <optional>
#include <utility>

#include "commands/train/newcomer.hpp"
#include "commands/train/shared_folders.hpp"
#include "core/check.hpp"
#include "core/clock.hpp"
#include "emulation/emulated_links.hpp"
#include "emulation/emulated_peer_host.hpp"
#include "emulation/emulated_transport.hpp"
#include "emulation/fault_clock.hpp"
#include "emulation/filled_payloads.hpp"
#include "protocol/messages/process_port.hpp"
#include "transport/loopback.hpp"
#include "transport/mpi/mpi_transport.hpp"

namespace swarmpi {
namespace {

// From an emulated death until it is announced to the other ranks: about what ULFM takes to report
// a real one on one host.
constexpr double kDetectionS = 5e-3;
// How often a rank without a peer looks whether another peer has come or the run is over.
constexpr double kPollS = 0.05;
// Of suspect_after_s: how long a peer may be silent for the sake of a process that it has started.
constexpr double kLongestHoldShare = 1.0 / 3;

bool emulates_preemption(const PreparedRun& run) {
  return run.config.faults.mode == FaultsMode::emulated;
}

// To this process, which is its peer.
void inject_fault(FaultEvent event, Inbox& inbox) {
  if (event == FaultEvent::notice) return inbox.post(StopRequested{kNoticeFromDeck});
  SWARMPI_CHECK(event == FaultEvent::kill, "a process can inject only kill and notice into itself");
  kill(getpid(), SIGKILL);
}

// The links that the deck gives the peer that lives here, over `below`; null where it gives none.
std::unique_ptr<EmulatedLinks> emulated_links(const PreparedRun& run, Transport& below,
                                              const Clock& clock) {
  if (!emulates_links(run.config)) return nullptr;
  return std::make_unique<EmulatedLinks>(run.self, below, run.config, clock,
                                         run.common_lines.get());
}

// Runs a peer whose death is that of the process.
Outcome run_peer_once(PreparedRun& run, Stages stages, Transport& below, PayloadPool& payloads,
                      PeerEnvironment environment, Inbox& inbox) {
  const HostClock link_clock;
  const std::unique_ptr<EmulatedLinks> links = emulated_links(run, below, link_clock);
  Transport& transport = links ? static_cast<Transport&>(*links) : below;
  environment.inject_fault = [&](FaultEvent event) { inject_fault(event, inbox); };
  const FaultClock clock(run.preemption.local_events, run.start.state.time_s,
                         [&](const TraceEvent& event) { inject_fault(event.event, inbox); });
  return run_peer(run, std::move(stages), transport, payloads, environment, inbox);
}

Outcome no_peer_left(bool reports_outcome, bool hangs) {
  return {.status = Status::stopped("no peer is left: all were killed or preempted, by [faults] in "
                                    "the deck or for their silence"),
          .reports_outcome = reports_outcome,
          .hangs = hangs};
}

// ---- Emulated preemption

// A rank whose peers die without the process: after each death the next peer of the placement may
// join from here.
class EmulatedRank {
 public:
  // `mpi`: null where this is the only rank; else it is `below`.
  EmulatedRank(PreparedRun& run, Transport& below, MpiTransport* mpi, Inbox& inbox)
      : run_(run),
        mpi_(mpi),
        transport_(run.self, below, inbox),
        links_(emulated_links(run, transport_, link_clock_)),
        host_(run.self, run.preemption.local_events, transport_, inbox),
        inbox_(inbox) {}

  Outcome run_peers(Stages stages, PayloadPool& payloads, PeerEnvironment environment) {
    environment.inject_fault = [&](FaultEvent event) {
      host_.inject_fault({0, event, run_.self.value});
    };
    const FaultClock clock(run_.preemption.local_events, run_.start.state.time_s,
                           [&](const TraceEvent& event) { host_.inject_fault(event); });
    while (true) {
      Outcome outcome =
          run_peer(run_, std::move(stages), links_ ? static_cast<Transport&>(*links_) : transport_,
                   payloads, environment, inbox_);
      hangs_ = outcome.hangs;
      if (mpi_ == nullptr) return outcome.died ? no_peer_left(true, hangs_) : outcome;
      if (!outcome.died && !outcome.departed) {
        mpi_->part(outcome.saw_the_end);
        return outcome;
      }
      finish_death();
      if (!await_newcomer()) break;
      environment.age_s = 0;
      stages.clear();
    }
    if (mpi_->anybody_saw_the_end()) return {.reports_outcome = false, .hangs = hangs_};
    return no_peer_left(mpi_->is_first(), hangs_);
  }

 private:
  // Makes a death known. The peer and its stages are destroyed by now.
  void finish_death() {
    if (links_) links_->clear();
    transport_.clear();
    mpi_->fall_silent();
    const WallClock clock;
    while (clock.now_s() < kDetectionS) {
      discard_events();
      mpi_->wait(inbox_.descriptor(), kDetectionS - clock.now_s());
    }
    transport_.depart([this, dead = run_.self] { mpi_->announce_death(dead); });
  }

  // Waits until the next peer comes to this rank: true; or until all other ranks have parted:
  // false.
  bool await_newcomer() {
    bool parted = false;
    while (true) {
      discard_events();
      // No peer can join a run that has ended, or one without other ranks; nor play here, where a
      // thread of the last one still hangs and may answer into the inbox.
      const bool over = hangs_ || mpi_->anybody_saw_the_end() || mpi_->all_others_parted();
      if (!parted && (over || !host_.expects_newcomers())) {
        parted = true;
        mpi_->part(false);
      }
      const std::optional<PeerId> next = parted ? std::nullopt : host_.admit_next();
      if (next) {
        admit(*next);
        return true;
      }
      if (parted && mpi_->all_others_parted()) return false;
      mpi_->wait(inbox_.descriptor(), kPollS);
    }
  }

  // Nobody lives here who could handle them.
  void discard_events() {
    while (transport_.receive() || inbox_.take()) {
    }
  }

  void admit(PeerId self) {
    run_.self = self;
    if (run_.budget_bytes) run_.membership.budgets[self] = *run_.budget_bytes;
    run_.membership.join_contacts.clear();
    for (const TraceEvent& join : run_.preemption.joins) {
      if (join.peer == self.value) break;
      run_.membership.join_contacts.emplace_back(static_cast<std::int32_t>(join.peer));
    }
    if (links_) links_->admit(self);
    mpi_->admit(self);
  }

  PreparedRun& run_;
  MpiTransport* mpi_;
  HostClock link_clock_;
  EmulatedTransport transport_;
  std::unique_ptr<EmulatedLinks> links_;  // over it; null: the deck has none
  EmulatedPeerHost host_;
  Inbox& inbox_;
  bool hangs_ = false;  // of the last peer
};

Outcome run_emulated(PreparedRun& run, Stages stages, MpiSession& session, PayloadPool& payloads,
                     PeerEnvironment environment, Inbox& inbox) {
  if (session.alone()) {
    LoopbackTransport transport(run.self);
    return EmulatedRank(run, transport, nullptr, inbox)
        .run_peers(std::move(stages), payloads, environment);
  }
  environment.recovers = true;
  MpiTransportOptions options;
  options.suspect_after_s = run.config.swarm.suspect_after_s;
  options.rank_of = [&placement = run.preemption.placement](PeerId peer) {
    const auto found = placement.find(peer.value);
    return found == placement.end() ? -1 : found->second;
  };
  MpiTransport transport(session, payloads, options);
  FilledPayloads filled(transport);
  Transport& carrier = fills_payloads(run.config) ? static_cast<Transport&>(filled)
                                                  : static_cast<Transport&>(transport);
  return EmulatedRank(run, carrier, &transport, inbox)
      .run_peers(std::move(stages), payloads, environment);
}

// A newcomer tells only of what has failed in it. The rank that has spawned it may go on, and
// notices only a process that dies.
Outcome outcome_of_newcomer(Outcome outcome) {
  const ExitStatus code = outcome.status.code();
  outcome.reports_outcome = code == ExitStatus::no || code == ExitStatus::bad_input;
  outcome.departed = outcome.departed || !outcome.saw_the_end;
  return outcome;
}

}  // namespace

Outcome run_rank(PreparedRun& run, Stages stages, MpiSession& session, const std::string& hosts,
                 Inbox& inbox) {
  const bool newcomer = run.options.joins.has_value();
  // Left behind where a thread hangs.
  auto owned_payloads = std::make_unique<PayloadPool>(payload_memory(*run.backend));
  PayloadPool& payloads = *owned_payloads;
  const auto keep = [&](Outcome outcome) {
    if (outcome.hangs) (void)owned_payloads.release();
    return outcome;
  };
  PeerEnvironment environment{hosts, run.peers_on_host, newcomer || session.reports_lost_ranks()};
  environment.age_s = process_age_s();
  if (emulates_preemption(run)) {
    return keep(run_emulated(run, std::move(stages), session, payloads, environment, inbox));
  }
  if (session.alone()) {
    LoopbackTransport transport(run.self);
    return keep(run_peer_once(run, std::move(stages), transport, payloads, environment, inbox));
  }
  MpiTransportOptions options;
  options.suspect_after_s = run.config.swarm.suspect_after_s;
  if (run.config.swarm.spawn && !newcomer) {
    options.spawned_arguments = arguments_of_spawned();
    options.longest_hold_s = kLongestHoldShare * run.config.swarm.suspect_after_s;
    options.start_info = [&](PeerId peer) { return packed_options(run, peer, hosts); };
    // By value: a thread that looks for a file may hang, and is left behind.
    options.start_check = [paths = run.paths](const std::string& name) {
      return check_newcomers_probes(paths, name);
    };
  }
  MpiTransport transport(session, payloads, options);
  if (newcomer) transport.admit(run.self);
  FilledPayloads filled(transport);
  Transport& carrier = fills_payloads(run.config) ? static_cast<Transport&>(filled)
                                                  : static_cast<Transport&>(transport);
  const Outcome outcome =
      keep(run_peer_once(run, std::move(stages), carrier, payloads, environment, inbox));
  return newcomer ? outcome_of_newcomer(outcome) : outcome;
}

}  // namespace swarmpi
