// A stage whose replicas own a range each: together they hold what one replica would.

#include <gtest/gtest.h>

#include "model/local_trainer_test.hpp"
#include "protocol/step/commit_record.hpp"
#include "protocol/step/state_hash.hpp"

namespace swarmpi::test::stage_owners_test {
namespace {

using Hashes = std::vector<std::uint64_t>;

Config deck(Kernels kernels) {
  Config config = tiny_deck();
  config.model.width = 40;  // tensors of more than one block
  config.model.ffn = 110;
  config.compute.kernels = kernels;
  return config;
}

Hashes sum(const Hashes& a, const Hashes& b) {
  Hashes both = a;
  for (std::size_t i = 0; i < both.size(); ++i) both[i] += b[i];
  return both;
}

// A run of one replica, and owners that get its reduced gradients and commits.
class Owners {
 public:
  Owners(Kernels kernels, std::int64_t count)
      : config(deck(kernels)), backend(ready_backend(config)), run(config, *backend, 1, 1) {
    for (std::int64_t place = 0; place < count; ++place) {
      owners.push_back(std::make_unique<StageModel>(config, partition_model(config).front(),
                                                    *backend, 0, Ownership{place, count}));
      EXPECT_TRUE(owners.back()->initialize().ok());
    }
    run.on_commit([this](const CommitRecord& record) { apply(record); });
  }

  // In chunks of one block, as an owner and the others do.
  void apply(const CommitRecord& record) {
    const StageModel& whole = *run.models().front();
    const OwnedChunks cut = cut_into_owned_chunks(whole.blocks(), std::ssize(owners), 4096);
    for (std::size_t c = 0; c < cut.chunks.size() && !record.skipped; ++c) {
      const BlockRange& blocks = cut.chunks[c];
      std::vector<float> values(as_size(elements_of(whole.blocks(), blocks)));
      whole.copy_gradient(blocks, values.data());
      StageModel& owner = *owners[as_size(cut.owners[c])];
      owner.place(blocks, values.data());
      const std::uint64_t hash = owner.update_chunk(record, blocks);
      owner.copy_weights(blocks, values.data());
      EXPECT_EQ(owner.weights_hash(blocks), hash);
      for (auto& other : owners) {
        if (other.get() == &owner) continue;
        EXPECT_EQ(other->place_weights(record.step, blocks, values.data()), hash);
      }
    }
    finished.clear();
    for (auto& owner : owners) finished.push_back(owner->finish(record));
  }
  std::size_t damaged() const {
    std::size_t tensors = 0;
    for (const auto& owner : owners) tensors += owner->damaged().size();
    return tensors;
  }
  // What they hold together.
  Hashes together() const {
    Hashes all(finished.front().tensors.size());
    for (const StateHash& hash : finished) all = sum(all, hash.tensors);
    return all;
  }

