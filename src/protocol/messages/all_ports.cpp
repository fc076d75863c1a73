#include "protocol/messages/all_ports.hpp"

#include "core/opaque_variant_members.hpp"
#include "core/overloaded.hpp"
#include "protocol/messages/all_jobs.hpp"

namespace swarmpi {

template class OpaqueVariant<JobKinds>;
template class OpaqueVariant<JobResultKinds>;
template class OpaqueVariant<EventKinds>;
template class OpaqueVariant<ActionKinds>;

StageId stage_of(const Job& job) {
  return visit(Overloaded{[](const ForwardJob& j) { return j.work.stage; },
                          [](const BackwardJob& j) { return j.work.stage; },
                          [](const auto& j) { return j.stage; }},
               job);
}

std::optional<Lane> lane_of(const Action& action) {
  using Of = std::optional<Lane>;
  return visit(
      Overloaded{[](const StoreStage&) { return Of(Lane::stages); },
                 [](const LoadStage&) { return Of(Lane::stages); },
                 [](const CreateTerm&) { return Of(Lane::run); },
                 [](const StoreRecord&) { return Of(Lane::run); },
                 [](const StoreManifest&) { return Of(Lane::run); },
                 [](const LoadManifest&) { return Of(Lane::run); },
                 [](const StoreEnd&) { return Of(Lane::run); },
                 [](const StoreProbe&) { return Of(Lane::run); }, [](const auto&) { return Of(); }},
      action);
}

}  // namespace swarmpi
