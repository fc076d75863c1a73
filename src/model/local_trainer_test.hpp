#pragma once
// For tests: trains all stages of a model in one place, without peers and messages. The tokens are
// an arithmetic text that a model can learn: each follows from the one before.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "core/check.hpp"
#include "core/random.hpp"
#include "kernels/fixed_point.hpp"
#include "kernels/reference/guarded_backend.hpp"
#include "model/boundary.hpp"
#include "model/make_backend.hpp"
#include "model/stage_model.hpp"
#include "protocol/step/commit_record.hpp"
#include "protocol/step/schedule.hpp"

namespace swarmpi::test {

inline Config tiny_deck() {
  Config config;
  config.model.layers = 4;
  config.model.width = 16;
  config.model.heads = 2;
  config.model.ffn = 24;
  config.model.context = 7;
  config.model.vocab = 13;
  config.train.steps = 20;
  config.train.microbatches = 3;
  config.train.microbatch_size = 2;
  config.train.lr = 1e-2;
  config.train.warmup_steps = 2;
  config.compute.kernels = Kernels::reference;
  return config;
}

/// The deck's kernels, ready for this thread; the reference's in memory that the host cannot touch.
inline std::unique_ptr<kernels::Backend> ready_backend(const Config& config) {
  std::unique_ptr<kernels::Backend> backend;
  if (config.compute.kernels == Kernels::reference) {
    const bool rounds = config.model.precision == Precision::bf16;
    backend = kernels::make_guarded_backend(
        {rounds ? kernels::Precision::bf16 : kernels::Precision::fp32});
  } else {
    backend = make_backend(config).value();
  }
  backend->prepare_thread();
  return backend;
}

/// What lies in a backend's memory, on the host; and the way back.
inline std::vector<float> read_array(const kernels::Backend& backend, const float* array,
                                     std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  backend.download(values.data(), array, values.size() * sizeof(float));
  return values;
}
inline void write_array(kernels::Backend& backend, float* array, const std::vector<float>& values) {
  backend.upload(array, values.data(), values.size() * sizeof(float));
}
/// From one place in a backend's memory to another.
inline void copy_array(kernels::Backend& backend, float* to, const float* from,
                       std::int64_t count) {
  write_array(backend, to, read_array(backend, from, count));
}

inline std::size_t as_size(std::int64_t value) { return static_cast<std::size_t>(value); }

/// Tokens of a microbatch, and what follows each of them.
struct Text {
  std::vector<std::int32_t> tokens, targets;  // (B*T)

  Text(const Config& config, std::int64_t step, std::int64_t index) {
    const std::int64_t vocab = config.model.vocab;
    for (std::int64_t b = 0; b < config.train.microbatch_size; ++b) {
      const auto draw =
          random_bits(config.train.seed, Stream::test, static_cast<std::uint32_t>(step),
                      static_cast<std::uint64_t>(index * 1000 + b));
      auto token = static_cast<std::int64_t>(draw % static_cast<std::uint64_t>(vocab));
      for (std::int64_t t = 0; t < config.model.context; ++t) {
        tokens.push_back(static_cast<std::int32_t>(token));
        token = (token * 3 + 1) % vocab;
        targets.push_back(static_cast<std::int32_t>(token));
      }
    }
  }
};

struct Row {
  double loss = 0;
  double grad_norm = 0;
  std::uint64_t state_hash = 0;
  bool skipped = false;
  Exponents exponents;  // measured

