#include "commands/sample.hpp"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <vector>

#include "commands/next_token.hpp"
#include "config/deck.hpp"
#include "core/escape.hpp"
#include "core/random.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "model/inference.hpp"
#include "model/make_backend.hpp"

namespace swarmpi {
namespace {

Status read_weights(const Checkpoint& checkpoint, const Config& config, Inference& model) {
  for (const Inference::WeightTensor& tensor : model.weights()) {
    std::vector<float*> versions(static_cast<std::size_t>(config.train.delay()), nullptr);
    versions.front() = tensor.values;
    const Status status = checkpoint.read(tensor.info.name, tensor.info.rows, tensor.info.columns,
                                          versions, nullptr, nullptr);
    if (!status.ok()) return status;
  }
  model.loaded();
  return {};
}

// Shows tokens in the way of the model's data.
class Writer {
 public:
  Writer(bool bytes, std::ostream& out) : bytes_(bytes), out_(out) {}

  bool write(std::int32_t token) {
    if (bytes_)
      out_ << escape_.push(static_cast<std::uint8_t>(token));
    else
      out_ << (first_ ? "" : " ") << token;
    first_ = false;
    return static_cast<bool>(out_.flush());
  }
  void finish() { out_ << escape_.finish() << "\n"; }

 private:
  bool bytes_;
  bool first_ = true;
  TextEscape escape_;
  std::ostream& out_;
};

}  // namespace

Result<std::vector<std::int32_t>> prompt_tokens(const std::string& prompt, const Config& config) {
  std::vector<std::int32_t> tokens;
  if (config.data.format == "bytes") {
    for (const char c : prompt) tokens.push_back(static_cast<std::uint8_t>(c));
  } else {
    std::istringstream words(prompt);
    for (std::string word; words >> word;) {
      std::int32_t token = -1;
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), token);
      if (error != std::errc() || end != word.data() + word.size() || token < 0)
        return Status::bad_input(
            "--prompt: this model reads tokens: numbers separated by blanks, "
            "not `" +
            word + "`");
      tokens.push_back(token);
    }
  }
  for (const std::int32_t token : tokens) {
    if (token >= config.model.vocab)
      return Status::bad_input("--prompt: token " + std::to_string(token) +
                               " is not below the model's vocab " +
                               std::to_string(config.model.vocab));
  }
  return tokens;
}

Status run_sample(const SampleOptions& options, std::ostream& out) {
  const Result<Checkpoint> opened = Checkpoint::open(options.checkpoint);
  if (!opened.ok()) return opened.status();
  const Checkpoint& checkpoint = opened.value();
  const Result<Config> deck =
      parse_deck(checkpoint.head().deck, "the deck in " + checkpoint.path(), {});
  if (!deck.ok()) return deck.status();
  Config config = deck.value();
  config.train.microbatch_size = 1;  // the backend needs no more

  Result<std::vector<std::int32_t>> prompt = prompt_tokens(options.prompt, config);
  if (!prompt.ok()) return prompt.status();
  const auto backend = make_backend(config);
  if (!backend.ok()) return backend.status();
  backend.value()->prepare_thread();
  Inference model(config, *backend.value());
  if (const Status status = read_weights(checkpoint, config, model); !status.ok()) return status;

  const bool bytes = config.data.format == "bytes";
  Writer writer(bytes, out);
  for (const std::int32_t token : prompt.value()) writer.write(token);

  // What the model sees: never more than its context; when that is full, the older half goes.
  std::vector<std::int32_t> seen = std::move(prompt).value();
  const auto context = static_cast<std::size_t>(config.model.context);
  if (seen.empty()) seen.push_back(bytes && config.model.vocab > '\n' ? '\n' : 0);
  if (seen.size() > context)
    seen.erase(seen.begin(), seen.end() - static_cast<std::ptrdiff_t>(context));
  std::vector<float> logits(static_cast<std::size_t>(config.model.vocab));
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    model.next_logits(seen, logits);
    const PhiloxBlock random =
        philox(options.seed, Stream::sampling, 0, static_cast<std::uint64_t>(i));
    const std::int32_t token = next_token(logits, options.temperature, uniform(random[0]));
    if (!writer.write(token)) return {};  // nobody reads any more
    if (seen.size() == context)
      seen.erase(seen.begin(), seen.begin() + static_cast<std::ptrdiff_t>((context + 1) / 2));
    seen.push_back(token);
  }
  writer.finish();
  return {};
}

}  // namespace swarmpi
