#include "runtime/collectives.hpp"

#include "protocol/messages/compute_port.hpp"
#include "protocol/messages/reduction_jobs.hpp"

namespace swarmpi {

void StepsByCollective::asked(double, PeerId, const Action& action) {
  const auto* const started = get_if<StartJob>(&action);
  const auto* const reduce = started ? get_if<ReduceJob>(&started->job) : nullptr;
  if (reduce != nullptr && reduce->collective) steps_.insert(reduce->step);
}

}  // namespace swarmpi
