// The whole model's gradient against finite differences of its loss.

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "model/local_trainer_test.hpp"
#include "protocol/step/commit_record.hpp"

namespace swarmpi::test::gradient_test {
namespace {

/// A model whose weights can be moved along a direction.
class Probe {
 public:
  explicit Probe(const Config& config)
      : config_(config),
        backend_(ready_backend(config)),
        text_(config, 1, 0),
        exponents_(model_tensors(config).size(), kernels::kNoExponent) {
    for (StageSpec& spec : partition_model(config)) {
      stages_.push_back(std::make_unique<StageModel>(config, std::move(spec), *backend_, 0));
      EXPECT_TRUE(stages_.back()->initialize().ok());
    }
    const BoundaryBytes bytes = boundary_bytes(config);
    boundaries_.assign(stages_.size(), std::vector<std::byte>(as_size(bytes.activations)));
    gradient_.resize(as_size(bytes.gradients));
    // Weights of order one, so that every term of the gradient counts.
    std::uint32_t number = 0;
    for (TensorState& tensor : state()) {
      const std::uint32_t id = number++;
      std::vector<float> values = read_array(*backend_, tensor.weights[0], tensor.count());
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double draw = uniform(philox(3, Stream::test, id, i)[0]);
        values[i] += static_cast<float>(0.8 * (draw - 0.5));
      }
      write_array(*backend_, tensor.weights[0], values);
    }
    set_loaded();
  }

  /// Of all tensors, stage by stage.
  std::vector<TensorState> state() {
    std::vector<TensorState> all;
    for (const auto& stage : stages_) {
      for (TensorState& tensor : stage->state()) all.push_back(std::move(tensor));
    }
    return all;
  }

  /// Mean loss in nats a token, with one tensor moved by `amount` times `direction`.
  double loss_along(std::size_t tensor, const std::vector<double>& direction, double amount) {
    float* const weights = state()[tensor].weights[0];
    const std::vector<float> saved = read_array(*backend_, weights, std::ssize(direction));
    std::vector<float> moved;
    for (std::size_t i = 0; i < direction.size(); ++i) {
      moved.push_back(static_cast<float>(saved[i] + amount * direction[i]));
    }
    write_array(*backend_, weights, moved);
    set_loaded();
    const double nats = forward({Step(1), Purpose::validate, 0});
    write_array(*backend_, weights, saved);
    return nats / static_cast<double>(text_.tokens.size());
  }

  /// The gradient of the mean loss: with beta1 = 0 it is the first moment after one update.
  std::vector<std::vector<double>> gradients() {
    set_loaded();
    exponents_ = pass(Step(0));
    CommitRecord record;
    record.skipped = true;
    for (const auto& stage : stages_) stage->apply(record);
    pass(Step(1));
    record.step = Step(1);
    record.skipped = false;  // and a learning rate of zero
    for (const auto& stage : stages_) {
      stage->reduce(Step(1), exponents_, static_cast<std::int64_t>(text_.tokens.size()));
      stage->apply(record);
    }
    std::vector<std::vector<double>> gradients;
    for (const TensorState& tensor : state()) {
      const std::vector<float> moment = read_array(*backend_, tensor.moment1, tensor.count());
      gradients.emplace_back(moment.begin(), moment.end());
    }
    return gradients;
  }

