#include "run/train.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "config/deck.hpp"
#include "core/clock.hpp"
#include "core/hash.hpp"
#include "core/text.hpp"
#include "core/version.hpp"
#include "data/dataset.hpp"
#include "kernels/backend.hpp"
#include "model/cost.hpp"
#include "model/make_backend.hpp"
#include "model/stage_model.hpp"
#include "run/machine.hpp"
#include "run/output.hpp"
#include "run/progress.hpp"
#include "run/start_point.hpp"
#include "run/summary.hpp"
#include "run/welcome.hpp"
#include "transport/loopback.hpp"
#include "worker/run_storage.hpp"
#include "worker/signals.hpp"
#include "worker/stage_compute.hpp"
#include "worker/worker.hpp"

namespace swarmpi {
namespace {

constexpr PeerId kSelf{0};

using Stages = std::vector<std::unique_ptr<StageModel>>;

RunPlan make_plan(const Config& config, const Dataset& data, const std::vector<StageSpec>& stages) {
  RunPlan plan;
  plan.train = config.train;
  plan.tokens_per_microbatch = config.train.microbatch_size * config.model.context;
  plan.validation_microbatches = data.validation_microbatches();
  plan.validate_every = config.output.validate_every;
  plan.checkpoint_every = config.output.checkpoint_every;
  plan.window = config.swarm.window > 0 ? config.swarm.window : 2 * config.swarm.stages;
  for (const TensorInfo& tensor : model_tensors(config.model)) {
    plan.tensor_names.push_back(tensor.name);
  }
  for (const StageSpec& stage : stages) {
    std::vector<std::int32_t> ids;
    for (const TensorInfo& tensor : stage.tensors) ids.push_back(tensor.id);
    plan.stage_tensors.push_back(std::move(ids));
    plan.stage_costs.push_back(stage.flops_per_token);
  }
  return plan;
}

std::string host_name() {
  char name[256] = "unknown";
  gethostname(name, sizeof name - 1);
  return name;
}

// One checkpoint, and another while the first is still there.
std::int64_t bytes_on_disk(const Config& config) {
  const std::int64_t per_parameter = 4 * (config.train.delay() + 2);
  return 2 * parameter_count(config.model) * per_parameter;
}

Status load(const Checkpoint& checkpoint, Stages& stages) {
  std::uint64_t hash = 0;
  for (auto& stage : stages) {
    for (const TensorState& tensor : stage->state()) {
      if (Status status = checkpoint.read(tensor.info.name, tensor.info.rows, tensor.info.columns,
                                          tensor.weights, tensor.moment1, tensor.moment2);
          !status.ok()) {
        return status;
      }
    }
    stage->loaded(Step(checkpoint.head().state.step));
    hash += stage->state_hash();
  }
  if (hash == checkpoint.head().state.state_hash) return {};
  return Status::bad_input(format("%s is damaged: its state hashes to %s, not to %s",
                                  checkpoint.path().c_str(), hex(hash).c_str(),
                                  hex(checkpoint.head().state.state_hash).c_str()));
}

Result<Stages> make_stages(const Config& config, const std::vector<StageSpec>& specs,
                           kernels::Backend& backend, const StartPoint& start) {
  const std::int64_t slots = activation_slots(config, specs);
  Stages stages;
  for (const StageSpec& spec : specs) {
    stages.push_back(std::make_unique<StageModel>(config, spec, backend, slots));
    if (!start.checkpoint) stages.back()->initialize();
  }
  if (start.checkpoint) {
    if (Status status = load(*start.checkpoint, stages); !status.ok()) return status;
  }
  return stages;
}

JournalBegin make_begin(const Config& config, const StartPoint& start,
                        const std::string& fingerprint) {
  JournalBegin begin;
  begin.incarnation = start.state.incarnation;
  begin.from_step = start.state.step;
  begin.delay = config.train.delay();
  begin.carries_history = start.carried.has_value();
  begin.must_agree = start.must_agree;
  begin.deck = resolved_deck(config);
  begin.seed = std::to_string(config.train.seed);
  begin.version = version_line();
  begin.build = build_line();
  begin.fingerprint = fingerprint;
  begin.hosts = host_name();
  return begin;
}

// What a run is made of, once everything was checked.
struct Run {
  Config config;
  OutputPaths paths;
  Dataset data;
  std::vector<StageSpec> specs;
  std::unique_ptr<kernels::Backend> backend;
  std::string fingerprint;
  StartPoint start;
};

// The least that the deck needs: nothing kept between passes but what cannot be recomputed.
Status refuse_too_large(const Config& config, const std::vector<StageSpec>& stages) {
  double needed_bytes = 0;
  for (const StageSpec& stage : stages) {
    const StageMemory memory = stage_memory(config, stage);
    needed_bytes += static_cast<double>(memory.state_bytes) +
                    static_cast<double>(memory.sums_bytes) +
                    static_cast<double>(memory.scratch_bytes);
  }
  const double machine_bytes = static_cast<double>(this_machine().memory_bytes);
  if (needed_bytes <= machine_bytes) return {};
  return Status::bad_input("[model]: this model needs at least " + readable_bytes(needed_bytes) +
                           " of memory, this machine has " + readable_bytes(machine_bytes));
}

Result<Run> prepare(TrainOptions options) {
  Config& config = options.config;
  std::vector<StageSpec> specs = partition_model(config.model, config.swarm.stages);
  if (Status status = refuse_too_large(config, specs); !status.ok()) return status;
  Result<Dataset> data = Dataset::open(config);
  if (!data.ok()) return data.status();
  config.data.hash = hex(data.value().hash());

  const OutputPaths paths = output_paths(options);
  if (!options.resume) {
    if (Status status = refuse_existing(paths); !status.ok()) return status;
  }
  std::unique_ptr<kernels::Backend> backend = make_backend(config);
  backend->prepare_thread();
  const std::string fingerprint = hex(swarmpi::fingerprint(config, *backend));
  Result<StartPoint> start = find_start(options, paths, fingerprint);
  if (!start.ok()) return start.status();
  if (!options.dry_run) {
    if (Status status = prove_outputs_writable(paths, bytes_on_disk(config)); !status.ok()) {
      return status;
    }
  }
  return Run{config,
             paths,
             std::move(data).value(),
             std::move(specs),
             std::move(backend),
             fingerprint,
             std::move(start).value()};
}

Status train(Run& run, bool quiet) {
  WallClock clock;
  Inbox inbox;
  const SignalWatch signals(inbox);
  Result<Stages> stages = make_stages(run.config, run.specs, *run.backend, run.start);
  if (!stages.ok()) return stages.status();
  if (run.start.replaces) {
    if (Status status = remove_unfinished(run.paths); !status.ok()) return status;
  }

  StageCompute compute(run.config, run.data, *run.backend, std::move(stages).value(), clock, inbox);
  LoopbackTransport transport(kSelf);
  RunStorage storage(
      {run.paths.run_file, run.paths.checkpoints, run.config.output.keep,
       run.config.output.publish_every_s, run.config.train.delay(), kSelf,
       make_begin(run.config, run.start, run.fingerprint), run.start.carried},
      [&](StageId stage) -> StageModel& { return compute.stage(stage); }, clock, inbox);

  Peer peer(kSelf, make_plan(run.config, run.data, run.specs),
            {{kSelf}, {}, Term(run.start.first_term)}, run.start.state);
  Progress progress(run.config, stdout, quiet);
  Worker worker(peer, {clock, transport, compute, storage}, inbox,
                [&](const StoreRecord& record) { progress.show(record, clock.now_s()); });
  const Status status = worker.run();
  progress.end_line();

  const bool failed = status.code() == ExitStatus::no;
  const Status closed = storage.close(failed ? "invalid: " + status.message() : "open");
  return status.ok() ? closed : status;
}

void report_end(const Run& run, const Status& status, bool quiet) {
  if (!status.ok()) std::fprintf(stderr, "swarmpi: %s\n", status.message().c_str());
  if (status.code() == ExitStatus::stopped) {
    std::fprintf(stderr, "swarmpi: stopped; go on with --resume %s\n",
                 run.paths.checkpoints.c_str());
  }
  if (quiet) return;
  const Result<RunFile> file = read_run_file(run.paths.run_file);
  if (!file.ok()) return;
  std::printf("\n%s\nrun file    %s\ncheckpoints %s\n", run_summary(file.value()).c_str(),
              run.paths.run_file.c_str(), run.paths.checkpoints.c_str());
}

}  // namespace

ExitStatus run_training(const TrainOptions& options) {
  block_stop_signals();
  survive_file_size_limits();
  Result<Run> prepared = prepare(options);
  if (!prepared.ok()) {
    std::fprintf(stderr, "swarmpi: %s\n", prepared.status().message().c_str());
    return prepared.status().code();
  }
  Run& run = prepared.value();
  if (!options.quiet || options.dry_run) {
    std::printf("%s\n", welcome(run.config, run.specs, run.start.state, run.fingerprint).c_str());
    std::fflush(stdout);
  }
  if (options.dry_run) return ExitStatus::good;
  const Status status = train(run, options.quiet);
  report_end(run, status, options.quiet);
  return status.code();
}

}  // namespace swarmpi
