#include "emulation/fault_triggers.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "core/overloaded.hpp"
#include "protocol/messages/commit.hpp"
#include "protocol/messages/compute_port.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/pass_jobs.hpp"
#include "protocol/messages/reduction_jobs.hpp"
#include "protocol/messages/storage_port.hpp"
#include "protocol/messages/update_jobs.hpp"

namespace swarmpi {
namespace {

// The point of the protocol at which an action stands, if it is one of those that a deck can name.
struct ProtocolPoint {
  std::optional<FaultPoint> point;
  std::int64_t step = -1;
  std::int64_t microbatch = -1;
};

ProtocolPoint of_work(FaultPoint point, const WorkId& work) {
  if (work.microbatch.purpose != Purpose::train) return {};
  return {point, work.microbatch.step.value, work.microbatch.index};
}

ProtocolPoint protocol_point(const Job& job) {
  return visit(Overloaded{
                   [](const ForwardJob& j) { return of_work(FaultPoint::forward, j.work); },
                   [](const BackwardJob& j) { return of_work(FaultPoint::backward, j.work); },
                   [](const ShareJob& j) {
                     return ProtocolPoint{FaultPoint::reduce, j.step.value};
                   },
                   [](const ReduceJob& j) {
                     return ProtocolPoint{FaultPoint::reduce, j.step.value};
                   },
                   [](const UpdateJob& j) {
                     return ProtocolPoint{FaultPoint::apply, j.record->step.value};
                   },
                   [](const ApplyJob& j) {
                     return ProtocolPoint{FaultPoint::apply, j.record->step.value};
                   },
                   [](const auto&) { return ProtocolPoint{}; },
               },
               job);
}

ProtocolPoint protocol_point(const Action& action) {
  return visit(Overloaded{
                   [](const StartJob& a) { return protocol_point(a.job); },
                   [](const StoreStage& a) {
                     return ProtocolPoint{FaultPoint::checkpoint, a.step.value};
                   },
                   [](const Send& a) {
                     const auto* commit = get_if<CommitMessage>(&a.message.body);
                     return commit ? ProtocolPoint{FaultPoint::commit, commit->record->step.value}
                                   : ProtocolPoint{};
                   },
                   [](const auto&) { return ProtocolPoint{}; },
               },
               action);
}

bool meets(const FaultAt& fault, const ProtocolPoint& at) {
  return at.point && fault.step == at.step &&
         (fault.point == FaultPoint::any || fault.point == at.point) &&
         (fault.microbatch < 0 || fault.microbatch == at.microbatch);
}

}  // namespace

FaultTriggers::FaultTriggers(const std::vector<FaultAt>& faults, PeerId self,
                             std::function<void(FaultEvent)> inject_fault)
    : inject_fault_(std::move(inject_fault)) {
  for (const FaultAt& fault : faults) {
    if (fault.peer == self.value && fault.event != FaultEvent::flip) waiting_.push_back(fault);
  }
}

void FaultTriggers::asked(double, PeerId, const Action& action) {
  if (waiting_.empty()) return;
  const ProtocolPoint at = protocol_point(action);
  const auto met = std::find_if(waiting_.begin(), waiting_.end(),
                                [&](const FaultAt& fault) { return meets(fault, at); });
  if (met == waiting_.end()) return;
  const FaultEvent event = met->event;
  waiting_.erase(met);
  inject_fault_(event);
}

}  // namespace swarmpi
