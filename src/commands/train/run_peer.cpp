#include "commands/train/run_peer.hpp"

#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "commands/train/shared_folders.hpp"
#include "config/deck.hpp"
#include "core/clock.hpp"
#include "core/version.hpp"
#include "emulation/emulated_device.hpp"
#include "emulation/fault_triggers.hpp"
#include "emulation/hollow_peer.hpp"
#include "hardware/device.hpp"
#include "model/cost.hpp"
#include "report/collective_notices.hpp"
#include "report/hang_notices.hpp"
#include "report/progress.hpp"
#include "runtime/job_executor.hpp"
#include "runtime/peer_loop.hpp"
#include "runtime/run_storage.hpp"
#include "runtime/stage_compute.hpp"
#include "transport/launcher.hpp"

namespace swarmpi {
namespace {

JournalBegin make_begin(const PreparedRun& run, const std::string& hosts) {
  JournalBegin begin;
  begin.incarnation = run.start.state.incarnation;
  begin.from_step = run.start.state.step;
  begin.delay = run.config.train.delay();
  begin.carries_history = run.start.carries_rows;
  begin.must_agree = !run.config.swarm.allow_mixed;
  begin.origin.deck = resolved_deck(run.config);
  begin.origin.seed = std::to_string(run.config.train.seed);
  begin.origin.version = version_line();
  begin.origin.build = build_line();
  begin.origin.fingerprint = run.fingerprint;
  begin.origin.hosts = hosts;
  return begin;
}

StoragePlan storage_plan(const PreparedRun& run, const std::string& hosts, HollowStages* hollow) {
  StoragePlan plan;
  plan.hollow = hollow;
  plan.run_file = run.paths.run_file;
  plan.is_mixed = run.config.swarm.allow_mixed;
  plan.checkpoints = run.paths.checkpoints;
  if (run.start.checkpoint) plan.resumed_from = run.start.checkpoint->path();
  plan.shared_files = probe_paths(run.paths, run.shared_file);
  plan.keep = run.config.output.keep;
  plan.publish_every_s = run.config.output.publish_every_s;
  plan.suspect_after_s = run.config.swarm.suspect_after_s;
  plan.delay = run.config.train.delay();
  plan.tensors = tensor_count(run.specs);
  plan.self = run.self;
  plan.first_term = run.membership.first_term.value;
  plan.last_step = run.config.train.steps;
  plan.begin = make_begin(run, hosts);
  if (run.start.carries_rows) plan.carried = run.start.checkpoint;
  plan.fidelity = name_of(run.config.compute.fidelity);
  plan.prepare_thread = [&backend = *run.backend] { backend.prepare_thread(); };
  return plan;
}

void keep_for_repairs(const PreparedRun& run, const PeerEnvironment& environment, RunPlan& plan) {
  if (!plan.recovers) return;
  plan.kept_bytes = kept_for_repairs_bytes(run.config);
  const std::optional<HostMemory> host =
      host_memory(run.config, run.specs, *run.backend, run.workers(), {environment.peers_on_host});
  if (!host) return;
  plan.kept_apart = true;
  plan.kept_bytes = host->kept_bytes;
}

RunPlan run_plan(const PreparedRun& run, const PeerEnvironment& environment) {
  RunPlan plan = run.plan();
  plan.faults_by_clock = run.preemption.silent_faults;
  plan.validation_microbatches = run.data.validation_microbatches();
  plan.validation_missing =
      plan.validation_microbatches * plan.tokens_per_microbatch - run.data.validation_tokens();
  plan.between_deaths_s = between_deaths_s(run.preemption, run.config.faults, run.view.serving());
  plan.recovers = environment.recovers && run.config.swarm.recovery != Recovery::off;
  keep_for_repairs(run, environment, plan);
  return plan;
}

// The step after which [[faults.at]] flips a bit of this peer's state.
std::optional<Step> flip_after(const PreparedRun& run) {
  for (const FaultAt& fault : run.config.faults_at) {
    if (fault.event == FaultEvent::flip && fault.peer == run.self.value) return Step(fault.step);
  }
  return std::nullopt;
}

std::unique_ptr<EmulatedDevice> emulated_device(const PreparedRun& run, JobRunner& kernels) {
  if (run.config.compute.fidelity != Fidelity::emulated) return nullptr;
  const std::optional<DeviceConfig> device = device_of(run.config, run.self);
  if (!device) return nullptr;
  return std::make_unique<EmulatedDevice>(kernels, run.config, run.specs, *device);
}

// How well this machine kept the device's pace; with --quiet only where it did not.
void tell_fidelity(const PreparedRun& run, const EmulatedDevice& device) {
  const EmulatedDevice::Fidelity fidelity = device.fidelity();
  const bool faithful = is_faithful(fidelity);
  if (faithful && run.options.quiet) return;
  std::fprintf(stderr, "swarmpi: %speer %d: %s\n", faithful ? "" : "warning: ", run.self.value,
               text_of(fidelity).c_str());
}

// Of a peer that computes nothing; null where it computes.
std::unique_ptr<HollowPeer> hollow_peer(const PreparedRun& run,
                                        const PeerEnvironment& environment) {
  if (run.config.compute.kernels != Kernels::none) return nullptr;
  return std::make_unique<HollowPeer>(run.self, run.config, run_plan(run, environment),
                                      run.start.state, *run.backend);
}

StageFactory factory_of(PreparedRun& run, const PeerEnvironment& environment) {
  StageFactory factory =
      stage_factory(run.config, run.specs, *run.backend, run.workers(), environment.peers_on_host);
  factory.can_read_data = [&data = run.data] { return data.can_be_read_anew(); };
  return factory;
}

// Null where there are none; then why, where the deck asks for them.
std::unique_ptr<NcclCollectives> collectives_of(const PreparedRun& run, JobExecutor& executor,
                                                CollectiveResults& results, Inbox& inbox) {
  auto made = make_collectives(run.config, run.self, *run.backend, executor, results, inbox);
  if (made.ok()) return std::move(made).value();
  std::fprintf(stderr,
               "swarmpi: peer %d: no collectives: %s; its stages are reduced point to point\n",
               run.self.value, made.status().message().c_str());
  return nullptr;
}

// How long a peer at its end waits for a job or a call of the file system that does not come on:
// such a thread cannot be stopped, so it is left behind, with all that it may touch.
constexpr double kLastCallsS = 10;
// The same after a death: ranks at their end then wait for the others in MPI for 5 s only.
constexpr double kLastCallsAfterALossS = 4;
// The same where the others go on without it, perhaps because of that job.
constexpr double kLastCallsOfDepartedS = 1;

// What threads of a peer work with.
struct PeerParts {
  PeerParts(PreparedRun& run, Stages stages, PayloadPool& payloads,
            const PeerEnvironment& environment, Inbox& inbox)
      : executor(run.self, run.config, tokens_of(run.data), payloads, std::move(stages),
                 flip_after(run), factory_of(run, environment)),
        copies(*run.backend, inbox, run.config.compute.job_timeout_s),
        kernels(executor, clock),
        hollow(hollow_peer(run, environment)),
        device(emulated_device(run, hollow ? static_cast<JobRunner&>(*hollow) : kernels)),
        compute(device   ? static_cast<JobRunner&>(*device)
                : hollow ? static_cast<JobRunner&>(*hollow)
                         : kernels,
                *run.backend, inbox, &copies),
        storage(storage_plan(run, environment.hosts, hollow.get()), executor, clock, inbox),
        collectives(collectives_of(run, executor, collective_results, inbox)) {
    executor.copy_beside_jobs(copies);
  }

