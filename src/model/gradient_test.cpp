// The whole model's gradient against finite differences of its loss.

#include <gtest/gtest.h>

#include <cmath>

#include "model/local_trainer_test.hpp"

namespace swarmpi::test {
namespace {

/// A model with one stage whose weights can be moved along a direction.
class Probe {
 public:
  explicit Probe(const Config& config)
      : config_(config),
        backend_(ready_backend(config)),
        model_(config, partition_model(config.model, 1).front(), *backend_, 0),
        text_(config, 1, 0) {
    model_.initialize();
    // Weights of order one, so that every term of the gradient counts.
    std::uint32_t number = 0;
    for (TensorState& tensor : model_.state()) {
      const std::uint32_t id = number++;
      for (std::int64_t i = 0; i < tensor.count(); ++i) {
        const double draw = uniform(philox(3, Stream::test, id, static_cast<std::uint64_t>(i))[0]);
        tensor.weights[0][i] += static_cast<float>(0.8 * (draw - 0.5));
      }
    }
    model_.loaded(Step(0));
  }

  std::vector<TensorState> state() { return model_.state(); }

  /// Mean loss in nats a token, with one tensor moved by `amount` times `direction`.
  double loss_along(std::size_t tensor, const std::vector<double>& direction, double amount) {
    float* const weights = model_.state()[tensor].weights[0];
    const std::vector<float> saved(weights, weights + direction.size());
    for (std::size_t i = 0; i < direction.size(); ++i) {
      weights[i] = static_cast<float>(saved[i] + amount * direction[i]);
    }
    model_.loaded(Step(0));
    const WorkId work{{Step(1), Purpose::validate, 0}, StageId(0)};
    const double nats = model_.forward(work, text_.tokens, text_.targets, {}, {});
    std::copy(saved.begin(), saved.end(), weights);
    return nats / static_cast<double>(text_.tokens.size());
  }

  /// The gradient of the mean loss: with beta1 = 0 it is the first moment after one update.
  std::vector<std::vector<double>> gradients() {
    model_.loaded(Step(0));
    Exponents exponents(model_.spec().tensors.size(), kernels::kNoExponent);
    const auto pass = [&](Step step) {
      const WorkId work{{step, Purpose::train, 0}, StageId(0)};
      return model_.backward(work, text_.tokens, text_.targets, {}, {}, {}, exponents)
          .contributions;
    };
    const auto measured = pass(Step(0));
    for (std::size_t i = 0; i < measured.size(); ++i) exponents[i] = measured[i].exponent;
    CommitRecord record;
    record.skipped = true;
    model_.apply(record);
    for (const auto& contribution : pass(Step(1))) EXPECT_FALSE(contribution.flagged());
    model_.reduce(Step(1), exponents, static_cast<std::int64_t>(text_.tokens.size()));
    record.step = Step(1);
    record.skipped = false;  // and a learning rate of zero
    model_.apply(record);
    std::vector<std::vector<double>> gradients;
    for (const TensorState& tensor : model_.state()) {
      gradients.emplace_back(tensor.moment1, tensor.moment1 + tensor.count());
    }
    return gradients;
  }

 private:
  Config config_;
  std::unique_ptr<kernels::Backend> backend_;
  StageModel model_;
  Text text_;
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

void expect_gradients_match_differences(const Config& config) {
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
      const double h = 0.02;
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

}  // namespace
}  // namespace swarmpi::test
