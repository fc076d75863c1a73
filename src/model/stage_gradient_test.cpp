// The all-reduce of one stage, done by hand: whichever peer adds which microbatch, and however the
// shares are sent, the reduced gradient has the bits of one peer that did everything.

#include "model/stage_gradient.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "model/local_trainer_test.hpp"
#include "protocol/step/commit_record.hpp"

namespace swarmpi::test::stage_gradient_test {
namespace {

constexpr std::int64_t kMicrobatches = 8;

Config wide_deck(Kernels kernels) {
  Config config = tiny_deck();
  config.model.layers = 2;
  config.model.width = 40;
  config.model.heads = 4;
  config.model.ffn = 230;  // tensors of several blocks, the last one not whole
  config.train.microbatches = kMicrobatches;
  config.compute.kernels = kernels;
  return config;
}

/// Draws that differ from test to test but never from run to run.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : seed_(seed) {}
  std::size_t below(std::size_t n) { return random_bits(seed_, Stream::test, 1, ++count_) % n; }

 private:
  std::uint64_t seed_;
  std::uint64_t count_ = 0;
};

/// Replicas of the whole model as one stage, all in step 1.
class Replicas {
 public:
  Replicas(const Config& config, kernels::Backend& backend, std::size_t count)
      : config_(config),
        tokens_(kMicrobatches * config.train.microbatch_size * config.model.context) {
    for (std::size_t r = 0; r < count; ++r) {
      models_.push_back(std::make_unique<StageModel>(
          config, partition_model(config.model, 1).front(), backend, 0));
      EXPECT_TRUE(models_.back()->initialize().ok());
    }
    const auto& tensors = models_[0]->spec().tensors;
    for (const TensorInfo& tensor : tensors) {
      // A tensor that no exponent is set for stays zero.
      exponents_.push_back(tensor.role == TensorRole::up_bias ? kernels::kNoExponent : 2);
    }
  }

  std::size_t size() const { return models_.size(); }
  StageModel& operator[](std::size_t replica) { return *models_[replica]; }
  const Exponents& exponents() const { return exponents_; }
  std::int64_t tokens() const { return tokens_; }

  void backward(std::size_t replica, std::int32_t microbatch) {
    const Text text(config_, 1, microbatch);
    const WorkId work{{Step(1), Purpose::train, microbatch}, StageId(0)};
    models_[replica]->backward(work, text.tokens, text.targets, {}, {}, {}, exponents_);
  }

  std::vector<double> reduce(std::size_t replica, const BlockRange& range,
                             std::span<const PartialSums> addends) {
    return models_[replica]->reduce(Step(1), range, addends, exponents_, tokens_).squares;
  }
  PartialSums share(std::size_t replica, const BlockRange& range,
                    std::span<const PartialSums> addends) {
    return models_[replica]->share(Step(1), range, addends, payloads_);
  }

  std::vector<float> gradient(std::size_t replica) const {
    const StageModel& model = *models_[replica];
    const BlockRange all{0, static_cast<std::int64_t>(model.blocks().size())};
    std::vector<float> dense(as_size(elements_of(model.blocks(), all)));
    model.copy_gradient(all, dense.data());
    return dense;
  }
  std::vector<std::uint64_t> apply(std::size_t replica) {
    CommitRecord record;
    record.step = Step(1);
    record.lr = 1e-2f;
    record.correction1 = 0.1f;
    record.correction2 = 0.05f;
    return models_[replica]->apply(record);
  }