  bool operator==(const Row&) const = default;
};

/// The hash of tensors together.
inline std::uint64_t state_hash(const std::vector<std::uint64_t>& tensor_hashes) {
  return std::accumulate(tensor_hashes.begin(), tensor_hashes.end(), std::uint64_t{0});
}

class LocalTrainer {
 public:
  LocalTrainer(const Config& config, kernels::Backend& backend, std::int64_t stages,
               std::int64_t slots)
      : config_(config), tokens_(config.train.microbatch_size * config.model.context) {
    config_.swarm.stages = stages;
    const BoundaryBytes bytes = boundary_bytes(config_);
    activations_.bytes = as_size(bytes.activations);
    gradients_.bytes = as_size(bytes.gradients);
    for (StageSpec& spec : partition_model(config_)) {
      models_.push_back(std::make_unique<StageModel>(config_, std::move(spec), backend, slots));
      SWARMPI_CHECK(models_.back()->initialize().ok(), "the deck names no file of weights");
    }
    const std::size_t tensors = model_tensors(config_).size();
    exponents_.assign(as_size(config.train.steps + 3), Exponents(tensors, kernels::kNoExponent));
  }

  std::vector<std::unique_ptr<StageModel>>& models() { return models_; }
  /// Called with each step's record before it is applied; the reduced gradients are in place.
  void on_commit(std::function<void(const CommitRecord&)> observer) {
    on_commit_ = std::move(observer);
  }
  /// Rows 0..last, each computed and applied as a run would.
  std::vector<Row> train(std::int64_t last) {
    std::vector<Row> rows;
    std::vector<Row> open;  // computed, not yet applied
    for (std::int64_t step = next_; step <= last; ++step) {
      open.push_back(compute(step));
      // With delayed updates a step is applied while the next one computes; step 0 before anything
      // else.
      if (step == 0 || static_cast<std::int64_t>(open.size()) >= config_.train.delay()) {
        rows.push_back(finish(step + 1 - static_cast<std::int64_t>(open.size()), open.front()));
        open.erase(open.begin());
      }
    }
    for (Row& row : open) rows.push_back(finish(last, row));
    next_ = last + 1;
    return rows;
  }

  /// Mean loss of the weights after `version`, over one microbatch.
  double validate(std::int64_t version) {
    const Step step(version + config_.train.delay());
    return forward_all({step, Purpose::validate, 0}, Text(config_, 999, 0)) /
           static_cast<double>(tokens_);
  }

  /// Passes of one step over all its microbatches; forward in order, backward in the opposite one.
  Row compute(std::int64_t step) {
    Row row;
    std::vector<double> nats(as_size(config_.train.microbatches));
    row.exponents.assign(exponents_[0].size(), kernels::kNoExponent);
    const std::int64_t data_step = std::max<std::int64_t>(step, 1);
    for (std::int64_t m = 0; m < config_.train.microbatches; ++m) {
      inputs_[as_size(m)].resize(models_.size());
      forward_training(id(step, m), Text(config_, data_step, m), inputs_[as_size(m)]);
    }
    for (std::int64_t m = config_.train.microbatches; m-- > 0;) {
      nats[as_size(m)] =
          backward_all(id(step, m), Text(config_, data_step, m), inputs_[as_size(m)], row);
    }
    for (const double n : nats) row.loss += n;
    row.loss /= static_cast<double>(tokens_ * config_.train.microbatches);
    if (step == 0) row.skipped = true;
    return row;
  }

 private:
  using Buffer = std::vector<std::byte>;  // what crosses a cut
  struct Room {
    std::size_t bytes = 0;
    /// Of this size; null where the boundary is not `there`.
    std::byte* in(Buffer& buffer, bool there) const {
      if (!there) return nullptr;
      buffer.resize(bytes);
      return buffer.data();
    }
  };

  static MicrobatchId id(std::int64_t step, std::int64_t index) {
    return {Step(step), Purpose::train, static_cast<std::int32_t>(index)};
  }
  WorkId work(const MicrobatchId& microbatch, std::size_t stage) const {
    return {microbatch, StageId(static_cast<std::int32_t>(stage))};
  }
  /// As in a run: the last stage does nothing yet.
  void forward_training(const MicrobatchId& microbatch, const Text& text,
                        std::vector<Buffer>& inputs) {
    for (std::size_t s = 0; s + 1 < models_.size(); ++s) {
      models_[s]->forward(work(microbatch, s), text.tokens, text.targets,
                          activations_.in(inputs[s], s > 0), activations_.in(inputs[s + 1], true));
    }
  }

