#include "model/cost.hpp"

#include <gtest/gtest.h>

#include "core/machine.hpp"
#include "kernels/reference/reference_backend.hpp"
#include "model/boundary.hpp"
#include "model/make_backend.hpp"
#include "model/stage_model.hpp"
#include "protocol/messages/learning_jobs.hpp"
#include "protocol/messages/pass_jobs.hpp"
#include "protocol/messages/reduction_jobs.hpp"

namespace swarmpi::cost_test {
namespace {

Config deck() {
  Config config;
  config.model.layers = 4;
  config.model.width = 96;
  config.model.heads = 3;
  config.model.context = 32;
  config.model.vocab = 256;
  config.train.microbatch_size = 2;
  config.compute.kernels = Kernels::reference;
  return config;
}

TEST(Cost, FlopsFollowTheFormula) {
  ModelConfig model;
  model.layers = 12;
  model.width = 768;
  model.context = 512;
  model.vocab = 256;
  const double formula = 72.0 * 12 * 768 * 768 + 6.0 * 256 * 768 + 6.0 * 12 * 512 * 768;
  EXPECT_DOUBLE_EQ(model_flops_per_token(model), formula);
  EXPECT_NEAR(formula, 539e6, 1e6);
}

TEST(Cost, JobsOfAMicrobatchAddUpToTheModelsFlops) {
  Config config = deck();
  const auto stages = partition_model(config.model, 2);
  const double tokens = 2 * 32;
  const double first = stages[0].flops_per_token * tokens;
  const double last = stages[1].flops_per_token * tokens;
  const JobResult done = BackwardResult{};
  BackwardResult with_forward;
  with_forward.with_forward = true;
  const auto flops = [&](std::size_t stage, const Job& job, const JobResult& result) {
    return job_flops(config, stages[stage], job, result);
  };
  EXPECT_DOUBLE_EQ(flops(0, ForwardJob{}, ForwardResult{}), first / 3);
  EXPECT_DOUBLE_EQ(flops(0, BackwardJob{}, done), 2 * first / 3);
  EXPECT_DOUBLE_EQ(flops(1, BackwardJob{}, done), last);
  EXPECT_DOUBLE_EQ(flops(1, ForwardJob{}, ForwardResult{}), last / 3) << "validation";
  EXPECT_DOUBLE_EQ(first + last, model_flops_per_token(config.model) * tokens);
  // What is charged is what was done, whatever the deck says about recomputation.
  EXPECT_DOUBLE_EQ(flops(0, BackwardJob{}, with_forward), first);
  EXPECT_DOUBLE_EQ(flops(1, BackwardJob{}, with_forward), last);
  BackwardJob again;
  again.add = false;
  EXPECT_DOUBLE_EQ(flops(0, again, done), first / 3);
  EXPECT_DOUBLE_EQ(flops(0, again, with_forward), 2 * first / 3);
  EXPECT_DOUBLE_EQ(flops(1, again, with_forward), 2 * last / 3);
  EXPECT_EQ(flops(0, ReduceJob{}, ReduceResult{}), 0);
  EXPECT_EQ(flops(0, GatherJob{}, GatherResult{}), 0);
  for (const Job& job : {Job(PrepareJob{}), Job(ReadJob{}), Job(WriteJob{}), Job(DropJob{})}) {
    EXPECT_EQ(flops(0, job, DropResult{}), 0);
  }
}

TEST(Cost, PredictsTheMemoryThatAStageTakes) {
  for (const Kernels kernels : {Kernels::reference, Kernels::native}) {
    for (const Updates updates : {Updates::synchronous, Updates::delayed}) {
      Config config = deck();
      config.compute.kernels = kernels;
      config.train.updates = updates;
      const bool delayed = updates == Updates::delayed;
      config.swarm.collectives = delayed ? Collectives::nccl : Collectives::none;
      const auto backend = make_backend(config).value();
      for (const StageSpec& spec : partition_model(config.model, 2)) {
        const StageMemory memory = stage_memory(config, spec, *backend);
        const std::int64_t slots = 3;
        const auto predicted =
            static_cast<double>(memory.fixed_bytes() + slots * memory.activation_slot_bytes);
        const double taken =
            static_cast<double>(StageModel(config, spec, *backend, slots).memory_bytes());
        EXPECT_NEAR(predicted / taken, 1, 0.01) << name_of(kernels) << ", stage " << spec.stage;

        StageModel replica(config, spec, *backend, 0);
        const std::int64_t alone_bytes = replica.memory_bytes();
        replica.place({0, 1}, std::vector<float>(4096).data());
        EXPECT_NEAR(static_cast<double>(replica.memory_bytes() - alone_bytes),
                    static_cast<double>(memory.gradient_bytes), 1);
      }
    }
  }
}

TEST(Cost, PredictsWhatAnOwnerTakes) {
  Config config = deck();
  config.swarm.method = Method::zero_offload;
  const auto backend = make_backend(config).value();
  const StageSpec spec = partition_model(config.model, 1).front();
  const StageMemory memory = stage_memory(config, spec, *backend);
  for (const std::int64_t owners : {1, 2, 5}) {
    StageModel owner(config, spec, *backend, 0, Ownership{0, owners});
    if (owners > 1) owner.place({0, 1}, std::vector<float>(4096).data());
    const auto predicted = static_cast<double>(memory.fixed_bytes() + memory.owned(owners));
    EXPECT_NEAR(predicted / static_cast<double>(owner.memory_bytes()), 1, 0.01) << owners;
  }
  Config whole = config;
  whole.swarm.method = Method::data_parallel;
  const StageMemory all = stage_memory(whole, spec, *backend);
  EXPECT_EQ(memory.fixed_bytes() + memory.owned(1), all.fixed_bytes()) << "one has all";
  const MemoryNeeds needs = memory_needs(config, {spec}, *backend, 4);
  EXPECT_EQ(needs.stages[0].owned_bytes, memory.owned_bytes);
  EXPECT_GT(needs.stages[0].serving_bytes, memory.fixed_bytes()) << "weights on their way";
  EXPECT_EQ(memory_needs(config, {spec}, *backend, 1).stages[0].serving_bytes_of(1),
            all.fixed_bytes());
}

TEST(Cost, KernelsScratchHoldsTheLogitsOfAtMost128MiB) {
  Config config = deck();
  config.compute.kernels = Kernels::native;
  config.train.microbatch_size = 64;  // 2048 rows
  const auto backend = make_backend(config).value();
  const auto kernels_bytes = [&](std::int64_t vocab) {
    config.model.vocab = vocab;
    return peer_memory(config, partition_model(config.model, 2), *backend).kernels_bytes;
  };
  EXPECT_GT(kernels_bytes(16384), 60 << 20);
  EXPECT_LT(kernels_bytes(16384), 70 << 20);
  EXPECT_LT(kernels_bytes(800000), 134 << 20);
}

TEST(Cost, APeerWithoutStagesNeedsNothing) {
  Config config = deck();
  const auto backend = make_backend(config).value();
  EXPECT_EQ(peer_memory(config, {}, *backend).fixed_bytes, 0);
  EXPECT_EQ(activation_slots(config, {}, *backend, 1), config.swarm.in_flight(1));
}

TEST(Cost, RoundedCopiesAreCountedWhereTheyAreMade) {
  for (const Kernels kernels : {Kernels::reference, Kernels::native}) {
    Config config = deck();
    config.compute.kernels = kernels;
    const auto stages = partition_model(config.model, 1);
    const auto fp32 = peer_memory(config, stages, *make_backend(config).value());
    config.model.precision = Precision::bf16;
    const auto bf16 = peer_memory(config, stages, *make_backend(config).value());
    if (config.compute.kernels == Kernels::native) {
      EXPECT_GT(bf16.kernels_bytes, fp32.kernels_bytes);
    } else {
      EXPECT_EQ(bf16.fixed_bytes, fp32.fixed_bytes);  // rounds each factor as it multiplies
    }
  }
}

TEST(Cost, StaticPipelinesKeepWhatTheirMethodKeeps) {
  Config config = deck();
  config.swarm.stages = 2;
  config.train.microbatches = 12;
  const std::vector<StageSpec> first = {partition_model(config.model, 2).front()};
  const auto backend = make_backend(config).value();
  config.swarm.method = Method::gpipe;
  EXPECT_EQ(activation_slots(config, first, *backend, 4), 0) << "computes all again";
  config.swarm.method = Method::one_f_one_b;
  EXPECT_EQ(activation_slots(config, first, *backend, 4), 2) << "as many as there are stages";
  config.train.microbatches = 1;
  EXPECT_EQ(activation_slots(config, first, *backend, 4), 1);
}

TEST(Cost, SlotsFollowRecomputeAndMemory) {
  Config config = deck();
  config.swarm.stages = 2;
  const auto stages = partition_model(config.model, 2);
  const auto backend = make_backend(config).value();
  config.compute.recompute = Recompute::always;
  EXPECT_EQ(activation_slots(config, stages, *backend, 3), 0);
  config.compute.recompute = Recompute::never;
  EXPECT_EQ(activation_slots(config, stages, *backend, 3), 4);
  EXPECT_EQ(activation_slots(config, stages, *backend, 7), 7);
  config.swarm.window = 9;
  config.train.microbatches = 5;
  EXPECT_EQ(activation_slots(config, stages, *backend, 3), 5) << "no more are in flight";
  config.train.updates = Updates::delayed;
  EXPECT_EQ(activation_slots(config, stages, *backend, 3), 9) << "those of two steps";

  config.compute.recompute = Recompute::as_needed;
  EXPECT_EQ(activation_slots(config, stages, *backend, 3), 9);
  EXPECT_EQ(activation_slots(config, stages, *backend, 3, {1'000'000'000}), 0) << "a crowded host";
  EXPECT_EQ(stage_memory(config, stages[1], *backend).activation_slot_bytes, 0);
  const std::int64_t slot = peer_memory(config, stages, *backend).activation_slot_bytes;
  const MemoryNeeds needs = memory_needs(config, stages, *backend, 3);
  const std::int64_t least = least_bytes(needs, {StageId(0), StageId(1)}, {});
  const auto slots_where_left = [&](std::int64_t left_bytes) {
    config.compute.memory_gb = static_cast<double>(least + left_bytes) / 1e9;
    return activation_slots(config, stages, *backend, 3);
  };
  const std::int64_t kept = kept_for_repairs_bytes(config);
  ASSERT_LT(kept, 5 * slot / 2);
  EXPECT_EQ(slots_where_left(kept + 5 * slot / 2), 2) << "beside all that may be kept";
  EXPECT_GT(activation_slots(config, stages, *backend, 1), 2) << "nobody to reduce with";
  config.swarm.cache_memory_gb = 1;
  EXPECT_EQ(slots_where_left(5 * slot), 2) << "half of it is for what was sent";
  config.swarm.recovery = Recovery::redo;
  EXPECT_EQ(slots_where_left(5 * slot / 2), 2) << "nothing is kept";
  EXPECT_EQ(slots_where_left(-1), 0);
}

TEST(Cost, APeerStatesWhatItMayTake) {
  Config config = deck();
  const auto backend = make_backend(config).value();
  const std::int64_t usable = usable_memory_bytes();
  EXPECT_EQ(budget_bytes(config, *backend, {4}), usable / 10 * 9 / 4);
  config.compute.memory_gb = 0.5;
  EXPECT_EQ(budget_bytes(config, *backend, {4}), std::min<std::int64_t>(500'000'000, usable));
  config.compute.memory_gb = 1e6;
  EXPECT_EQ(budget_bytes(config, *backend, {4}),
            std::min<std::int64_t>(1'000'000'000'000'000, usable));
}

// The reference kernels as if on a device of 80 GB, which two ranks share.
class OnDevice final : public kernels::reference::ReferenceBackend {
 public:
  OnDevice() : ReferenceBackend(kernels::Precision::fp32) {}
  std::optional<kernels::OwnMemory> own_memory() const override { return kMemory; }

  static constexpr kernels::OwnMemory kMemory{80'000'000'000, 39'000'000'000, 79'000'000'000};
};

TEST(Cost, APeerOnADeviceTakesItsShareOfThat) {
  Config config = deck();
  const OnDevice backend;
  EXPECT_EQ(budget_bytes(config, backend, {8}), 39'000'000'000 / 10 * 9) << "by the launcher";
  const std::int64_t of_four = (20'000'000'000 - (std::int64_t{1} << 30)) / 10 * 9;
  EXPECT_EQ(budget_bytes(config, backend, on_one_machine(8, 2)), of_four);
  EXPECT_EQ(budget_bytes(config, backend, on_one_machine(7, 2)), of_four) << "the fuller one";
  EXPECT_GT(budget_bytes(config, backend, on_one_machine(2, 2)), 3 * of_four);
  config.compute.memory_gb = 50;
  EXPECT_EQ(budget_bytes(config, backend, on_one_machine(8, 2)), 50'000'000'000);
}

TEST(Cost, WhatMessagesBringLiesOnTheHostWhereADeviceComputes) {
  Config config = deck();
  config.swarm.stages = 2;
  config.compute.recompute = Recompute::always;
  const auto stages = partition_model(config.model, 2);
  OnDevice device;
  const auto host = make_backend(config).value();
  const MemoryNeeds on_device = memory_needs(config, stages, device, 3);
  const MemoryNeeds on_host = memory_needs(config, stages, *host, 3);
  for (const StageSpec& spec : stages) {
    const StageMemory memory = stage_memory(config, spec, device);
    EXPECT_EQ(on_device.of(StageId(spec.stage)).serving_bytes,
              memory.fixed_bytes() + memory.gradient_bytes);
  }
  EXPECT_LT(on_device.of(StageId(0)).learning_bytes, on_host.of(StageId(0)).learning_bytes);
  EXPECT_EQ(on_device.peer_bytes, peer_memory(config, stages, device).kernels_bytes);

  EXPECT_FALSE(host_memory(config, stages, *host, 3, {1})) << "its budget bounds all";
  const auto there = host_memory(config, stages, device, 3, {1});
  ASSERT_TRUE(there);
  const std::int64_t inputs = 4 * boundary_bytes(config).activations;
  EXPECT_GE(there->messages_bytes, inputs + on_host.peer_bytes - on_device.peer_bytes);
  EXPECT_EQ(there->kept_bytes, kept_for_repairs_bytes(config));
  EXPECT_EQ(there->share_bytes, usable_memory_bytes() / 10 * 9);
}

TEST(Cost, WhatIsKeptForRepairsIsBoundedByTheHostAndNotByTheDevice) {
  Config config = deck();
  config.swarm.stages = 2;
  const auto stages = partition_model(config.model, 2);
  OnDevice device;
  const std::int64_t slot = peer_memory(config, stages, device).activation_slot_bytes;
  const std::int64_t least =
      least_bytes(memory_needs(config, stages, device, 3), {StageId(0), StageId(1)}, {});
  config.swarm.cache_memory_gb = 1e5;
  config.compute.memory_gb = static_cast<double>(least + 5 * slot / 2) / 1e9;
  EXPECT_EQ(activation_slots(config, stages, device, 3), 2) << "all that is left is for these";
  const auto host = host_memory(config, stages, device, 3, {1});
  ASSERT_TRUE(host && host->share_bytes);
  EXPECT_EQ(host->kept_bytes, (*host->share_bytes - host->messages_bytes) / 2);
  EXPECT_EQ(host_memory(config, stages, device, 3, {1'000'000})->kept_bytes, 0) << "a crowded host";
}

// What a stage holds at rest, and what it waits for; less where boundaries are coded.
TEST(Cost, NeedsCoverWhatStagesHoldAndWhatCrossesBoundaries) {
  Config config = deck();
  config.swarm.stages = 2;
  config.compute.recompute = Recompute::always;
  const auto stages = partition_model(config.model, 2);
  const auto backend = make_backend(config).value();
  const MemoryNeeds needs = memory_needs(config, stages, *backend, 3);
  for (const StageSpec& spec : stages) {
    const StageMemory memory = stage_memory(config, spec, *backend);
    const StageNeeds& stage = needs.of(StageId(spec.stage));
    const std::int64_t inputs =
        spec.has_embedding ? 0 : 4 * boundary_bytes(config).activations;  // that can be open
    EXPECT_EQ(stage.serving_bytes, memory.fixed_bytes() + memory.gradient_bytes + inputs);
    EXPECT_GT(stage.learning_bytes, stage.serving_bytes);
  }
  config.swarm.compress_activations = Codec::fp16;
  const MemoryNeeds coded = memory_needs(config, stages, *backend, 3);
  EXPECT_LT(coded.of(StageId(1)).serving_bytes, needs.of(StageId(1)).serving_bytes);
  EXPECT_LT(coded.peer_bytes, needs.peer_bytes);
  config.swarm.compress_activations = Codec::blockwise8;
  const MemoryNeeds one_byte = memory_needs(config, stages, *backend, 3);
  EXPECT_LT(one_byte.of(StageId(1)).serving_bytes, coded.of(StageId(1)).serving_bytes);
  config.swarm.compress_activations = Codec::none;
  config.train.updates = Updates::delayed;
  const MemoryNeeds delayed = memory_needs(config, stages, *backend, 3);
  EXPECT_GT(delayed.of(StageId(0)).serving_bytes, needs.of(StageId(0)).serving_bytes);
  const MemoryNeeds alone = memory_needs(config, stages, *backend, 1);
  EXPECT_LT(alone.of(StageId(0)).serving_bytes, delayed.of(StageId(0)).serving_bytes);
}

TEST(Cost, NeedsCountTheTensorsOfLearnedBoundariesAndWhatThesePassOn) {
  Config config = deck();
  config.swarm.stages = 2;
  config.compute.recompute = Recompute::always;
  const auto backend = make_backend(config).value();
  const MemoryNeeds plain = memory_needs(config, partition_model(config), *backend, 3);
  config.swarm.boundary = Boundary::bottleneck;
  config.swarm.boundary_factor = 2;
  const std::vector<StageSpec> stages = partition_model(config);
  const MemoryNeeds learned = memory_needs(config, stages, *backend, 3);
  EXPECT_GT(learned.of(StageId(0)).serving_bytes, plain.of(StageId(0)).serving_bytes)
      << "the way down is trained with the sender's stage";
  const StageMemory memory = stage_memory(config, stages[1], *backend);
  const std::int64_t inputs = 4 * boundary_bytes(config).activations;
  EXPECT_EQ(learned.of(StageId(1)).serving_bytes,
            memory.fixed_bytes() + memory.gradient_bytes + inputs);
  Config wide = config;
  wide.swarm.boundary = Boundary::plain;
  EXPECT_EQ(2 * boundary_bytes(config).activations, boundary_bytes(wide).activations);
}

}  // namespace
}  // namespace swarmpi::cost_test
