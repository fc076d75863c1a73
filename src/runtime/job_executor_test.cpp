#include "runtime/job_executor.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "model/local_trainer_test.hpp"
#include "protocol/messages/learning_jobs.hpp"
#include "protocol/messages/pass_jobs.hpp"
#include "protocol/messages/reduction_jobs.hpp"
#include "protocol/messages/update_jobs.hpp"
#include "protocol/step/commit_record.hpp"
#include "runtime/assembly.hpp"

namespace swarmpi::test::job_executor_test {
namespace {

Config deck() {
  Config config = tiny_deck();
  config.model.ffn = 300;  // tensors of more than one block
  return config;
}

TokenSource text_source(const Config& config) {
  return [config](const MicrobatchId& id, std::span<std::int32_t> inputs,
                  std::span<std::int32_t> targets) {
    const Text text(config, std::max<std::int64_t>(id.step.value, 1), id.index);
    std::copy(text.tokens.begin(), text.tokens.end(), inputs.begin());
    std::copy(text.targets.begin(), text.targets.end(), targets.begin());
    return Status();
  };
}

/// A peer that serves all stages, and asks its executor for what the protocol would ask.
class JobPeer {
 public:
  JobPeer(const Config& config, kernels::Backend& backend, std::int64_t stages,
          std::optional<Step> flip_after = std::nullopt)
      : config_(config),
        stages_(stages),
        executor_(PeerId(3), config, text_source(config), payloads_,
                  models(config, backend, stages), flip_after) {}

  template <class Answer>
  Answer ask(const Job& job) {
    return get<Answer>(executor_.execute(job).value());
  }

  /// One microbatch, forward and back; returns the exponents that it measured.
  Exponents microbatch(Step step, std::int32_t index, const Exponents& exponents) {
    const MicrobatchId id{step, Purpose::train, index};
    const auto used = std::make_shared<Exponents>(exponents);
    Exponents measured(exponents.size(), kernels::kNoExponent);
    std::vector<PayloadRef> inputs{nullptr};
    for (std::int32_t s = 0; s + 1 < stages_; ++s) {
      inputs.push_back(ask<ForwardResult>(ForwardJob{{id, StageId(s)}, inputs.back()}).output);
    }
    PayloadRef gradient;
    for (auto s = static_cast<std::int32_t>(stages_); s-- > 0;) {
      const auto answer =
          ask<BackwardResult>(BackwardJob{{id, StageId(s)}, inputs[as_size(s)], gradient, used});
      gradient = answer.input_gradient;
      const auto& tensors = executor_.stage(StageId(s)).spec().tensors;
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        measured[as_size(tensors[i].id)] = answer.contributions[i].exponent;
      }
    }
    return measured;
  }

  static CommitRef record(Step step, bool skipped = false) {
    const auto record = std::make_shared<CommitRecord>();
    record->step = step;
    record->skipped = skipped;
    record->lr = 1e-2f;
    record->correction1 = 0.1f;
    record->correction2 = 0.05f;
    return record;
  }
  std::vector<std::uint64_t> apply(Step step, StageId stage, bool skipped = false) {
    return ask<ApplyResult>(ApplyJob{stage, record(step, skipped), {}}).hash.tensors;
  }

  BlockRange all_blocks(StageId stage) {
    return {0, static_cast<std::int64_t>(executor_.stage(stage).blocks().size())};
  }
  std::int64_t tokens() const {
    return config_.train.microbatches * config_.train.microbatch_size * config_.model.context;
  }
  std::int64_t stages() const { return stages_; }
  JobExecutor& executor() { return executor_; }

 private:
  static std::vector<std::unique_ptr<StageModel>> models(const Config& config,
                                                         kernels::Backend& backend,
                                                         std::int64_t stages) {
    std::vector<std::unique_ptr<StageModel>> list;
    for (const StageSpec& spec : partition_model(config.model, stages)) {
      list.push_back(std::make_unique<StageModel>(config, spec, backend, 8));
      EXPECT_TRUE(list.back()->initialize().ok());
    }
    return list;
  }

