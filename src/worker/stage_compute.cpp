#include "worker/stage_compute.hpp"

#include <utility>

#include "core/check.hpp"
#include "kernels/rounding_mode.hpp"

namespace swarmpi {

StageCompute::StageCompute(const Config& config, const Dataset& data, kernels::Backend& backend,
                           std::vector<std::unique_ptr<StageModel>> stages, const Clock& clock,
                           Inbox& inbox)
    : data_(data),
      clock_(clock),
      inbox_(inbox),
      payloads_(backend, config.train.microbatch_size * config.model.context, config.model.width),
      inputs_(config.train.microbatch_size * config.model.context),
      targets_(inputs_.size()),
      thread_([&backend] { backend.prepare_thread(); }) {
  for (auto& stage : stages) {
    const StageId id(stage->spec().stage);
    stages_[id] = std::move(stage);
  }
}

StageModel& StageCompute::stage(StageId stage) { return *stages_.at(stage); }

void StageCompute::start(Job job) {
  thread_.run([this, job = std::move(job)]() mutable {
    SWARMPI_CHECK(kernels::rounding_mode_is_default(), "somebody changed the rounding mode");
    const double start_s = clock_.now_s();
    if (const Status status = load_tokens(job); !status.ok()) {
      // Storage that data come from can fail like the one that results go to: the run ends.
      job = Job();
      inbox_.post(StorageFailed{status});
      return;
    }
    JobResult result = std::visit([&](const auto& j) { return execute(j); }, job);
    // Inputs go back to the pool before the result is known, so that the next job finds them.
    job = Job();
    inbox_.post(JobFinished{std::move(result), clock_.now_s() - start_s});
  });
}

Status StageCompute::load_tokens(const Job& job) {
  const auto load = [this](const MicrobatchId& id) {
    return data_.microbatch(id, inputs_, targets_);
  };
  if (const auto* forward = std::get_if<ForwardJob>(&job)) return load(forward->work.microbatch);
  if (const auto* backward = std::get_if<BackwardJob>(&job)) return load(backward->work.microbatch);
  return {};
}

JobResult StageCompute::execute(const ForwardJob& job) {
  StageModel& stage = *stages_.at(job.work.stage);
  ForwardResult result{job.work, nullptr, 0};
  kernels::Matrix y;
  if (!stage.spec().has_head) {
    const auto output = payloads_.take();
    y = output->matrix();
    result.output = output;
  }
  result.loss_nats = stage.forward(job.work, inputs_, targets_, matrix_of(job.input), y);
  return result;
}

JobResult StageCompute::execute(const BackwardJob& job) {
  StageModel& stage = *stages_.at(job.work.stage);
  BackwardResult result{job.work, nullptr, 0, {}};
  kernels::Matrix dx;
  if (!stage.spec().has_embedding) {
    const auto gradient = payloads_.take();
    dx = gradient->matrix();
    result.input_gradient = gradient;
  }
  StageModel::BackwardAnswer answer =
      stage.backward(job.work, inputs_, targets_, matrix_of(job.input),
                     matrix_of(job.output_gradient), dx, *job.exponents);
  result.loss_nats = answer.loss_nats;
  result.contributions = std::move(answer.contributions);
  return result;
}

JobResult StageCompute::execute(const ReduceJob& job) {
  StageModel& stage = *stages_.at(job.stage);
  return ReduceResult{job.seal, job.stage, stage.reduce(job.step, *job.exponents, job.tokens)};
}

JobResult StageCompute::execute(const ApplyJob& job) {
  StageModel& stage = *stages_.at(job.stage);
  return ApplyResult{job.record->step, job.stage, stage.apply(*job.record)};
}

}  // namespace swarmpi
