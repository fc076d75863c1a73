#include "commands/evaluate.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <utility>

#include "commands/trained_model.hpp"
#include "data/dataset.hpp"
#include "report/progress.hpp"

namespace swarmpi {
namespace {

/// What the run holds out; only the data that it was trained on have these sequences.
Result<Dataset> data_of_run(const Config& config) {
  Result<Dataset> data = Dataset::open(config);
  if (!data.ok() || data.value().validation_sequences() > 0) return data;
  return Status::bad_input(
      "this run holds nothing out (data.validation_fraction = 0): name files "
      "with --data PATH...");
}

/// Opens and proves the data that are asked for; `config` says then how they are read.
Result<Dataset> open_data(const EvaluateOptions& options, Config& config) {
  if (!options.data.empty()) {
    config.data.hash.clear();
    config.data.format = options.format.value_or(config.data.format);
  }
  Result<Dataset> data = options.data.empty()
                             ? data_of_run(config)
                             : Dataset::open_held_out(config, options.data, "--data");
  if (!data.ok()) return data;
  if (const Result<std::uint64_t> read = data.value().scan(); !read.ok()) return read.status();
  return data;
}

/// The sum of the losses of all microbatches in order, in nats.
Result<double> loss_over(const Dataset& data, const Config& config, Inference& model) {
  const auto size = static_cast<std::size_t>(config.train.microbatch_size * config.model.context);
  std::vector<std::int32_t> tokens(size), targets(size);
  double nats = 0;
  for (std::int32_t i = 0; i < data.validation_microbatches(); ++i) {
    const Status read = data.microbatch({Step(0), Purpose::validate, i}, tokens, targets);
    if (!read.ok()) return read;
    nats += model.loss(tokens, targets);
  }
  return nats;
}

std::string line_of(const Evaluation& found) {
  return fmt::format("{}: loss {}, perplexity {:.4g}: {} tokens in {} sequences", found.checkpoint,
                     loss_text(found.loss, found.format == DataFormat::bytes), std::exp(found.loss),
                     found.tokens, found.sequences);
}

std::string json_of(const Evaluation& found) {
  return nlohmann::ordered_json{{"checkpoint", found.checkpoint},
                                {"step", found.step},
                                {"loss", found.loss},
                                {"perplexity", std::exp(found.loss)},
                                {"tokens", found.tokens},
                                {"sequences", found.sequences}}
      .dump();
}

}  // namespace

Result<Evaluation> evaluate(const EvaluateOptions& options, std::ostream& error) {
  Result<TrainedRun> opened = open_trained(options.checkpoint, "the loss is of", error);
  if (!opened.ok()) return opened.status();
  TrainedRun& run = opened.value();
  const Result<Dataset> data = open_data(options, run.config);
  if (!data.ok()) return data.status();
  for (const std::string& warning : data.value().warnings()) {
    error << "swarmpi: warning: " << warning << std::endl;
  }
  if (run.lacks_gpu) {
    error << "swarmpi: warning: the run computed on a GPU, and there is none here: native kernels "
             "give the loss to a few digits, not to its bits"
          << std::endl;
  }
  const Result<TrainedModel> model = load_model(run);
  if (!model.ok()) return model.status();
  const Result<double> nats = loss_over(data.value(), run.config, *model.value().inference);
  if (!nats.ok()) return nats.status();
  Evaluation found;
  found.checkpoint = run.checkpoint.path();
  found.step = run.checkpoint.head().state.step;
  found.sequences = data.value().validation_sequences();
  found.tokens = data.value().validation_tokens();
  found.loss = nats.value() / static_cast<double>(found.tokens);
  found.format = run.config.data.format;
  return found;
}

Status run_evaluate(const EvaluateOptions& options, std::ostream& out, std::ostream& error) {
  const Result<Evaluation> found = evaluate(options, error);
  if (!found.ok()) return found.status();
  out << (options.json ? json_of(found.value()) : line_of(found.value())) << "\n";
  return {};
}

}  // namespace swarmpi
