#pragma once
// What reports and tables say of a step: contributions, losses and hashes.

#include <vector>

#include "core/field_list.hpp"
#include "core/ids.hpp"
#include "protocol/reduction/contribution.hpp"
#include "protocol/step/state_hash.hpp"

namespace swarmpi {

/// A peer's contribution to one (step, stage, microbatch).
struct ContributionFact {
  WorkId work;
  // Of the stage, in tensor order. Empty if this microbatch raises no maximum and no flag of the
  // peer's sums: the leader has heard of these, or has them from the peer's table (StageRow).
  std::vector<kernels::Contribution> tensors;
};
SWARMPI_FIELDS(ContributionFact, work, tensors);

/// The loss of a microbatch, known in the last stage.
struct LossFact {
  MicrobatchId microbatch;
  double nats = 0;  // sum over its tokens
};
SWARMPI_FIELDS(LossFact, microbatch, nats);

/// The state of a stage after a step.
struct HashFact {
  Step step;
  StageId stage;
  StateHash hash;
};
SWARMPI_FIELDS(HashFact, step, stage, hash);

}  // namespace swarmpi