 private:
  void set_loaded() {
    for (const auto& stage : stages_) stage->loaded(Step(0));
  }
  /// The loss in nats.
  double forward(const MicrobatchId& id) {
    double nats = 0;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      const bool last = s + 1 == stages_.size();
      nats = stages_[s]->forward({id, StageId(static_cast<std::int32_t>(s))}, text_.tokens,
                                 text_.targets, s == 0 ? nullptr : boundaries_[s].data(),
                                 last ? nullptr : boundaries_[s + 1].data());
    }
    return nats;
  }
  /// Forward and back again; the exponents that were measured.
  Exponents pass(Step step) {
    const MicrobatchId id{step, Purpose::train, 0};
    forward(id);
    Exponents measured = exponents_;
    for (std::size_t s = stages_.size(); s-- > 0;) {
      const auto answer = stages_[s]->backward({id, StageId(static_cast<std::int32_t>(s))},
                                               text_.tokens, text_.targets, boundaries_[s].data(),
                                               gradient_.data(), gradient_.data(), exponents_);
      for (std::size_t i = 0; i < answer.contributions.size(); ++i) {
        EXPECT_FALSE(step.value > 0 && answer.contributions[i].flagged());
        measured[as_size(stages_[s]->spec().tensors[i].id)] = answer.contributions[i].exponent;
      }
    }
    return measured;
  }

  Config config_;
  std::unique_ptr<kernels::Backend> backend_;
  std::vector<std::unique_ptr<StageModel>> stages_;
  Text text_;
  Exponents exponents_;
  std::vector<std::vector<std::byte>> boundaries_;  // into each stage
  std::vector<std::byte> gradient_;                 // on the way back
};

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// Derivative by central differences, with Richardson's extrapolation: an error of order h^4, and
/// rounding of the loss (about 1e-7) divided by h.
template <class Loss>
double derivative(Loss loss, double h) {
  const double coarse = (loss(h) - loss(-h)) / (2 * h);
  const double fine = (loss(h / 2) - loss(-h / 2)) / h;
  return (4 * fine - coarse) / 3;
}

void expect_gradients_match_differences(const Config& config, double h = 0.02) {
  Probe probe(config);
  const auto gradients = probe.gradients();
  for (std::size_t t = 0; t < gradients.size(); ++t) {
    const std::vector<double>& gradient = gradients[t];
    const double norm = std::sqrt(dot(gradient, gradient));
    const std::string name = probe.state()[t].name;
    ASSERT_GT(norm, 1e-4) << name;
    // Along the gradient itself, and along random directions that see its single elements.
    for (std::uint32_t trial = 0; trial < 4; ++trial) {
      std::vector<double> direction = gradient;
      if (trial > 0) {
        for (std::size_t i = 0; i < direction.size(); ++i) {
          direction[i] = uniform(philox(trial, Stream::test, 77, i)[0]) - 0.5;
        }
      }
      const double length = std::sqrt(dot(direction, direction));
      for (double& d : direction) d /= length;
      const double measured =
          derivative([&](double amount) { return probe.loss_along(t, direction, amount); }, h);
      // fp32 loss: 10 eps / h of rounding; 1e-3 of the norm for what h^4 leaves.
      EXPECT_NEAR(measured, dot(gradient, direction), 1e-3 * norm + 10 * 6e-8 / h) << name;
    }
  }
}

Config probe_deck() {
  Config config = tiny_deck();
  config.model.layers = 2;
  config.train.microbatches = 1;
  config.train.beta1 = 0;
  return config;
}

TEST(Gradient, OfEveryTensorIsTheDerivativeOfTheLoss) {
  expect_gradients_match_differences(probe_deck());
}

TEST(Gradient, OfSharedLayersIsTheSumOverThem) {
  Config config = probe_deck();
  config.model.layers = 4;
  config.model.shared_groups = 2;
  expect_gradients_match_differences(config);
}

Config learned_probe_deck(Boundary boundary) {
  Config config = probe_deck();
  config.model.layers = 3;
  config.swarm.stages = 3;
  config.swarm.boundary = boundary;
  config.swarm.boundary_factor = 4;
  return config;
}

TEST(Gradient, OfBottlenecksIsTheDerivativeOfTheLoss) {
  expect_gradients_match_differences(learned_probe_deck(Boundary::bottleneck));
}

TEST(Gradient, OfMaxoutIsTheDerivativeOfTheLoss) {
  // Short steps, on which no other neighbour becomes the largest.
  expect_gradients_match_differences(learned_probe_deck(Boundary::maxout), 1e-3);
}

}  // namespace
}  // namespace swarmpi::test::gradient_test