  Config config_;
  std::int64_t stages_;
  PayloadPool payloads_;
  JobExecutor executor_;
};

/// Exponents of step 1, measured by a step 0.
Exponents measured_exponents(const Config& config, kernels::Backend& backend) {
  JobPeer peer(config, backend, 1);
  const Exponents none(model_tensors(config.model).size(), kernels::kNoExponent);
  return peer.microbatch(Step(0), 0, none);
}

/// Step 1 on peers that share the microbatches, reduced block range by block range: the first peer
/// rounds, the others take it over.
std::vector<std::uint64_t> hashes_of_step(std::vector<std::unique_ptr<JobPeer>>& peers,
                                          const Config& config, const Exponents& exponents) {
  for (std::int32_t m = 0; m < config.train.microbatches; ++m) {
    peers[as_size(m) % peers.size()]->microbatch(Step(1), m, exponents);
  }
  JobPeer& owner = *peers.front();
  std::vector<std::uint64_t> hashes;
  for (std::int32_t s = 0; s < owner.stages(); ++s) {
    const BlockRange blocks = owner.all_blocks(StageId(s));
    ReduceJob reduce{{}, Step(1), StageId(s), 0, blocks, {}, {}, owner.tokens(), true};
    reduce.exponents = std::make_shared<Exponents>(exponents);
    for (std::size_t p = 1; p < peers.size(); ++p) {
      const ShareJob share{{}, Step(1), StageId(s), 0, blocks, {}};
      reduce.addends.push_back(peers[p]->ask<ShareResult>(share).partial);
    }
    const auto reduced = owner.ask<ReduceResult>(reduce);
    EXPECT_EQ(static_cast<std::int64_t>(reduced.squares.size()), blocks.end);
    EXPECT_EQ(reduced.cover, Cover::of_step(Step(1), config.train.microbatches));
    const auto of_stage = owner.apply(Step(1), StageId(s));
    for (std::size_t p = 1; p < peers.size(); ++p) {
      const PlaceJob place{{}, Step(1), StageId(s), 0, blocks, reduced.gradient};
      EXPECT_EQ(peers[p]->ask<PlaceResult>(place).hash, reduced.hash);
      EXPECT_EQ(peers[p]->apply(Step(1), StageId(s)), of_stage);
    }
    hashes.insert(hashes.end(), of_stage.begin(), of_stage.end());
  }
  return hashes;
}

TEST(JobExecutor, JobsOnStagesAndReplicasGiveOnePeersBits) {
  const Config config = deck();
  const auto backend = ready_backend(config);
  const Exponents exponents = measured_exponents(config, *backend);
  std::vector<std::uint64_t> expected;
  for (const std::int64_t stages : {1, 2, 4}) {
    for (const int replicas : {1, 2, 3}) {
      std::vector<std::unique_ptr<JobPeer>> peers;
      for (int p = 0; p < replicas; ++p) {
        peers.push_back(std::make_unique<JobPeer>(config, *backend, stages));
      }
      const auto hashes = hashes_of_step(peers, config, exponents);
      if (expected.empty()) expected = hashes;
      EXPECT_EQ(hashes, expected) << stages << " stages, " << replicas << " replicas";
    }
  }
}

/// Leaves the sums of all in everybody's `out`, as a collective does; returns their cover.
Cover collect(std::vector<std::unique_ptr<JobPeer>>& peers, StageId stage,
              kernels::Backend& backend) {
  std::vector<std::int64_t> sums;
  Cover cover;
  for (const auto& peer : peers) {
    const auto arrays = peer->executor().arrays_for_collective(stage, Step(1));
    std::vector<std::int64_t> own(as_size(arrays->count));
    backend.download(own.data(), arrays->in, own.size() * sizeof(own[0]));
    sums.resize(own.size());
    for (std::size_t i = 0; i < own.size(); ++i) sums[i] += own[i];
    cover += arrays->cover;
  }
  for (const auto& peer : peers) {
    const auto arrays = peer->executor().arrays_for_collective(stage, Step(1));
    backend.upload(arrays->out, sums.data(), sums.size() * sizeof(sums[0]));
  }
  return cover;
}

// Of five replicas two have no microbatch, and their sums held others before.
TEST(JobExecutor, RoundsWhatACollectiveHasAddedUpToTheBitsOfPointToPoint) {
  Config config = deck();
  const auto backend = ready_backend(config);
  const Exponents exponents = measured_exponents(config, *backend);
  std::vector<std::unique_ptr<JobPeer>> alone;
  alone.push_back(std::make_unique<JobPeer>(config, *backend, 2));
  const auto expected = hashes_of_step(alone, config, exponents);

  config.swarm.collectives = Collectives::nccl;
  const ViewNumber view;
  const SealId seal{Incarnation(1), Term(2), 3};
  CollectiveResults results;
  std::vector<std::unique_ptr<JobPeer>> peers;
  for (int p = 0; p < 5; ++p) {
    JobPeer& peer = *peers.emplace_back(std::make_unique<JobPeer>(config, *backend, 2));
    peer.executor().take_from(results);
    peer.microbatch(Step(0), p, exponents);
    for (std::int32_t s = 0; s < 2; ++s) peer.apply(Step(0), StageId(s), true);
  }
  for (std::int32_t m = 0; m < config.train.microbatches; ++m) {
    peers[as_size(m)]->microbatch(Step(1), m, exponents);
  }
  std::vector<std::uint64_t> hashes;
  for (std::int32_t s = 0; s < 2; ++s) {
    const StageId stage(s);
    const BlockRange blocks = peers.front()->all_blocks(stage);
    ReduceJob reduce{seal, Step(1), stage, 0, blocks, {}, {}, peers.front()->tokens(), false, view};
    reduce.exponents = std::make_shared<Exponents>(exponents);
    EXPECT_EQ(peers.front()->ask<ReduceResult>(reduce).cover, Cover())
        << "nothing was added up yet";
    results.set(stage, view, seal, collect(peers, stage, *backend));
    std::vector<ReduceResult> reduced;
    for (std::size_t p = 0; p < peers.size(); ++p) {
      reduce.pass_on = p == 1;
      reduced.push_back(peers[p]->ask<ReduceResult>(reduce));
      EXPECT_EQ(reduced[p].cover, Cover::of_step(Step(1), config.train.microbatches));
      EXPECT_EQ(reduced[p].squares, reduced[0].squares);
      EXPECT_EQ(reduced[p].hash, reduced[0].hash);
      EXPECT_EQ(reduced[p].gradient != nullptr, reduce.pass_on);
    }
    const std::vector<std::uint64_t> of_stage = peers[0]->apply(Step(1), stage);
    for (std::size_t p = 1; p < peers.size(); ++p) {
      EXPECT_EQ(peers[p]->apply(Step(1), stage), of_stage);
    }
    hashes.insert(hashes.end(), of_stage.begin(), of_stage.end());
  }
  EXPECT_EQ(hashes, expected);
}

TEST(JobExecutor, SumsThatACollectiveWasToAddUpAreReducedPointToPoint) {
  Config config = deck();
  const auto backend = ready_backend(config);
  const Exponents exponents = measured_exponents(config, *backend);
  std::vector<std::unique_ptr<JobPeer>> plain, peers;
  for (int p = 0; p < 4; ++p) plain.push_back(std::make_unique<JobPeer>(config, *backend, 1));
  config.swarm.collectives = Collectives::nccl;
  for (int p = 0; p < 4; ++p) peers.push_back(std::make_unique<JobPeer>(config, *backend, 1));
  collect(peers, StageId(0), *backend);
  EXPECT_EQ(hashes_of_step(peers, config, exponents), hashes_of_step(plain, config, exponents));
}

TEST(JobExecutor, BoundariesHaveTheSizesOfTheirCodecs) {
  Config config = deck();
  config.swarm.stages = 2;
  config.swarm.compress_activations = Codec::blockwise8;
  config.swarm.compress_gradients = Codec::bf16;
  const auto backend = ready_backend(config);
  const auto exponents =
      std::make_shared<const Exponents>(model_tensors(config.model).size(), kernels::kNoExponent);
  JobPeer peer(config, *backend, 2);
  const MicrobatchId id{Step(1), Purpose::train, 0};
  const std::size_t elements =
      as_size(config.train.microbatch_size * config.model.context * config.model.width);
  const PayloadRef input = peer.ask<ForwardResult>(ForwardJob{{id, StageId(0)}, nullptr}).output;
  EXPECT_EQ(input->size_bytes(), elements + sizeof(float)) << "one block";
  const auto gradient =
      peer.ask<BackwardResult>(BackwardJob{{id, StageId(1)}, input, nullptr, exponents});
  EXPECT_EQ(gradient.input_gradient->size_bytes(), 2 * elements);
  EXPECT_DEATH(peer.ask<BackwardResult>(BackwardJob{{id, StageId(0)}, nullptr, input, exponents}),
               "a boundary of the deck's size");
}

TEST(JobExecutor, AReducedChunkThatNobodyNeedsIsNotCopied) {
  const Config config = deck();
  const auto backend = ready_backend(config);
  JobPeer peer(config, *backend, 1);
  ReduceJob reduce{{}, Step(1), StageId(0), 5, {2, 4}, {}, {}, 1, false};
  reduce.exponents =
      std::make_shared<Exponents>(model_tensors(config.model).size(), std::int16_t{0});
  const auto result = peer.ask<ReduceResult>(reduce);
  EXPECT_EQ(result.gradient, nullptr);
  EXPECT_EQ(result.squares, std::vector<double>(2));
  EXPECT_EQ(result.chunk, 5);
}

std::vector<std::byte> bytes_of(const PayloadRef& payload) {
  return {payload->data(), payload->data() + payload->size_bytes()};
}

TEST(JobExecutor, AnyReplicaGathersTheReducedGradient) {
  const Config config = deck();
  const auto backend = ready_backend(config);
  const auto exponents = std::make_shared<const Exponents>(measured_exponents(config, *backend));
  JobPeer owner(config, *backend, 1);
  owner.microbatch(Step(1), 0, *exponents);
  const BlockRange all = owner.all_blocks(StageId(0));
  ReduceJob reduce{{}, Step(1), StageId(0), 0, all, {}, exponents, owner.tokens(), true};
  const PayloadRef reduced = owner.ask<ReduceResult>(reduce).gradient;
  JobPeer replica(config, *backend, 1);
  replica.ask<PlaceResult>(PlaceJob{{}, Step(1), StageId(0), 0, all, reduced});

  const SealId seal{Incarnation(1), Term(2), 3};
  for (JobPeer* peer : {&owner, &replica}) {
    const auto whole = peer->ask<GatherResult>(GatherJob{seal, Step(1), StageId(0), 4, all});
    EXPECT_EQ(whole.seal, seal);
    EXPECT_EQ(whole.stage, StageId(0));
    EXPECT_EQ(whole.chunk, 4);
    EXPECT_EQ(bytes_of(whole.gradient), bytes_of(reduced));
    std::vector<std::byte> in_parts;
    for (const BlockRange part : {BlockRange{0, 2}, BlockRange{2, all.end}}) {
      const auto answer = peer->ask<GatherResult>(GatherJob{seal, Step(1), StageId(0), 0, part});
      const auto bytes = bytes_of(answer.gradient);
      in_parts.insert(in_parts.end(), bytes.begin(), bytes.end());
    }
    EXPECT_EQ(in_parts, bytes_of(reduced));
  }
}

/// A replica of the only stage that owns a range of it.
class OwnerPeer {
 public:
  OwnerPeer(const Config& config, kernels::Backend& backend, const Ownership& ownership,
            StageFactory::HasRoom has_room = {})
      : executor_(PeerId(3), config, text_source(config), payloads_,
                  stages(config, backend, ownership), std::nullopt,
                  {nullptr, nullptr, std::move(has_room)}) {}
  template <class Answer>
  Answer ask(const Job& job) {
    return get<Answer>(executor_.execute(job).value());
  }
  JobExecutor& executor() { return executor_; }

