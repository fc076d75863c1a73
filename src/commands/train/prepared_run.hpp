#pragma once
// All that a process can check and make on its own before a run begins: errors in deck, data or
// outputs are found here, when nothing has been written yet.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "commands/train/output_paths.hpp"
#include "commands/train/preemption.hpp"
#include "commands/train/start_point.hpp"
#include "commands/train/train.hpp"
#include "data/dataset.hpp"
#include "hardware/common_lines.hpp"
#include "kernels/backend.hpp"
#include "model/tensors.hpp"
#include "protocol/membership/view.hpp"
#include "protocol/peer.hpp"
#include "transport/mpi/session.hpp"

namespace swarmpi {

/// A run that this process could begin, as far as it can tell alone.
struct PreparedRun {
  TrainOptions options;
  Config config;  ///< with the data's hash; without, where another rank of the host reads the data
  OutputPaths paths;
  std::string given_data_hash;  ///< by the deck
  Dataset data;
  std::vector<StageSpec> specs;  ///< of all stages, in order
  std::unique_ptr<kernels::Backend> backend;
  std::string fingerprint;
  StartPoint start;
  PeerId self;
  std::int64_t peers_on_host = 1;
  InitialMembership membership;
  /// What this peer may take, as it states in the handshake; none: no bound.
  std::optional<std::int64_t> budget_bytes;
  MemoryNeeds needs;
  View view;              ///< the first view that the leader will publish; see deal_stages()
  Preemption preemption;  ///< events of [faults] by the clock
  /// With swarm.spawn: name of the files that stay in the run's folders, for newcomers to look for.
  std::string shared_file = {};
  /// Of sites and routes, where the peers of other processes have them too; see share_lines().
  std::unique_ptr<CommonLines> common_lines = {};
  Descriptor claim = {};  ///< on the folder of the checkpoints, at rank 0; see claim_checkpoints()

  /// Reads the data, for its hash. Errors: bad_input.
  Status read_data();
  /// Finds where the run starts; see find_start(). `damaged`: checkpoints that other ranks have
  /// found to be so. REQUIRES: all else is there. Errors: bad_input.
  Status find_start(const MpiSession& session, std::vector<DamagedCheckpoint> damaged);
  /// The run's terms begin with this one. Errors: as of preemption_of().
  Status count_terms_from(const MpiSession& session, std::int64_t first_term);
  /// Deals the stages to the peers of the start, once it is known what all may take. Errors:
  /// bad_input, where they cannot hold all stages.
  Status deal_stages(Budgets budgets);
  /// The protocol's plan, as far as it depends on deck and model.
  RunPlan plan() const;
  /// The stages that this peer serves at the start.
  std::vector<StageSpec> own_specs() const;
  /// What it owns of their moments.
  Ownership ownership() const;
  std::int64_t workers() const { return static_cast<std::int64_t>(membership.workers.size()); }
};

/// Errors: bad_input, the message names the key where there is one, and its place in the deck;
/// those of `options` and `deck`.
Result<PreparedRun> prepare_run(const Result<TrainOptions>& options, const Result<Config>& deck,
                                const MpiSession& session);

}  // namespace swarmpi