  Config config;
  std::unique_ptr<kernels::Backend> backend;
  LocalTrainer run;
  std::vector<std::unique_ptr<StageModel>> owners;
  std::vector<StateHash> finished;  // of the last step
};

class StageOwners : public testing::TestWithParam<std::tuple<Kernels, std::int64_t>> {
 protected:
  static constexpr std::int64_t kLast = 5;
  Owners scene_{std::get<0>(GetParam()), std::get<1>(GetParam())};
};
INSTANTIATE_TEST_SUITE_P(All, StageOwners,
                         testing::Combine(testing::Values(Kernels::reference, Kernels::native),
                                          testing::Values(1, 2, 3, 5)));

TEST_P(StageOwners, HoldTogetherWhatOneReplicaHolds) {
  for (std::int64_t step = 0; step <= kLast; ++step) {
    scene_.run.train(step);
    const StageModel& whole = *scene_.run.models().front();
    EXPECT_EQ(scene_.together(), whole.tensor_hashes()) << step;
    for (std::size_t i = 0; i < scene_.owners.size(); ++i) {
      const StageModel& owner = *scene_.owners[i];
      EXPECT_EQ(scene_.finished[i].weights, whole.weight_hashes());
      EXPECT_EQ(scene_.finished[i].weights, owner.weight_hashes());
      EXPECT_EQ(scene_.finished[i].tensors, owner.tensor_hashes());
    }
    EXPECT_EQ(scene_.damaged(), 0u);
  }
}

TEST_P(StageOwners, HaveTheMemoryOfTheirOwnMomentsAlone) {
  StageModel whole(scene_.config, partition_model(scene_.config).front(), *scene_.backend, 0);
  const std::int64_t count = std::ssize(scene_.owners);
  std::int64_t elements = 0;
  for (const Block& block : whole.blocks()) elements += block.count;
  const auto moments = static_cast<double>(2 * 4 * elements);
  for (const auto& owner : scene_.owners) {
    const auto saved = static_cast<double>(whole.memory_bytes() - owner->memory_bytes());
    EXPECT_NEAR(saved, moments * (1 - 1.0 / static_cast<double>(count)), 2 * 4 * 4200);
  }
}

// The state goes on where other replicas, or one, own it.
TEST_P(StageOwners, GoOnFromWhatOthersHaveOwned) {
  scene_.run.train(kLast - 1);
  auto& whole = *scene_.run.models().front();
  const std::vector<TensorState> from = whole.state();
  for (std::size_t i = 0; i < scene_.owners.size(); ++i) {
    StageModel& owner = *scene_.owners[i];
    // The ranges go round: nobody keeps its own.
    const auto place = static_cast<std::int64_t>((i + 1) % scene_.owners.size());
    owner.own({place, std::ssize(scene_.owners)});
    const std::vector<TensorState> to = owner.state();
    for (std::size_t t = 0; t < to.size(); ++t) {
      const ElementRange owned = to[t].owned.value_or(to[t].all());
      copy_array(owner.backend(), to[t].weights[0], from[t].weights[0], to[t].count());
      copy_array(owner.backend(), to[t].moment1, from[t].moment1 + owned.first, owned.count);
      copy_array(owner.backend(), to[t].moment2, from[t].moment2 + owned.first, owned.count);
    }
    owner.loaded(Step(kLast - 1));
  }
  std::rotate(scene_.owners.begin(), scene_.owners.end() - 1, scene_.owners.end());
  scene_.run.train(kLast);
  EXPECT_EQ(scene_.together(), whole.tensor_hashes());
}

// Of weights and moments that the next update overwrites nobody else could tell.
TEST_P(StageOwners, FindABitThatHasFlippedSinceTheLastUpdate) {
  scene_.run.train(kLast - 1);
  StageModel& owner = *scene_.owners.back();
  owner.flip(7);
  scene_.run.train(kLast);
  EXPECT_EQ(owner.damaged().size(), 1u);
  EXPECT_EQ(scene_.damaged(), 1u) << "the others are whole";
}

TEST_P(StageOwners, FindAMomentThatHasChanged) {
  scene_.run.train(kLast - 1);
  StageModel& owner = *scene_.owners.back();
  for (const TensorState& tensor : owner.state()) {
    if (tensor.moment2 == nullptr) continue;
    const float first = read_array(owner.backend(), tensor.moment2, 1).front();
    write_array(owner.backend(), tensor.moment2, {2 * first});
    break;
  }
  scene_.run.train(kLast);
  EXPECT_EQ(owner.damaged().size(), 1u);
}

TEST_P(StageOwners, FindWhatHasChangedInAStepThatIsSkipped) {
  scene_.run.train(kLast);
  StageModel& owner = *scene_.owners.back();
  owner.flip(7);
  CommitRecord record;
  record.step = Step(kLast + 1);
  record.skipped = true;
  scene_.apply(record);
  EXPECT_EQ(owner.damaged().size(), 1u);
  EXPECT_EQ(scene_.damaged(), 1u);
}

TEST_P(StageOwners, FindWhatHasChangedSinceItWasLoaded) {
  scene_.run.train(kLast - 1);
  StageModel& owner = *scene_.owners.back();
  owner.loaded(Step(kLast - 1));
  owner.flip(7);
  scene_.run.train(kLast);
  EXPECT_EQ(owner.damaged().size(), 1u);
}

// It lies at its owner alone until it is applied.
TEST(StageOwner, FindsThatItsReducedGradientHasChanged) {
  const Config config = deck(Kernels::native);
  const auto backend = ready_backend(config);
  PayloadPool payloads;
  for (const bool changes : {false, true}) {
    StageModel owner(config, partition_model(config).front(), *backend, 0, Ownership{0, 2});
    EXPECT_TRUE(owner.initialize().ok());
    StageModel other(config, partition_model(config).front(), *backend, 0, Ownership{1, 2});
    EXPECT_TRUE(other.initialize().ok());
    CommitRecord record;
    record.step = Step(0);
    record.skipped = true;
    for (StageModel* model : {&owner, &other}) model->finish(record);
    const OwnedChunks cut = cut_into_owned_chunks(owner.blocks(), 2, 4096);
    const Exponents exponents(model_tensors(config).size(), kernels::kNoExponent);
    record = {};
    record.step = Step(1);
    for (std::size_t c = 0; c < cut.chunks.size(); ++c) {
      const BlockRange& blocks = cut.chunks[c];
      std::vector<float> values(as_size(elements_of(owner.blocks(), blocks)));
      StageModel& maker = cut.owners[c] == 0 ? owner : other;
      StageModel& taker = cut.owners[c] == 0 ? other : owner;
      const std::vector<PartialSums> shares = {taker.share(record.step, blocks, {}, payloads)};
      maker.reduce(record.step, blocks, shares, exponents, 7);
      if (changes && c == 0) maker.place(blocks, std::vector<float>(values.size(), 1).data());
      maker.update_chunk(record, blocks);
      maker.copy_weights(blocks, values.data());
      taker.place_weights(record.step, blocks, values.data());
    }
    for (StageModel* model : {&owner, &other}) model->finish(record);
    EXPECT_EQ(owner.damaged().size(), changes ? 1u : 0u);
    EXPECT_EQ(other.damaged().size(), 0u);
  }
}

}  // namespace
}  // namespace swarmpi::test::stage_owners_test
