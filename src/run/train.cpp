#include "run/train.hpp"

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "config/deck.hpp"
#include "core/clock.hpp"
#include "core/hash.hpp"
#include "core/version.hpp"
#include "data/dataset.hpp"
#include "model/make_backend.hpp"
#include "model/stage_model.hpp"
#include "run/assembly.hpp"
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

// A run, once everything was checked.
struct Run {
  Config config;
  OutputPaths paths;
  Dataset data;
  std::vector<StageSpec> specs;
  std::unique_ptr<kernels::Backend> backend;
  std::string fingerprint;
  StartPoint start;
};

// The cheap checks first; nothing is written, and nothing large is taken before it is known to fit.
Result<Run> prepare(TrainOptions options) {
  Config& config = options.config;
  std::vector<StageSpec> specs = partition_model(config.model, config.swarm.stages);
  Result<std::unique_ptr<kernels::Backend>> made = make_backend(config);
  if (!made.ok()) return made.status();
  std::unique_ptr<kernels::Backend> backend = std::move(made).value();
  if (Status status = refuse_too_large(config, specs, *backend); !status.ok()) return status;
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
  Result<StartPoint> start = find_start(options, paths, fingerprint);
  if (!start.ok()) return start.status();
  return Run{config,
             paths,
             std::move(data).value(),
             std::move(specs),
             std::move(backend),
             fingerprint,
             std::move(start).value()};
}

std::string host_name() {
  char name[256] = "unknown";
  gethostname(name, sizeof name - 1);
  return name;
}

JournalBegin make_begin(const Run& run) {
  JournalBegin begin;
  begin.incarnation = run.start.state.incarnation;
  begin.from_step = run.start.state.step;
  begin.delay = run.config.train.delay();
  begin.carries_history = run.start.carried.has_value();
  begin.must_agree = run.start.must_agree;
  begin.deck = resolved_deck(run.config);
  begin.seed = std::to_string(run.config.train.seed);
  begin.version = version_line();
  begin.build = build_line();
  begin.fingerprint = run.fingerprint;
  begin.hosts = host_name();
  return begin;
}

StoragePlan storage_plan(const Run& run) {
  return {run.paths.run_file,       run.paths.checkpoints,
          run.config.output.keep,   run.config.output.publish_every_s,
          run.config.train.delay(), kSelf,
          make_begin(run),          run.start.carried};
}

// The four seams, and one peer that runs on them.
Status train(Run& run, Inbox& inbox, SignalWatch& signals, bool quiet) {
  Result<Stages> stages = make_stages(run.config, run.specs, *run.backend, run.start.checkpoint);
  if (!stages.ok()) return stages.status();
  if (run.start.replaces) {
    if (Status status = remove_unfinished(run.paths); !status.ok()) return status;
  }
  WallClock clock;
  LoopbackTransport transport(kSelf);
  StageCompute compute(run.config, run.data, *run.backend, std::move(stages).value(), clock, inbox);
  RunStorage storage(
      storage_plan(run), [&](StageId stage) -> StageModel& { return compute.stage(stage); }, clock,
      inbox);

  Peer peer(kSelf, make_plan(run.config, run.data, run.specs),
            {{kSelf}, {}, Term(run.start.first_term)}, run.start.state);
  Progress progress(run.config, stdout, quiet);
  Worker worker(peer, {clock, transport, compute, storage}, inbox,
                [&](const StoreRecord& record) { progress.show(record, clock.now_s()); });
  signals.deliver();
  const Status status = worker.run();
  progress.end_line();

  const bool failed = status.code() == ExitStatus::no;
  const Status closed = storage.close(failed ? "invalid: " + status.message() : "open");
  return status.ok() ? closed : status;
}

// A run whose messages nobody could take is as good as any other.
void forget_unwritten_messages() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  std::fprintf(stderr, "swarmpi: standard output could not be written\n");
  if (std::freopen("/dev/null", "w", stdout) == nullptr) std::clearerr(stdout);
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
  std::printf("\n%s\nrun file     %s\ncheckpoints  %s\n", run_summary(file.value()).c_str(),
              run.paths.run_file.c_str(), run.paths.checkpoints.c_str());
}

}  // namespace

ExitStatus run_training(const TrainOptions& options) {
  Inbox inbox;
  SignalWatch signals(inbox, options.launched);
  survive_file_size_limits();
  Result<Run> prepared = prepare(options);
  if (!prepared.ok()) {
    const Status placed = with_place(options.config, prepared.status());
    std::fprintf(stderr, "swarmpi: %s\n", placed.message().c_str());
    return placed.code();
  }
  Run& run = prepared.value();
  if (!options.quiet || options.dry_run) {
    std::printf("%s\n", welcome(run.config, run.specs, run.start, run.fingerprint).c_str());
    std::fflush(stdout);
  }
  if (options.dry_run) return ExitStatus::good;
  const Status status = train(run, inbox, signals, options.quiet);
  report_end(run, status, options.quiet);
  forget_unwritten_messages();
  return status.code();
}

}  // namespace swarmpi
