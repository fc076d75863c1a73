#include "simulation/real_compute.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "core/check.hpp"
#include "core/random.hpp"
#include "model/make_backend.hpp"
#include "protocol/membership/initial_membership.hpp"
#include "protocol/messages/reduction_jobs.hpp"
#include "protocol/messages/storage_port.hpp"
#include "runtime/job_executor.hpp"

namespace swarmpi {
namespace {

using Stages = std::vector<std::unique_ptr<StageModel>>;

// Rows in which each token follows from the one before it, so that a model can learn them. Step 0
// has the microbatches of step 1.
TokenSource arithmetic_text(const Config& config) {
  return
      [seed = config.train.seed, context = config.model.context, vocab = config.model.vocab](
          const MicrobatchId& id, std::span<std::int32_t> inputs, std::span<std::int32_t> targets) {
        const std::int64_t step =
            id.purpose == Purpose::validate ? 0 : std::max<std::int64_t>(id.step.value, 1);
        std::int64_t token = 0;
        for (std::size_t i = 0; i < inputs.size(); ++i) {
          if (i % static_cast<std::size_t>(context) == 0) {
            const std::uint64_t row = static_cast<std::uint64_t>(id.index) << 32 | i;
            token = static_cast<std::int64_t>(
                random_bits(seed, Stream::simulation, static_cast<std::uint32_t>(step), row) %
                static_cast<std::uint64_t>(vocab));
          }
          inputs[i] = static_cast<std::int32_t>(token);
          token = (token * 3 + 1) % vocab;
          targets[i] = static_cast<std::int32_t>(token);
        }
        return Status();
      };
}

// What of a tensor's moments is here.
ElementRange owned(const TensorState& tensor) {
  return tensor.owned.value_or(ElementRange{0, tensor.count()});
}

std::size_t bytes_of(const ElementRange& range) {
  return static_cast<std::size_t>(range.count) * sizeof(float);
}

// Sets the stage to its state after this step; before step 0, to its initial values.
void set_state(StageModel& stage, Step step, const RealArchive& archive) {
  if (step.value < 0) {
    SWARMPI_CHECK(stage.initialize().ok(), "decks of torture name no file of weights");
    return;
  }
  const auto set = [&](float* array, const std::vector<float>& values, const ElementRange& range) {
    stage.backend().upload(array, values.data() + range.first, bytes_of(range));
  };
  for (const TensorState& tensor : stage.state()) {
    const auto& saved = archive.at(step).at(tensor.name);
    const std::size_t versions = tensor.weights.size();
    for (std::size_t i = 0; i < versions; ++i) set(tensor.weights[i], saved[i], tensor.all());
    set(tensor.moment1, saved[versions], owned(tensor));
    set(tensor.moment2, saved[versions + 1], owned(tensor));
  }
  stage.loaded(step);
}

class RealCompute final : public VirtualCompute {
 public:
  RealCompute(PeerId self, const Config& config, PayloadPool& payloads, Stages stages,
              std::optional<Step> flip_after, decltype(StageFactory::make) make_stage,
              RealArchive& archive)
      : archive_(archive),
        executor_(self, config, arithmetic_text(config), payloads, std::move(stages), flip_after,
                  {std::move(make_stage), nullptr}) {
    executor_.take_from(collected_);
  }

  Result<JobResult> execute(const Job& job) override {
    const auto* const reduce = get_if<ReduceJob>(&job);
    if (reduce != nullptr && reduce->collective) note_result(*reduce);
    return executor_.execute(job);
  }

  CollectiveSums sums_for_collective(StageId id, Step step) override {
    const auto arrays = executor_.arrays_for_collective(id, step);
    if (!arrays) return {};
    CollectiveSums own{std::vector<std::uint64_t>(static_cast<std::size_t>(arrays->count)),
                       arrays->cover};
    executor_.stage(id).backend().download(own.sums.data(), arrays->in,
                                           own.sums.size() * sizeof(own.sums[0]));
    return own;
  }

  void set_out(StageId id, const ViewNumber& view, const CollectiveSums& sums) override {
    const auto arrays = executor_.arrays_for_collective(id, Step(0));
    if (!arrays || sums.sums.size() != static_cast<std::size_t>(arrays->count)) return;
    executor_.stage(id).backend().upload(arrays->out, sums.sums.data(),
                                         sums.sums.size() * sizeof(sums.sums[0]));
    outs_[id] = {view, sums.cover};
  }