  double forward_all(const MicrobatchId& microbatch, const Text& text) {
    std::vector<Buffer> inputs(models_.size());
    forward_training(microbatch, text, inputs);
    const std::size_t last = models_.size() - 1;
    return models_[last]->forward(work(microbatch, last), text.tokens, text.targets,
                                  activations_.in(inputs[last], last > 0), nullptr);
  }

  double backward_all(const MicrobatchId& microbatch, const Text& text, std::vector<Buffer>& inputs,
                      Row& row) {
    double nats = 0;
    Buffer gradient;
    for (std::size_t s = models_.size(); s-- > 0;) {
      Buffer input_gradient;
      const bool last = s + 1 == models_.size();
      const auto answer = models_[s]->backward(
          work(microbatch, s), text.tokens, text.targets, activations_.in(inputs[s], s > 0),
          gradients_.in(gradient, !last), gradients_.in(input_gradient, s > 0),
          exponents_[as_size(microbatch.step.value)]);
      if (last) nats = answer.loss_nats;
      gradient = std::move(input_gradient);
      for (std::size_t i = 0; i < answer.contributions.size(); ++i) {
        std::int16_t& e = row.exponents[as_size(models_[s]->spec().tensors[i].id)];
        e = std::max(e, answer.contributions[i].exponent);
        row.skipped = row.skipped || answer.contributions[i].flagged();
      }
    }
    return nats;
  }

  Row finish(std::int64_t step, Row row) {
    CommitRecord record;
    record.step = Step(step);
    record.skipped = row.skipped;
    record.tokens = tokens_ * config_.train.microbatches;
    next_exponents(step, row.exponents);
    row.grad_norm = std::numeric_limits<double>::infinity();
    if (!row.skipped) {
      double squares = 0;
      for (auto& model : models_) {
        for (const double square :
             model->reduce(record.step, exponents_[as_size(step)], record.tokens)) {
          squares += square;
        }
      }
      row.grad_norm = std::sqrt(squares);
      if (config_.train.clip > 0) {
        record.clip = static_cast<float>(std::min(1.0, config_.train.clip / row.grad_norm));
      }
      ++applied_;
      record.lr = learning_rate(config_.train, applied_);
      record.correction1 = bias_correction(config_.train.beta1, applied_);
      record.correction2 = bias_correction(config_.train.beta2, applied_);
    }
    if (on_commit_) on_commit_(record);
    for (auto& model : models_) row.state_hash += state_hash(model->apply(record));
    return row;
  }

  /// Rule 5 of order-free sums.
  void next_exponents(std::int64_t step, const Exponents& measured) {
    const std::int16_t all = *std::max_element(measured.begin(), measured.end());
    const std::int64_t delay = config_.train.delay();
    for (std::size_t i = 0; i < measured.size(); ++i) {
      const auto next = [&](std::int64_t target) {
        const std::int16_t before = exponents_[as_size(target - 1)][i];
        int e = std::max<int>(measured[i], all - kernels::kHeadroomBits);
        if (before != kernels::kNoExponent) e = std::max(e, before - 1);
        exponents_[as_size(target)][i] = static_cast<std::int16_t>(e);
      };
      if (step == 0) next(1);
      if (step + delay >= 2) next(step + delay);
    }
  }

  Config config_;
  std::int64_t tokens_;  // of a microbatch
  Room activations_, gradients_;
  std::vector<std::unique_ptr<StageModel>> models_;
  std::vector<Exponents> exponents_;  // by step
  std::vector<std::vector<Buffer>> inputs_ = std::vector<std::vector<Buffer>>(64);
  std::function<void(const CommitRecord&)> on_commit_;
  std::int64_t next_ = 0;
  std::int64_t applied_ = 0;
};

}  // namespace swarmpi::test
