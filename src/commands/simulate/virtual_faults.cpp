#include "commands/simulate/virtual_faults.hpp"

#include <limits>
#include <set>
#include <utility>

#include "emulation/fault_clock.hpp"
#include "protocol/messages/compute_port.hpp"
#include "protocol/messages/process_port.hpp"
#include "protocol/messages/update_jobs.hpp"

namespace swarmpi {
namespace {

// Bits of the state flip after the step.
class FlipTrigger final : public Observer {
 public:
  FlipTrigger(VirtualWorld& world, const FaultAt& fault)
      : world_(world), peer_(static_cast<std::int32_t>(fault.peer)), step_(fault.step) {}

  void happened(double, PeerId peer, const Event& event) override {
    if (done_ || peer != peer_) return;
    const auto* job = get_if<JobFinished>(&event);
    const auto* applied = job == nullptr ? nullptr : get_if<ApplyResult>(&job->result);
    if (applied == nullptr || applied->step != step_) return;
    done_ = world_.flip(peer_, applied->stage);
  }

 private:
  VirtualWorld& world_;
  PeerId peer_;
  Step step_;
  bool done_ = false;
};

// Of one peer: FaultTriggers look at actions, whoever asks for them.
class PeerTriggers final : public Observer {
 public:
  PeerTriggers(const std::vector<FaultAt>& faults, PeerId peer,
               std::function<void(FaultEvent)> inject)
      : peer_(peer), triggers_(faults, peer, std::move(inject)) {}

  void asked(double now_s, PeerId peer, const Action& action) override {
    if (peer == peer_) triggers_.asked(now_s, peer, action);
  }

 private:
  PeerId peer_;
  FaultTriggers triggers_;
};

}  // namespace

VirtualFaults::VirtualFaults(const Config& config, std::vector<TraceEvent> events,
                             VirtualWorld& world, Join join)
    : events_(std::move(events)), world_(world), join_(std::move(join)) {
  std::set<std::int64_t> peers;
  for (const FaultAt& fault : config.faults_at) {
    peers.insert(fault.peer);
    if (fault.event != FaultEvent::flip) continue;
    triggers_.push_back(std::make_unique<FlipTrigger>(world, fault));
  }
  for (const std::int64_t id : peers) {
    const PeerId peer(static_cast<std::int32_t>(id));
    triggers_.push_back(std::make_unique<PeerTriggers>(
        config.faults_at, peer, [this, peer](FaultEvent event) { inject(peer, event); }));
  }
  for (const std::unique_ptr<Observer>& trigger : triggers_) world.watch(*trigger);
}

void VirtualFaults::apply_due() {
  while (next_ < events_.size() && events_[next_].time_s <= world_.next_s()) {
    world_.advance(events_[next_].time_s);
    apply(events_[next_]);
    ++next_;
  }
}

void VirtualFaults::apply(const TraceEvent& event) {
  const PeerId peer(static_cast<std::int32_t>(event.peer));
  if (event.event == FaultEvent::join) return join_(peer, event.time_s);
  if (!world_.has(peer) || !world_.is_active(peer)) return;
  switch (event.event) {
    case FaultEvent::stop:
      return world_.stop(peer, until_s(FaultEvent::go_on) - event.time_s);
    case FaultEvent::cut:
      return cut_off(peer, until_s(FaultEvent::heal) - event.time_s);
    case FaultEvent::kill:
    case FaultEvent::notice:
      return inject(peer, event.event);
    default:
      return;  // the end of a stop or a cut
  }
}

void VirtualFaults::inject(PeerId peer, FaultEvent event) {
  if (event == FaultEvent::kill) (void)world_.kill(peer);
  if (event == FaultEvent::notice)
    world_.post(world_.now_s(), peer, StopRequested{kNoticeFromDeck});
}

double VirtualFaults::until_s(FaultEvent kind) const {
  for (std::size_t i = next_ + 1; i < events_.size(); ++i) {
    if (events_[i].event == kind && events_[i].peer == events_[next_].peer) {
      return events_[i].time_s;
    }
  }
  return std::numeric_limits<double>::infinity();
}

void VirtualFaults::cut_off(PeerId peer, double duration_s) {
  for (const PeerId other : world_.active_peers()) {
    if (other == peer) continue;
    world_.cut(peer, other, duration_s, true);
    world_.cut(other, peer, duration_s, true);
  }
}

}  // namespace swarmpi