  Result<StageStored> save(Step step, StageId id) override {
    StageModel& stage = executor_.stage(id);
    StoredFile file{fmt::format("stage-{}", id.value), 0, 0};
    for (const TensorState& tensor : stage.state()) {
      auto& saved = archive_[step][tensor.name];
      const std::size_t versions = tensor.weights.size();
      const ElementRange own = owned(tensor);
      saved.resize(versions + 2);
      for (auto& array : saved) array.resize(static_cast<std::size_t>(tensor.count()));
      const auto save = [&](std::vector<float>& values, const float* from) {
        stage.backend().download(values.data() + own.first, from, bytes_of(own));
      };
      for (std::size_t i = 0; i < versions; ++i) save(saved[i], tensor.weights[i] + own.first);
      save(saved[versions], tensor.moment1);
      save(saved[versions + 1], tensor.moment2);
    }
    std::vector<std::uint64_t> hashes = stage.tensor_hashes();
    for (const std::uint64_t hash : hashes) file.hash += hash;
    return StageStored{step, id, std::move(file), std::move(hashes)};
  }

  Status load(StageId id, const ResumeState& state, const Ownership& ownership) override {
    set_state(*executor_.room_for(id, ownership), Step(state.step), archive_);
    return {};
  }

 private:
  // What is in `out` was compared when the collective was done: it is of this seal.
  void note_result(const ReduceJob& job) {
    const auto out = outs_.find(job.stage);
    if (out == outs_.end() || out->second.first != *job.collective) return;
    collected_.set(job.stage, *job.collective, job.seal, out->second.second);
  }

  RealArchive& archive_;
  CollectiveResults collected_;
  std::map<StageId, std::pair<ViewNumber, Cover>> outs_;  // what was left in them
  JobExecutor executor_;
};

}  // namespace

RealComputeFactory::RealComputeFactory(const Config& config, std::optional<FlipAfter> flip,
                                       std::unique_ptr<kernels::Backend> backend)
    : config_(config),
      flip_(flip),
      backend_(backend ? std::move(backend) : make_backend(config).value()) {
  backend_->prepare_thread();
}

RealComputeFactory::~RealComputeFactory() = default;

std::unique_ptr<VirtualCompute> RealComputeFactory::make(PeerId self, const RunPlan& plan,
                                                         const InitialMembership& membership,
                                                         const ResumeState& resume) {
  const View view = first_view(plan, membership);
  // Some peers keep activations, others compute them again.
  const std::int64_t slots = self.value % 3;
  Config config = config_;
  config.swarm.stages = plan.stages();
  config.swarm.collectives = plan.swarm.collectives;
  const bool has_owners = plan.swarm.has_owners();
  const auto make_stage = [this, config, slots, has_owners](StageId id, const Ownership& own) {
    std::vector<StageSpec> specs = partition_model(config);
    StageSpec& spec = specs.at(static_cast<std::size_t>(id.value));
    return std::make_unique<StageModel>(config, std::move(spec), *backend_, slots,
                                        has_owners ? std::optional(own) : std::nullopt);
  };
  Stages stages;
  const auto dealt = view.members().find(self);  // a newcomer has no stage yet
  const auto stages_of_self = dealt == view.members().end() ? std::set<StageId>() : dealt->second;
  for (const StageId id : stages_of_self) {
    stages.push_back(make_stage(id, ownership_at_start(plan, membership, self)));
    set_state(*stages.back(), Step(resume.step), archive_);
  }
  const bool flips = flip_ && flip_->peer == self;
  return std::make_unique<RealCompute>(self, config_, payloads_, std::move(stages),
                                       flips ? std::optional(flip_->step) : std::nullopt,
                                       make_stage, archive_);
}

void set_stages(RunPlan& plan, const Config& config) {
  plan.tensor_names.clear();
  plan.tensor_elements.clear();
  plan.stage_tensors.clear();
  plan.stage_costs.clear();
  for (const TensorInfo& tensor : model_tensors(config)) {
    plan.tensor_names.push_back(tensor.name);
    plan.tensor_elements.push_back(tensor.count());
  }
  for (const StageSpec& spec : partition_model(config)) {
    plan.stage_tensors.emplace_back();
    for (const TensorInfo& tensor : spec.tensors) plan.stage_tensors.back().push_back(tensor.id);
    plan.stage_costs.push_back(spec.flops_per_token);
  }
}

}  // namespace swarmpi