 private:
  Config config_;
  std::int64_t tokens_;  // of the step
  std::vector<std::unique_ptr<StageModel>> models_;
  Exponents exponents_;
  PayloadPool payloads_;
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<BlockRange> random_chunks(std::int64_t blocks, Draw& draw) {
  std::vector<BlockRange> chunks;
  for (std::int64_t first = 0; first < blocks;) {
    const std::int64_t end = std::min(blocks, first + 1 + static_cast<std::int64_t>(draw.below(5)));
    chunks.push_back({first, end});
    first = end;
  }
  return chunks;
}

/// The shares of all replicas but the owner: each on its own, or added up from one to the next.
std::vector<PartialSums> shares_for(Replicas& replicas, std::size_t owner, const BlockRange& chunk,
                                    bool ring) {
  std::vector<PartialSums> shares;
  for (std::size_t i = 1; i < replicas.size(); ++i) {
    const std::size_t replica = (owner + i) % replicas.size();
    if (ring) {
      shares = {replicas.share(replica, chunk, shares)};
    } else {
      shares.push_back(replicas.share(replica, chunk, {}));
    }
  }
  return shares;
}

void all_reduce(Replicas& replicas, bool ring, Draw& draw, std::vector<double>& squares) {
  const std::vector<Block> blocks = replicas[0].blocks();
  for (const BlockRange& chunk : random_chunks(static_cast<std::int64_t>(blocks.size()), draw)) {
    const std::size_t owner = draw.below(replicas.size());
    const std::vector<PartialSums> shares = shares_for(replicas, owner, chunk, ring);
    const auto of_chunk = replicas.reduce(owner, chunk, shares);
    std::copy(of_chunk.begin(), of_chunk.end(), squares.begin() + chunk.first);
    std::vector<float> reduced(as_size(elements_of(blocks, chunk)));
    replicas[owner].copy_gradient(chunk, reduced.data());
    for (std::size_t r = 0; r < replicas.size(); ++r) {
      if (r != owner) replicas[r].place(chunk, reduced.data());
    }
  }
}

class ShardedReduction : public testing::TestWithParam<Kernels> {};
INSTANTIATE_TEST_SUITE_P(Kernels, ShardedReduction,
                         testing::Values(Kernels::reference, Kernels::native),
                         [](const auto& kernels) { return name_of(kernels.param); });

TEST_P(ShardedReduction, HasTheBitsOfOnePeerThatDidEverything) {
  const Config config = wide_deck(GetParam());
  const auto backend = ready_backend(config);
  Replicas one(config, *backend, 1);
  for (std::int32_t m = 0; m < kMicrobatches; ++m) one.backward(0, m);
  const BlockRange all{0, static_cast<std::int64_t>(one[0].blocks().size())};
  ASSERT_GT(all.end, static_cast<std::int64_t>(one[0].spec().tensors.size()));
  const std::vector<double> expected_squares = one.reduce(0, all, {});
  const std::vector<float> expected = one.gradient(0);
  EXPECT_EQ(sum_by_tensor(one[0].blocks(), {expected_squares}, one[0].spec().tensors.size()),
            one[0].reduce(Step(1), one.exponents(), one.tokens()));
  const std::vector<std::uint64_t> expected_hashes = one.apply(0);

  for (const std::size_t count : {1, 2, 3, 5}) {
    for (const bool ring : {false, true}) {
      Draw draw(10 * count + ring);
      Replicas replicas(config, *backend, count);
      for (std::int32_t m = kMicrobatches; m-- > 0;) replicas.backward(draw.below(count), m);
      std::vector<double> squares(expected_squares.size());
      all_reduce(replicas, ring, draw, squares);
      EXPECT_EQ(squares, expected_squares) << count << " replicas, ring " << ring;
      for (std::size_t r = 0; r < count; ++r) {
        EXPECT_TRUE(same_bits(replicas.gradient(r), expected)) << "replica " << r;
        EXPECT_EQ(replicas.apply(r), expected_hashes) << "replica " << r;
      }
    }
  }
}

TEST_P(ShardedReduction, OwnSumsStandForWhatNobodyElseAddsTo) {
  const Config config = wide_deck(GetParam());
  const auto backend = ready_backend(config);
  Replicas peers(config, *backend, 3);
  for (std::int32_t m = 0; m < kMicrobatches; ++m) {
    for (std::size_t p = 0; p < peers.size(); ++p) peers.backward(p, m);
  }
  const std::vector<Block> blocks = peers[0].blocks();
  const auto end = static_cast<std::int64_t>(blocks.size());
  const std::int64_t bytes_before = peers[0].memory_bytes();
  peers.reduce(0, {0, end}, {});
  EXPECT_EQ(peers[0].memory_bytes(), bytes_before) << "alone it needs no room for the gradient";

  // Chunks within tensors come from elsewhere: before its own part, and over it.
  const std::vector<float> whole = peers.gradient(0);
  for (const std::size_t p : {1, 2}) {
    if (p == 2) peers.reduce(p, {0, end}, {});
    for (std::int64_t first = 1; first < end; first += 3) {
      peers[p].place({first, first + 1}, whole.data() + elements_of(blocks, {0, first}));
    }
    for (std::int64_t first = 0; first < end && p == 1; ++first) {
      if (first % 3 != 1) peers.reduce(p, {first, first + 1}, {});
    }
    EXPECT_TRUE(same_bits(peers.gradient(p), whole));
  }
  const auto hashes = peers.apply(0);
  EXPECT_EQ(peers.apply(1), hashes);
  EXPECT_EQ(peers.apply(2), hashes);
}

TEST(StageGradientDeath, SumsThatStandForTheGradientTakeNothingMore) {
  const Config config = wide_deck(Kernels::reference);
  const auto backend = ready_backend(config);
  Replicas peers(config, *backend, 1);
  peers.backward(0, 0);
  peers.reduce(0, {0, 1}, {});
  EXPECT_DEATH(peers.backward(0, 1), "take nothing more");
}

TEST(StageGradient, AShareCanBeAskedForAgain) {
  const Config config = wide_deck(Kernels::reference);
  const auto backend = ready_backend(config);
  Replicas replicas(config, *backend, 2);
  for (std::int32_t m = 0; m < kMicrobatches; ++m) replicas.backward(as_size(m % 2), m);
  const BlockRange chunk{3, 9};
  const PartialSums other = replicas.share(1, chunk, {});
  const PayloadRef first = replicas.share(0, chunk, {&other, 1}).sums;
  const auto squares = replicas.reduce(0, chunk, {&other, 1});
  const PayloadRef again = replicas.share(0, chunk, {&other, 1}).sums;
  ASSERT_EQ(again->size_bytes(), first->size_bytes());
  EXPECT_EQ(std::memcmp(again->data(), first->data(), first->size_bytes()), 0);
  EXPECT_EQ(replicas.reduce(0, chunk, {&other, 1}), squares);
}

TEST(StageGradient, PacksToTheBitsInUse) {
  const Config config = wide_deck(Kernels::reference);
  const auto backend = ready_backend(config);
  Replicas replicas(config, *backend, 1);
  const std::vector<Block> blocks = replicas[0].blocks();
  const BlockRange all{0, static_cast<std::int64_t>(blocks.size())};
  EXPECT_EQ(replicas.share(0, all, {}).sums->size_bytes(), blocks.size() + 8)
      << "nothing but zeros";
  replicas.backward(0, 0);
  const double bytes_an_element =
      static_cast<double>(replicas.share(0, all, {}).sums->size_bytes()) /
      static_cast<double>(elements_of(blocks, all));
  EXPECT_GT(bytes_an_element, 2);
  EXPECT_LT(bytes_an_element, 5);
}

TEST(StageGradientDeath, AShareOfOtherBlocksEndsTheProcess) {
  const Config config = wide_deck(Kernels::reference);
  const auto backend = ready_backend(config);
  Replicas replicas(config, *backend, 2);
  replicas.backward(1, 0);
  const PartialSums other = replicas.share(1, {0, 4}, {});
  EXPECT_DEATH(replicas.reduce(0, {0, 3}, {&other, 1}), "packed sums");
  EXPECT_DEATH(replicas.share(0, {4, 8}, {&other, 1}), "packed sums");
  EXPECT_DEATH(replicas.share(0, {0, 1 << 20}, {}), "blocks of this stage");
}

}  // namespace
}  // namespace swarmpi::test::stage_gradient_test
