#include "run/lives.hpp"

#include <unistd.h>

#include <csignal>
#include <optional>
#include <utility>

#include "core/check.hpp"
#include "core/clock.hpp"
#include "core/host_name.hpp"
#include "run/spawned.hpp"
#include "transport/loopback.hpp"
#include "transport/mpi_transport.hpp"
#include "worker/fault_clock.hpp"
#include "worker/place.hpp"

namespace swarmpi {
namespace {

// From an emulated death until the others hear of it: about what ULFM takes on one host.
constexpr double kDetectionS = 5e-3;
// How often a process without a peer looks whether the others have one.
constexpr double kLookS = 0.05;

bool emulates_preemption(const Preparation& run) { return run.config.faults.mode == "emulated"; }

// To this very process.
void strike(const std::string& event, Inbox& inbox) {
  if (event == "notice") return inbox.post(StopRequested{"told to go by the deck"});
  SWARMPI_CHECK(event == "kill", "a fault that a process can do to itself");
  kill(getpid(), SIGKILL);
}

// The peer is the process, and falls with it.
Outcome live_once(Preparation& run, Stages stages, Transport& transport, PayloadPool& payloads,
                  Surroundings around, Inbox& inbox, bool quiet) {
  around.strike = [&](const std::string& event) { strike(event, inbox); };
  const FaultClock clock(run.preemption.here, run.start.state.time_s,
                         [&](const TraceEvent& event) { strike(event.event, inbox); });
  return live(run, std::move(stages), transport, payloads, around, inbox, quiet);
}

Outcome nobody_is_left(bool speaks) { return {Status::stopped("no peer is left"), speaks}; }

// ---- Emulated preemption

class Rank {
 public:
  Rank(Preparation& run, MpiTransport& transport, Place& place, Inbox& inbox)
      : run_(run), transport_(transport), place_(place), inbox_(inbox) {}

  Outcome run_peers(Stages stages, PayloadPool& payloads, Surroundings around, bool quiet) {
    around.fate = &place_.fate();
    around.strike = [&](const std::string& event) { place_.strike({0, event, run_.self.value}); };
    const FaultClock clock(run_.preemption.here, run_.start.state.time_s,
                           [&](const TraceEvent& event) { place_.strike(event); });
    while (true) {
      const Outcome outcome =
          live(run_, std::move(stages), transport_, payloads, around, inbox_, quiet);
      if (!outcome.died && !outcome.left) {
        transport_.part(outcome.saw_the_end);
        return outcome;
      }
      bury();
      if (!await_next()) break;
      stages.clear();
    }
    if (transport_.anybody_saw_the_end()) return {Status(), false};
    return nobody_is_left(transport_.is_first());
  }

 private:
  // All that was the peer's is gone by now.
  void bury() {
    transport_.fall_silent();
    place_.vacate();
    const WallClock clock;
    while (clock.now_s() < kDetectionS) {
      transport_.wait(inbox_.descriptor(), kDetectionS - clock.now_s());
      place_.vacate();
    }
    transport_.announce_death(run_.self);
  }

  // Says whether another has come, before all others have parted.
  bool await_next() {
    bool parted = false;
    while (true) {
      while (transport_.receive()) {
      }
      place_.vacate();
      // Nobody comes to a run that has ended, or to nobody.
      const bool over = transport_.anybody_saw_the_end() || transport_.all_others_parted();
      if (!parted && (over || !place_.awaits_more())) {
        parted = true;
        transport_.part(false);
      }
      const std::optional<PeerId> next = parted ? std::nullopt : place_.settle_next();
      if (next) {
        settle(*next);
        return true;
      }
      if (parted && transport_.all_others_parted()) return false;
      transport_.wait(inbox_.descriptor(), kLookS);
    }
  }

  void settle(PeerId self) {
    run_.self = self;
    run_.roster.contacts.clear();
    for (const TraceEvent& join : run_.preemption.joins) {
      if (join.peer == self.value) break;
      run_.roster.contacts.emplace_back(static_cast<std::int32_t>(join.peer));
    }
    transport_.settle(self);
  }

  Preparation& run_;
  MpiTransport& transport_;
  Place& place_;
  Inbox& inbox_;
};

}  // namespace

Outcome live_alone(Preparation& run, Stages stages, Inbox& inbox, bool quiet) {
  PayloadPool payloads;
  LoopbackTransport transport(run.self);
  Surroundings around{host_name()};
  if (!emulates_preemption(run)) {
    return live_once(run, std::move(stages), transport, payloads, around, inbox, quiet);
  }
  Place place(run.self, run.preemption.here, inbox);
  around.fate = &place.fate();
  around.strike = [&](const std::string& event) { place.strike({0, event, run.self.value}); };
  const FaultClock clock(run.preemption.here, run.start.state.time_s,
                         [&](const TraceEvent& event) { place.strike(event); });
  Outcome outcome = live(run, std::move(stages), transport, payloads, around, inbox, quiet);
  return outcome.died ? nobody_is_left(true) : outcome;
}

Outcome live_among_others(Preparation& run, Stages stages, MpiSession& session,
                          const std::string& hosts, Inbox& inbox, bool quiet) {
  PayloadPool payloads;
  Surroundings around{hosts, session.ranks_on_host(), session.reports_lost_ranks()};
  if (!emulates_preemption(run)) {
    MpiTransportOptions options;
    if (run.config.swarm.spawn) {
      options.spawned_arguments = arguments_of_spawned();
      options.hello = [&](PeerId newcomer) {
        return greeting(run, newcomer, session.ranks_on_host());
      };
    }
    MpiTransport transport(session, payloads, options);
    return live_once(run, std::move(stages), transport, payloads, around, inbox, quiet);
  }
  around.recovers = true;
  Place place(run.self, run.preemption.here, inbox);
  MpiTransportOptions options;
  options.rank_of = [&places = run.preemption.places](PeerId peer) {
    const auto found = places.find(peer.value);
    return found == places.end() ? -1 : found->second;
  };
  options.fate = &place.fate();
  MpiTransport transport(session, payloads, options);
  return Rank(run, transport, place, inbox).run_peers(std::move(stages), payloads, around, quiet);
}

}  // namespace swarmpi