 private:
  static std::vector<std::unique_ptr<StageModel>> stages(const Config& config,
                                                         kernels::Backend& backend,
                                                         const Ownership& ownership) {
    std::vector<std::unique_ptr<StageModel>> list;
    list.push_back(std::make_unique<StageModel>(config, partition_model(config.model, 1).front(),
                                                backend, 0, ownership));
    EXPECT_TRUE(list.back()->initialize().ok());
    return list;
  }

  PayloadPool payloads_;
  JobExecutor executor_;
};

TEST(JobExecutor, OwnersMakeTheWeightsOfTheirChunksAndPlaceThoseOfOthers) {
  const Config config = deck();
  const auto backend = ready_backend(config);
  constexpr StageId kStage(0);
  OwnerPeer first(config, *backend, {0, 2}), second(config, *backend, {1, 2});
  const auto& blocks = first.executor().stage(kStage).blocks();
  const OwnedChunks cut = cut_into_owned_chunks(blocks, 2, std::nullopt);
  for (OwnerPeer* peer : {&first, &second}) {
    peer->ask<ApplyResult>(ApplyJob{kStage, JobPeer::record(Step(0), true), {}});
  }
  const CommitRef record = JobPeer::record(Step(1));
  PayloadPool payloads;
  for (std::size_t c = 0; c < cut.chunks.size(); ++c) {
    OwnerPeer& owner = cut.owners[c] == 0 ? first : second;
    OwnerPeer& other = cut.owners[c] == 0 ? second : first;
    const auto chunk = static_cast<std::int32_t>(c);
    const auto gradient = payloads.take(as_size(elements_of(blocks, cut.chunks[c])) * 4);
    std::fill_n(gradient->as<float>(), elements_of(blocks, cut.chunks[c]), 0.5f);
    owner.ask<PlaceResult>(PlaceJob{{}, Step(1), kStage, chunk, cut.chunks[c], gradient});
    const auto made =
        owner.ask<WeightsResult>(UpdateJob{record, kStage, chunk, cut.chunks[c], true});
    const auto copied =
        owner.ask<WeightsResult>(CopyWeightsJob{Step(1), kStage, chunk, cut.chunks[c]});
    EXPECT_EQ(copied.hash, made.hash);
    EXPECT_EQ(bytes_of(copied.weights), bytes_of(made.weights));
    const auto placed = other.ask<PlaceWeightsResult>(
        PlaceWeightsJob{Step(1), kStage, chunk, cut.chunks[c], made.weights});
    EXPECT_EQ(placed.hash, made.hash);
  }
  const auto one = first.ask<ApplyResult>(ApplyJob{kStage, record, {}}).hash;
  const auto two = second.ask<ApplyResult>(ApplyJob{kStage, record, {}}).hash;
  EXPECT_EQ(one.weights, two.weights);
  EXPECT_NE(one.tensors, two.tensors) << "of what each owns";
}

TEST(JobExecutor, WhoComesToOwnMoreNeedsTheRoomForIt) {
  const Config config = deck();
  const auto backend = ready_backend(config);
  bool has_room = false;
  std::optional<Ownership> asked, held;
  OwnerPeer peer(config, *backend, {0, 3},
                 [&](StageId, const Ownership& wanted, const std::optional<Ownership>& had) {
                   asked = wanted;
                   held = had;
                   return has_room;
                 });
  EXPECT_EQ(peer.executor().room_for(StageId(0), {1, 2}), nullptr);
  EXPECT_EQ(asked, (Ownership{1, 2}));
  EXPECT_EQ(held, (Ownership{0, 3}));
  has_room = true;
  StageModel* const stage = peer.executor().room_for(StageId(0), {1, 2});
  ASSERT_NE(stage, nullptr);
  EXPECT_EQ(stage->ownership(), (Ownership{1, 2}));
}

TEST(JobExecutor, ABackwardPassThatAddsNothingMakesTheSameGradient) {
  const Config config = deck();
  const auto backend = ready_backend(config);
  const auto exponents = std::make_shared<const Exponents>(measured_exponents(config, *backend));
  JobPeer peer(config, *backend, 2);
  const MicrobatchId id{Step(1), Purpose::train, 0};
  const PayloadRef input = peer.ask<ForwardResult>(ForwardJob{{id, StageId(0)}, nullptr}).output;
  BackwardJob job{{id, StageId(1)}, input, nullptr, exponents};
  const auto added = peer.ask<BackwardResult>(job);
  const ShareJob share{{}, Step(1), StageId(1), 0, peer.all_blocks(StageId(1)), {}};
  const auto [sums, cover] = peer.ask<ShareResult>(share).partial;

  job.add = false;
  job.exponents = nullptr;
  const auto again = peer.ask<BackwardResult>(job);
  EXPECT_EQ(bytes_of(again.input_gradient), bytes_of(added.input_gradient));
  EXPECT_EQ(again.loss_nats, added.loss_nats);
  EXPECT_TRUE(again.contributions.empty());
  const PartialSums after = peer.ask<ShareResult>(share).partial;
  EXPECT_EQ(bytes_of(after.sums), bytes_of(sums));
  EXPECT_EQ(after.cover, cover);
}

BlockRange blocks_of(const StageModel& model, std::size_t tensor) {
  BlockRange range;
  for (const Block& block : model.blocks()) {
    range.first += as_size(block.tensor) < tensor ? 1 : 0;
    range.end += as_size(block.tensor) <= tensor ? 1 : 0;
  }
  return range;
}

/// A peer that serves nothing at first, and makes stages when it is told to learn them.
class Learner {
 public:
  Learner(const Config& config, kernels::Backend& backend, std::int64_t stages)
      : executor_(PeerId(3), config, text_source(config), payloads_, {}, std::nullopt,
                  {[this, &backend, config, specs = partition_model(config.model, stages)](
                       StageId stage, const Ownership&) {
                     ++made_;
                     return std::make_unique<StageModel>(config, specs[as_size(stage.value)],
                                                         backend, 0);
                   },
                   nullptr}) {}

