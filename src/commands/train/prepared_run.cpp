#include "commands/train/prepared_run.hpp"

#include <algorithm>
#include <utility>

#include "config/rules.hpp"
#include "core/hash.hpp"
#include "model/make_backend.hpp"
#include "model/stage_model.hpp"
#include "protocol/membership/initial_membership.hpp"
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

}  // namespace

std::vector<StageSpec> PreparedRun::own_specs() const { return specs_of(view, self, specs); }

// The cheap checks first; nothing is written, and nothing large is taken before it is known to fit.
Result<PreparedRun> prepare_run(const TrainOptions& options) {
  Config config = options.config;
  const std::int64_t ranks = std::max<std::int64_t>(options.launcher.ranks, 1);
  if (Status status = check_ranks(config, ranks); !status.ok()) return status;
  const PeerId self(static_cast<std::int32_t>(options.launcher.rank));
  InitialMembership membership = make_membership(ranks, config.swarm.spares);
  std::vector<StageSpec> specs = partition_model(config.model, config.swarm.stages);
  View view = first_view(config, ranks, costs_of(specs));
  Result<std::unique_ptr<kernels::Backend>> made = make_backend(config);
  if (!made.ok()) return made.status();
  std::unique_ptr<kernels::Backend> backend = std::move(made).value();
  if (Status status = refuse_too_large(config, specs_of(view, self, specs), *backend,
                                       static_cast<std::int64_t>(membership.workers.size()));
      !status.ok()) {
    return status;
  }
  const OutputPaths paths = output_paths(options);
  if (!options.resume) {
    if (Status status = refuse_existing(paths); !status.ok()) return status;
  }
  Result<Dataset> data = Dataset::open(config);
  if (!data.ok()) return data.status();
  config.data.hash = hex(data.value().hash());
  if (Status status = refuse_data_as_output(paths, config.data.paths); !status.ok()) return status;
  if (Status status = prove_outputs_writable(paths, checkpoint_bytes(config)); !status.ok()) {
    return status;
  }
  backend->prepare_thread();
  const std::string fingerprint = hex(swarmpi::fingerprint(config, *backend));
  TrainOptions resolved = options;
  resolved.config = config;
  Result<StartPoint> start = find_start(resolved, paths, fingerprint);
  if (!start.ok()) return start.status();
  const std::int64_t first_term = start.value().first_term;
  membership.first_term = Term(first_term);
  Result<Preemption> preemption =
      preemption_of(config, self.value, {ranks, start.value().state.time_s, first_term});
  if (!preemption.ok()) return preemption.status();
  return PreparedRun{
      std::move(config),     paths,           std::move(data).value(),      std::move(specs),
      std::move(backend),    fingerprint,     std::move(start).value(),     self,
      std::move(membership), std::move(view), std::move(preemption).value()};
}

}  // namespace swarmpi
