// Writes what another implementation of the model needs to compute the same: initial weights,
// tokens, and our logits, gradients of the first step and losses. For compare.py.
//
//   model_dump DECK FOLDER [section.key=value]...
//
// FOLDER gets one raw file an array, and index.txt with a line `name type rows columns` for each.

#include <fmt/core.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "config/deck.hpp"
#include "core/check.hpp"
#include "model/local_trainer_test.hpp"

namespace swarmpi {
namespace {

class Dump {
 public:
  explicit Dump(std::string folder) : folder_(std::move(folder)), index_(folder_ + "/index.txt") {}

  template <class T>
  void write(const std::string& name, const char* type, const T* data, std::int64_t rows,
             std::int64_t columns) {
    std::ofstream file(folder_ + "/" + name + ".bin", std::ios::binary);
    file.write(reinterpret_cast<const char*>(data),
               static_cast<std::streamsize>(static_cast<std::size_t>(rows * columns) * sizeof(T)));
    index_ << name << ' ' << type << ' ' << rows << ' ' << columns << '\n';
    good_ = good_ && file.good() && index_.good();
  }
  void write(const std::string& name, const std::vector<double>& values) {
    write(name, "float64", values.data(), 1, static_cast<std::int64_t>(values.size()));
  }
  bool good() const { return good_; }

 private:
  std::string folder_;
  std::ofstream index_;
  bool good_ = true;
};

void write_tokens(Dump& dump, const Config& config) {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
  for (std::int64_t step = 1; step <= config.train.steps; ++step) {
    for (std::int64_t m = 0; m < config.train.microbatches; ++m) {
      const test::Text text(config, step, m);
      tokens.insert(tokens.end(), text.tokens.begin(), text.tokens.end());
      targets.insert(targets.end(), text.targets.begin(), text.targets.end());
    }
  }
  const std::int64_t context = config.model.context;
  const auto sequences = static_cast<std::int64_t>(tokens.size()) / context;
  dump.write("tokens", "int32", tokens.data(), sequences, context);
  dump.write("targets", "int32", targets.data(), sequences, context);
}

void write_weights_and_logits(Dump& dump, const Config& config, kernels::Backend& backend) {
  const test::Text text(config, 1, 0);
  const auto rows = static_cast<std::int64_t>(text.tokens.size());
  std::vector<float> logits(test::as_size(rows * config.model.vocab));
  std::vector<std::byte> x, y(test::as_size(boundary_bytes(config).activations));
  for (const StageSpec& spec : partition_model(config)) {
    StageModel model(config, spec, backend, 0);
    SWARMPI_CHECK(model.initialize().ok(), "the deck names no file of weights");
    for (const TensorState& tensor : model.state()) {
      dump.write("weight." + tensor.name, "float32", tensor.weights[0], tensor.rows,
                 tensor.columns);
    }
    if (spec.has_head) {
      model.logits(text.tokens, x.data(), {logits.data(), rows, config.model.vocab});
    } else {
      const WorkId work{{Step(1), Purpose::validate, 0}, StageId(spec.stage)};
      model.forward(work, text.tokens, text.targets, x.data(), y.data());
      x = y;
    }
  }
  dump.write("logits", "float32", logits.data(), rows, config.model.vocab);
}

/// With beta1 = 0 and no clipping the first moment after one update is the gradient.
void write_gradients(Dump& dump, Config config, kernels::Backend& backend) {
  config.train.beta1 = 0;
  config.train.clip = 0;
  test::LocalTrainer trainer(config, backend, config.swarm.stages, 0);
  trainer.train(1);
  for (const auto& stage : trainer.models()) {
    for (const TensorState& tensor : stage->state()) {
      dump.write("gradient." + tensor.name, "float32", tensor.moment1, tensor.rows, tensor.columns);
    }
  }
}

void write_losses(Dump& dump, const Config& config, kernels::Backend& backend) {
  std::vector<double> losses;
  std::vector<double> norms;
  std::vector<double> rates;
  test::LocalTrainer trainer(config, backend, config.swarm.stages, 0);
  for (const test::Row& row : trainer.train(config.train.steps)) {
    if (row.skipped) continue;
    losses.push_back(row.loss);
    norms.push_back(row.grad_norm);
    rates.push_back(learning_rate(config.train, static_cast<std::int64_t>(losses.size())));
  }
  dump.write("losses", losses);
  dump.write("grad_norms", norms);
  dump.write("learning_rates", rates);
}

int dump_model(const std::string& deck, const std::string& folder,
               const std::vector<std::string>& overrides) {
  const Result<Config> loaded = load_deck(deck, overrides);
  if (!loaded.ok()) {
    fmt::print(stderr, "{}\n", loaded.status().message());
    return static_cast<int>(loaded.status().code());
  }
  const Config& config = loaded.value();
  const auto backend = test::ready_backend(config);
  Dump dump(folder);
  write_tokens(dump, config);
  write_weights_and_logits(dump, config, *backend);
  write_gradients(dump, config, *backend);
  write_losses(dump, config, *backend);
  dump.write(
      "deck",
      std::vector<double>{
          static_cast<double>(config.model.layers), static_cast<double>(config.model.layer_sets()),
          static_cast<double>(config.model.heads), static_cast<double>(config.train.microbatches),
          static_cast<double>(config.train.microbatch_size), config.train.beta1, config.train.beta2,
          config.train.epsilon, config.train.weight_decay, config.train.clip,
          config.model.precision == Precision::bf16 ? 1.0 : 0.0,
          static_cast<double>(config.swarm.boundary_factor),
          config.swarm.compress_activations == Codec::bf16 ? 1.0 : 0.0,
          config.swarm.compress_gradients == Codec::bf16 ? 1.0 : 0.0});
  std::vector<double> cuts;
  for (const std::int64_t cut : cuts_of(partition_model(config))) {
    cuts.push_back(static_cast<double>(cut));
  }
  dump.write("cuts", cuts);
  if (dump.good()) return 0;
  fmt::print(stderr, "model_dump: cannot write to {}\n", folder);
  return static_cast<int>(ExitStatus::bad_input);
}

}  // namespace
}  // namespace swarmpi

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: model_dump DECK FOLDER [section.key=value]...\n");
    return static_cast<int>(swarmpi::ExitStatus::bad_input);
  }
  return swarmpi::dump_model(argv[1], argv[2], {argv + 3, argv + argc});
}