  WallClock clock;
  JobExecutor executor;
  PayloadCopies copies;
  KernelRunner kernels;
  std::unique_ptr<HollowPeer> hollow;  // in the place of the kernels
  std::unique_ptr<EmulatedDevice> device;
  CollectiveResults collective_results;
  StageCompute compute;
  RunStorage storage;
  std::unique_ptr<NcclCollectives> collectives;
};

}  // namespace

Outcome run_peer(PreparedRun& run, Stages stages, Transport& transport, PayloadPool& payloads,
                 const PeerEnvironment& environment, Inbox& inbox) {
  auto parts = std::make_unique<PeerParts>(run, std::move(stages), payloads, environment, inbox);
  Peer peer(run.self, run_plan(run, environment), run.membership, run.start.state);
  peer.set_born(parts->clock.now_s() - environment.age_s);
  const bool relayed = !detect_launcher().name.empty();
  Progress progress(run.config, stdout, run.options.quiet, relayed);
  const auto end_line = [&progress] { progress.end_line(); };
  HangNotices hangs(run.config.swarm.give_up_after_s, stderr, end_line);
  CollectiveNotices collective_notices(stderr, end_line);
  FaultTriggers triggers(run.config.faults_at, run.self, environment.inject_fault);
  PeerLoop loop(peer,
                {parts->clock, transport, parts->compute, parts->storage, parts->collectives.get()},
                inbox);
  loop.watch(progress);
  loop.watch(hangs);
  if (!run.options.quiet) loop.watch(collective_notices);
  loop.watch(triggers);
  StepsByCollective by_collective;
  loop.watch(by_collective);
  const Status status = loop.run();
  EmulatedDevice* const device = parts->device.get();
  if (device != nullptr) device->abandon();
  progress.end_line();
  if (device != nullptr) tell_fidelity(run, *device);
  const double patience_s = peer.left()            ? kLastCallsOfDepartedS
                            : peer.lost_somebody() ? kLastCallsAfterALossS
                                                   : kLastCallsS;
  if (parts->collectives != nullptr && peer.reports_outcome() && !run.options.quiet) {
    std::fprintf(stderr, "swarmpi: peer %d: %zu steps were reduced by NCCL\n", run.self.value,
                 by_collective.count());
  }
  const bool left_behind = parts->collectives != nullptr && !parts->collectives->end(patience_s);
  bool stores = parts->storage.settle(patience_s);
  Outcome outcome{.saw_the_end = peer.saw_the_end()};
  if (!peer.done() && transport.ended()) {
    outcome.reports_outcome = false;
    outcome.died = true;
  } else {
    const bool failed = status.code() == ExitStatus::no;
    const std::optional<Status> published =
        stores ? parts->storage.close(failed ? "invalid: " + status.message() : "open", patience_s)
               : std::nullopt;
    stores = published.has_value();
    const Status closed = published.value_or(Status());
    outcome.status = status.ok() ? closed : status;
    outcome.reports_outcome = peer.reports_outcome() || (status.ok() && !closed.ok());
    outcome.departed = peer.left();
  }
  outcome.hangs = !stores || !parts->compute.settle(patience_s) || left_behind;
  if (outcome.hangs) (void)parts.release();
  return outcome;
}

}  // namespace swarmpi