  template <class Answer>
  Answer ask(const Job& job) {
    return get<Answer>(executor_.execute(job).value());
  }
  /// Returns the hash of the tensor.
  std::uint64_t copy(JobPeer& teacher, StageId stage, std::int32_t tensor, Step step) {
    const BlockRange blocks = blocks_of(executor_.stage(stage), as_size(tensor));
    const auto read = teacher.ask<ReadResult>(ReadJob{stage, blocks});
    EXPECT_EQ(read.stage, stage);
    EXPECT_EQ(read.blocks, blocks);
    const auto written =
        ask<WriteResult>(WriteJob{stage, blocks, step, read.hash, read.state, {}, {tensor}});
    EXPECT_EQ(written.stage, stage);
    EXPECT_EQ(written.blocks, blocks);
    EXPECT_TRUE(written.intact);
    EXPECT_EQ(written.completed, std::vector<std::int32_t>{tensor});
    const auto back = ask<ReadResult>(ReadJob{stage, blocks});
    EXPECT_EQ(bytes_of(back.state), bytes_of(read.state));
    const auto damaged =
        ask<WriteResult>(WriteJob{stage, blocks, step, read.hash + 1, read.state, {}, {tensor}});
    EXPECT_FALSE(damaged.intact);
    EXPECT_TRUE(damaged.completed.empty());
    return written.tensor_hashes.at(0);
  }
  JobExecutor& executor() { return executor_; }
  int made() const { return made_; }

