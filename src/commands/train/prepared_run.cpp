#include "commands/train/prepared_run.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "config/deck.hpp"
#include "config/rules.hpp"
#include "core/hash.hpp"
#include "core/text.hpp"
#include "hardware/device.hpp"
#include "model/cost.hpp"
#include "model/initial_weights.hpp"
#include "model/make_backend.hpp"
#include "model/peer_budget.hpp"
#include "model/stage_model.hpp"
#include "protocol/membership/initial_membership.hpp"
#include "protocol/method/layout.hpp"
#include "protocol/method/room_layout.hpp"
#include "runtime/assembly.hpp"

namespace swarmpi {
namespace {

std::vector<StageSpec> specs_of(const View& view, PeerId peer,
                                const std::vector<StageSpec>& specs) {
  std::vector<StageSpec> own;
  for (const StageSpec& spec : specs) {
    if (view.serves(peer, StageId(spec.stage))) own.push_back(spec);
  }
  return own;
}

std::vector<double> costs_of(const std::vector<StageSpec>& specs) {
  std::vector<double> costs;
  costs.reserve(specs.size());
  for (const StageSpec& spec : specs) costs.push_back(spec.flops_per_token);
  return costs;
}

// Before anything large is taken; who serves what is known in the handshake.
Status refuse_too_large(const MemoryNeeds& needs, std::int64_t ranks,
                        std::optional<std::int64_t> budget) {
  std::int64_t least_bytes = std::numeric_limits<std::int64_t>::max();
  for (const StageNeeds& stage : needs.stages) {
    least_bytes = std::min(least_bytes, needs.peer_bytes + stage.serving_bytes_of(ranks));
  }
  if (!budget || least_bytes <= *budget) return {};
  return Status::bad_input("compute.memory_gb: " + std::string(kTooLittleMemory) +
                           "a peer with the smallest stage needs " +
                           readable_bytes(static_cast<double>(least_bytes)) +
                           ", this one may take " + readable_bytes(static_cast<double>(*budget)));
}

// A change of the view is repaired like a death: without that a rebalancer would move nobody.
Status refuse_moves_without_recovery(const Config& config, const MpiSession& session,
                                     std::int64_t ranks, bool joins) {
  const bool moves = config.swarm.rebalance != Rebalance::none && ranks > 1;
  if (!moves || joins || session.reports_lost_ranks() ||
      config.faults.mode == FaultsMode::emulated) {
    return {};
  }
  return Status::bad_input("swarm.rebalance = \"" + name_of(config.swarm.rebalance) +
                           "\" needs an MPI that reports lost ranks: start mpirun of Open MPI 5 "
                           "with --with-ft ulfm, or set faults.mode = \"emulated\"");
}

Status refuse_to_resume_nothing(const TrainOptions& options, const Config& config) {
  if (config.compute.kernels != Kernels::none || !options.resume) return {};
  return Status::bad_input(
      "compute.kernels: a run with \"none\" has computed nothing that could be resumed: start it "
      "without --resume");
}

// What a run that computes nothing has in the place of the bits of its kernels.
constexpr std::string_view kNoKernels = "compute.kernels = none";

std::string fingerprint_of(const Config& config, kernels::Backend& backend) {
  if (config.compute.kernels != Kernels::none) return hex(swarmpi::fingerprint(config, backend));
  return hex(hash_bytes(kNoKernels.data(), kNoKernels.size()));
}

// The cheap checks first; nothing is written, and nothing large is taken before it is known to fit.
Result<PreparedRun> prepare(const TrainOptions& options, Config config, const MpiSession& session) {
  const std::optional<RunningSwarm>& joins = options.joins;
  const PeerId self = joins ? joins->self : PeerId(session.rank());
  const std::int64_t ranks = joins ? joins->ranks : session.ranks();
  if (Status status = check_ranks(config, ranks); !status.ok()) return status;
  if (Status status = refuse_to_resume_nothing(options, config); !status.ok()) return status;
  if (config.compute.fidelity == Fidelity::simulated) {
    return Status::bad_input(
        "compute.fidelity = \"simulated\": virtual time is what `swarmpi simulate` runs in: start "
        "that, or leave the key out");
  }
  InitialMembership membership = make_membership(ranks, config.swarm.spares);
  if (Status status = adopt_initial_weights(config.model); !status.ok()) {
    if (!options.resume) return status;
    return Status::bad_input(
        status.message() +
        " (to resume from a checkpoint their hash will do: leave model.initial "
        "out, and set model.initial_hash to what its deck says)");
  }
  if (Status status = adopt_cuts(options, config); !status.ok()) return status;
  std::vector<StageSpec> specs = partition_model(config);
  // Checkpoints say where the cuts are, for later versions may deal layers otherwise.
  if (config.swarm.cuts_matter()) config.swarm.cuts = cuts_of(specs);
  View view = first_view(config, ranks, costs_of(specs));
  Config own = config;
  own.compute.kernels = kernels_of(config, self);
  Result<std::unique_ptr<kernels::Backend>> backend = make_backend(own);
  if (!backend.ok()) return backend.status();
  const auto workers = static_cast<std::int64_t>(membership.workers.size());
  const std::int64_t peers_on_host = joins ? joins->peers_on_host : session.ranks_on_host();
  const auto budget = peer_budget_bytes(config, self, *backend.value(), {peers_on_host});
  MemoryNeeds needs = memory_needs(config, specs, *backend.value(), workers);
  if (Status status = refuse_too_large(needs, ranks, budget); !status.ok()) return status;
  if (Status status = refuse_moves_without_recovery(config, session, ranks, joins.has_value());
      !status.ok()) {
    return status;
  }
  const OutputPaths paths = output_paths(options, config);
  if (Status status = check_outputs(paths, options, config); !status.ok()) return status;
  Result<Dataset> data = Dataset::open(config);
  if (!data.ok()) return data.status();
  std::string given_data_hash = std::exchange(config.data.hash, "");
  backend.value()->prepare_thread();
  const std::string fingerprint = fingerprint_of(config, *backend.value());
  PreparedRun run = {options,
                     std::move(config),
                     paths,
                     std::move(given_data_hash),
                     std::move(data).value(),
                     std::move(specs),
                     std::move(backend).value(),
                     fingerprint,
                     {},
                     self,
                     peers_on_host,
                     std::move(membership),
                     budget,
                     std::move(needs),
                     std::move(view),
                     {}};
  if (session.rank_on_host() == 0) {
    if (Status read = run.read_data(); !read.ok()) return read;
  }
  if (Status found = run.find_start(session, {}); !found.ok()) return found;
  if (joins && run.config.swarm.allow_mixed) run.fingerprint = joins->fingerprint;
  return run;
}

}  // namespace

RunPlan PreparedRun::plan() const {
  RunPlan plan = make_plan(config, specs, workers());
  plan.needs = needs;
  if (config.train.max_hours > 0) {
    plan.stops_at_s = start.state.time_s + 3600 * config.train.max_hours;
  }
  return plan;
}

Status PreparedRun::deal_stages(Budgets budgets) {
  membership.budgets = std::move(budgets);
  const RunPlan made = plan();
  if (std::optional<View> dealt = first_deal(made, membership)) {
    view = *std::move(dealt);
    return {};
  }
  const Hands hands{membership.workers, membership.spares, {}, config.swarm.pins};
  return with_place(config,
                    Status::bad_input("compute.memory_gb: " + std::string(kTooLittleMemory) +
                                      "the ranks of this run cannot hold all stages: " +
                                      shortage(made, hands, membership.budgets)));
}

Status PreparedRun::read_data() {
  const Result<std::uint64_t> hash = data.scan();
  if (!hash.ok()) return hash.status();
  config.data.hash = hex(hash.value());
  return {};
}

Status PreparedRun::find_start(const MpiSession& session, std::vector<DamagedCheckpoint> damaged) {
  const CheckpointProof proof{session.rank_on_host(), session.ranks_on_host(), std::move(damaged)};
  Result<StartPoint> found = swarmpi::find_start(options, config, specs, paths, fingerprint, proof);
  if (!found.ok()) return found.status();
  start = std::move(found).value();
  return count_terms_from(session, start.first_term);
}

Status PreparedRun::count_terms_from(const MpiSession& session, std::int64_t first_term) {
  start.first_term = first_term;
  membership.first_term = Term(first_term);
  // A newcomer is none of the peers that the deck lets something happen to.
  if (options.joins) return {};
  Result<Preemption> drawn =
      preemption_of(config, self.value, {session.ranks(), start.state.time_s, start.first_term});
  if (!drawn.ok()) return drawn.status();
  preemption = std::move(drawn).value();
  return {};
}

std::vector<StageSpec> PreparedRun::own_specs() const { return specs_of(view, self, specs); }

// Where replicas own ranges there is one stage.
Ownership PreparedRun::ownership() const {
  return ownership_of(config.swarm, view, self, StageId(0));
}

Result<PreparedRun> prepare_run(const Result<TrainOptions>& options, const Result<Config>& deck,
                                const MpiSession& session) {
  if (!options.ok()) return options.status();
  if (!deck.ok()) return deck.status();
  Result<PreparedRun> run = prepare(options.value(), deck.value(), session);
  // Nobody has seen the deck that a newcomer is sent.
  if (run.ok() || options.value().joins) return run;
  return with_place(deck.value(), run.status());
}

}  // namespace swarmpi
