#pragma once
// All that can be checked and made before a run begins, rank by rank, before MPI is touched:
// whatever is wrong with deck, data or outputs is said here, and nothing was written.

#include <memory>
#include <string>
#include <vector>

#include "commands/train/output_paths.hpp"
#include "commands/train/preemption.hpp"
#include "commands/train/start_point.hpp"
#include "commands/train/train.hpp"
#include "data/dataset.hpp"
#include "kernels/backend.hpp"
#include "model/tensors.hpp"
#include "protocol/membership/view.hpp"
#include "protocol/peer.hpp"

namespace swarmpi {

struct Preparation {
  Config config;  ///< with the data's hash
  OutputPaths paths;
  Dataset data;
  std::vector<StageSpec> specs;  ///< of all stages
  std::unique_ptr<kernels::Backend> backend;
  std::string fingerprint;
  StartPoint start;
  PeerId self;
  InitialMembership membership;
  View view;              ///< the first that the leader will publish
  Preemption preemption;  ///< by the clock

  /// The stages that this peer serves at the start.
  std::vector<StageSpec> own_specs() const;
  std::int64_t workers() const { return static_cast<std::int64_t>(membership.workers.size()); }
};

/// Errors: bad_input, the message names the key where there is one.
Result<Preparation> prepare(const TrainOptions& options);

}  // namespace swarmpi