 private:
  int made_ = 0;
  PayloadPool payloads_;
  JobExecutor executor_;
};

/// Reduces what the peer has of this step.
PayloadRef reduced_gradient(JobPeer& peer, Step step, StageId stage, const Exponents& exponents) {
  ReduceJob reduce{{}, step, stage, 0, peer.all_blocks(stage), {}, {}, peer.tokens(), true};
  reduce.exponents = std::make_shared<Exponents>(exponents);
  return peer.ask<ReduceResult>(reduce).gradient;
}

TEST(JobExecutor, AStageIsLearnedWhileStepsAreApplied) {
  const Config config = deck();
  const auto backend = ready_backend(config);
  const Exponents exponents = measured_exponents(config, *backend);
  const StageId stage(1);
  JobPeer teacher(config, *backend, 2);
  Learner learner(config, *backend, 2);
  EXPECT_EQ(learner.ask<PrepareResult>(PrepareJob{stage, Step(-1)}).stage, stage);
  const auto tensors = learner.executor().stage(stage).spec().tensors.size();
  std::vector<bool> here(tensors);
  for (std::size_t i = 0; i < tensors; i += 2) {
    learner.copy(teacher, stage, static_cast<std::int32_t>(i), Step(-1));
    here[i] = true;
  }
  std::vector<std::uint64_t> hashes;
  for (const Step step : {Step(0), Step(1), Step(2)}) {
    for (std::int32_t m = 0; m < config.train.microbatches; ++m) {
      teacher.microbatch(step, m, exponents);
    }
    const PayloadRef gradient = reduced_gradient(teacher, step, stage, exponents);
    reduced_gradient(teacher, step, StageId(0), exponents);
    ApplyJob apply{stage, teacher.record(step, step == Step(0)), PartialState{{}, {{0, 2}}, {}}};
    for (std::size_t i = 0; i < tensors; ++i) {
      if (here[i]) apply.partial->here.push_back(blocks_of(learner.executor().stage(stage), i));
    }
    if (step == Step(2)) apply.partial.reset();  // whole
    hashes = teacher.apply(step, stage, step == Step(0));
    teacher.apply(step, StageId(0), step == Step(0));
    learner.ask<PlaceResult>(PlaceJob{{}, step, stage, 0, teacher.all_blocks(stage), gradient});
    const auto applied = learner.ask<ApplyResult>(apply);
    EXPECT_EQ(applied.step, step);
    EXPECT_EQ(applied.gradients.size(), step == Step(2) ? 0u : 1u);
    if (step == Step(0)) {
      EXPECT_EQ(applied.gradients[0], nullptr) << "skipped";
    }
    if (step == Step(1)) {
      EXPECT_EQ(std::memcmp(applied.gradients[0]->data(), gradient->data(),
                            applied.gradients[0]->size_bytes()),
                0);
    }
    for (std::size_t i = 0; i < tensors; ++i) {
      EXPECT_EQ(applied.hash.tensors[i], here[i] ? hashes[i] : 0) << i;
    }
    if (step != Step(1)) continue;
    for (std::size_t i = 1; i < tensors; i += 2) {
      EXPECT_EQ(learner.copy(teacher, stage, static_cast<std::int32_t>(i), step), hashes[i]);
      here[i] = true;
    }
  }
  EXPECT_EQ(learner.executor().stage(stage).tensor_hashes(), hashes);
}

TEST(JobExecutor, AStageIsMadeOnceUntilItIsDropped) {
  const Config config = deck();
  const auto backend = ready_backend(config);
  Learner learner(config, *backend, 2);
  for (int times = 0; times < 2; ++times) {
    learner.ask<PrepareResult>(PrepareJob{StageId(0), Step(3)});
    learner.ask<PrepareResult>(PrepareJob{StageId(0), Step(1)});
    EXPECT_EQ(learner.made(), times + 1);
    EXPECT_EQ(learner.executor().stage(StageId(0)).spec().stage, 0);
    EXPECT_EQ(learner.ask<DropResult>(DropJob{StageId(0)}).stage, StageId(0));
    EXPECT_DEATH(learner.executor().stage(StageId(0)), "does not serve stage");
  }
}

// A peer that has moved: while it has both stages there is no memory for activations.
TEST(JobExecutor, AStageThatIsLeftAloneKeepsActivations) {
  Config config = deck();
  config.model.layers = 3;
  const auto backend = ready_backend(config);
  Stages stages;
  for (const StageSpec& spec : partition_model(config.model, 3)) {
    if (spec.has_head) continue;
    stages.push_back(std::make_unique<StageModel>(config, spec, *backend, 0));
    EXPECT_TRUE(stages.back()->initialize().ok());
  }
  PayloadPool payloads;
  JobExecutor executor(PeerId(3), config, text_source(config), payloads, std::move(stages),
                       std::nullopt, {nullptr, [](StageId) { return 1; }});
  const auto passes = [&](std::int32_t index) {
    const WorkId work{{Step(1), Purpose::train, index}, StageId(0)};
    const auto done = executor.execute(ForwardJob{work, nullptr});
    const PayloadRef output = get<ForwardResult>(done.value()).output;
    const auto exponents = std::make_shared<const Exponents>(model_tensors(config.model).size());
    const auto back = executor.execute(BackwardJob{work, nullptr, output, exponents});
    return get<BackwardResult>(back.value());
  };
  EXPECT_TRUE(passes(0).with_forward);
  ASSERT_TRUE(executor.execute(DropJob{StageId(1)}).ok());
  EXPECT_FALSE(passes(1).with_forward);
}

TEST(JobExecutor, WhatCannotBeLearnedIsRefused) {
  const Config config = deck();
  const auto backend = ready_backend(config);
  JobPeer peer(config, *backend, 2);
  const auto read = peer.ask<ReadResult>(ReadJob{StageId(0), {0, 1}});
  EXPECT_DEATH(peer.ask<PrepareResult>(PrepareJob{StageId(2), Step(1)}), "cannot add stages");
  const WriteJob write{StageId(0), {1, 2}, Step(0), read.hash, read.state, {}, {}};
  EXPECT_DEATH(peer.ask<WriteResult>(write), "another size");
  EXPECT_DEATH(peer.ask<ReadResult>(ReadJob{StageId(0), {-1, 1}}), "blocks of this stage");
}

TEST(JobExecutor, AFlippedBitIsSeenOneStepLaterInOneTensor) {
  const Config config = deck();
  const auto backend = ready_backend(config);
  JobPeer honest(config, *backend, 2);
  JobPeer faulty(config, *backend, 2, Step(2));
  for (std::int64_t step = 1; step <= 2; ++step) {
    for (const StageId stage : {StageId(1), StageId(0)}) {
      EXPECT_EQ(faulty.apply(Step(step), stage, true), honest.apply(Step(step), stage, true));
    }
  }
  int differing = 0;
  for (const StageId stage : {StageId(1), StageId(0)}) {
    const auto expected = honest.apply(Step(3), stage, true);
    const auto hashes = faulty.apply(Step(3), stage, true);
    for (std::size_t i = 0; i < hashes.size(); ++i) differing += hashes[i] != expected[i];
  }
  EXPECT_EQ(differing, 1);
}

// Nobody else may hold this state to compare it with.
TEST(JobExecutor, AStateThatMemoryHasChangedIsAnErrorThatNamesTensorStagePeerAndStep) {
  Config config = deck();
  config.train.updates = Updates::delayed;
  const auto backend = ready_backend(config);
  JobPeer peer(config, *backend, 2);
  const StageId stage(1);
  peer.apply(Step(1), stage, true);
  const FlippedBit bit = peer.executor().stage(stage).flip(1, FaultyPart::oldest);
  const auto result = peer.executor().execute(ApplyJob{stage, JobPeer::record(Step(2), true), {}});
  EXPECT_EQ(result.status().code(), ExitStatus::no);
  EXPECT_EQ(result.status().message(),
            "the state of " + bit.tensor +
                " of stage 1 at peer 3 was damaged in memory before step 2: check the memory of "
                "this peer's host, and resume from the last checkpoint");
}

TEST(JobExecutor, DataThatCannotBeReadAreAnError) {
  const Config config = deck();
  const auto backend = ready_backend(config);
  std::vector<std::unique_ptr<StageModel>> stages;
  stages.push_back(
      std::make_unique<StageModel>(config, partition_model(config.model, 1).front(), *backend, 0));
  EXPECT_TRUE(stages.front()->initialize().ok());
  PayloadPool payloads;
  JobExecutor executor(
      PeerId(3), config,
      [](const MicrobatchId&, std::span<std::int32_t>, std::span<std::int32_t>) {
        return Status::failed("the file is gone");
      },
      payloads, std::move(stages));
  const auto result =
      executor.execute(ForwardJob{{{Step(1), Purpose::validate, 0}, StageId(0)}, nullptr});
  EXPECT_EQ(result.status().message(), "the file is gone");
}

}  // namespace
}  // namespace swarmpi::test::job_executor_test
