#include "worker/fault_triggers.hpp"

#include <algorithm>
#include <type_traits>

#include "core/overloaded.hpp"

namespace swarmpi {
namespace {

// Where in the protocol an action stands, in the deck's words; `point` is null for none of them.
struct Place {
  const char* point = nullptr;
  std::int64_t step = -1;
  std::int64_t microbatch = -1;
};

Place of_work(const char* point, const WorkId& work) {
  if (work.microbatch.purpose != Purpose::train) return {};
  return {point, work.microbatch.step.value, work.microbatch.index};
}

Place place_of(const Job& job) {
  return std::visit(Overloaded{
                        [](const ForwardJob& j) { return of_work("forward", j.work); },
                        [](const BackwardJob& j) { return of_work("backward", j.work); },
                        [](const ShareJob& j) {
                          return Place{"reduce", j.step.value};
                        },
                        [](const ReduceJob& j) {
                          return Place{"reduce", j.step.value};
                        },
                        [](const ApplyJob& j) {
                          return Place{"apply", j.record->step.value};
                        },
                        [](const auto&) { return Place{}; },
                    },
                    job);
}

Place place_of(const Action& action) {
  return std::visit(Overloaded{
                        [](const StartJob& a) { return place_of(a.job); },
                        [](const StoreStage& a) {
                          return Place{"checkpoint", a.step.value};
                        },
                        [](const Send& a) {
                          const auto* commit = std::get_if<CommitMessage>(&a.message.body);
                          return commit ? Place{"commit", commit->record->step.value} : Place{};
                        },
                        [](const auto&) { return Place{}; },
                    },
                    action);
}

bool meets(const FaultAt& fault, const Place& place) {
  return place.point != nullptr && fault.step == place.step &&
         (fault.point == "any" || fault.point == place.point) &&
         (fault.microbatch < 0 || fault.microbatch == place.microbatch);
}

}  // namespace

FaultTriggers::FaultTriggers(const std::vector<FaultAt>& faults, PeerId self) {
  for (const FaultAt& fault : faults) {
    if (fault.peer == self.value && fault.event != "flip") waiting_.push_back(fault);
  }
}

std::optional<std::string> FaultTriggers::due(const Action& action) {
  if (waiting_.empty()) return std::nullopt;
  const Place place = place_of(action);
  const auto met = std::find_if(waiting_.begin(), waiting_.end(),
                                [&](const FaultAt& fault) { return meets(fault, place); });
  if (met == waiting_.end()) return std::nullopt;
  std::string event = met->event;
  waiting_.erase(met);
  return event;
}

}  // namespace swarmpi
