#include "commands/sample.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <utility>
#include <vector>

#include "commands/trained_model.hpp"
#include "core/random.hpp"
#include "core/text.hpp"
#include "kernels/portable_math.hpp"

namespace swarmpi {
namespace {

std::size_t length_from_first(std::uint8_t byte) {
  if (byte >= 0xc2 && byte <= 0xdf) return 2;
  if (byte >= 0xe0 && byte <= 0xef) return 3;
  if (byte >= 0xf0 && byte <= 0xf4) return 4;
  return 1;
}

std::string escaped(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("\\x{:02x}", static_cast<std::uint8_t>(c));
  return text;
}

// U+0080 .. U+009F: control characters of two bytes, some of which start terminal commands.
bool is_second_control(const std::string& character) {
  return character.size() == 2 && character[0] == '\xc2' &&
         static_cast<std::uint8_t>(character[1]) < 0xa0;
}

// `lead`: what the message begins with where a word is no such number.
Result<std::vector<std::int32_t>> numbers_in(const std::string& text, const std::string& lead) {
  std::vector<std::int32_t> tokens;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    std::int32_t token = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), token);
    if (error != std::errc() || end != word.data() + word.size() || token < 0)
      return Status::bad_input(lead + ", not `" + word + "`");
    tokens.push_back(token);
  }
  return tokens;
}

// Prints tokens as text, a byte each, or as numbers.
class TokenWriter {
 public:
  TokenWriter(bool text, std::ostream& out) : text_(text), out_(out) {}

  bool write(std::int32_t token) {
    if (text_)
      out_ << escape_.push(static_cast<std::uint8_t>(token));
    else
      out_ << (first_ ? "" : " ") << token;
    first_ = false;
    return static_cast<bool>(out_.flush());
  }
  void finish() { out_ << escape_.finish() << "\n"; }

 private:
  bool text_;
  bool first_ = true;
  TextEscape escape_;
  std::ostream& out_;
};

}  // namespace

std::string TextEscape::push(std::uint8_t byte) {
  const bool continues = byte >= 0x80 && byte <= 0xbf;
  if (!pending_.empty() && continues) {
    pending_ += static_cast<char>(byte);
    if (pending_.size() < length_from_first(static_cast<std::uint8_t>(pending_.front()))) return "";
    const std::string character = std::exchange(pending_, "");
    const bool shown = is_utf8(character) && !is_second_control(character);
    return shown ? character : escaped(character);
  }
  std::string text = finish();
  if (length_from_first(byte) > 1) {
    pending_ = static_cast<char>(byte);
    return text;
  }
  const bool plain = (byte >= 0x20 && byte < 0x7f) || byte == '\n' || byte == '\t';
  const std::string one(1, static_cast<char>(byte));
  return text + (plain ? one : escaped(one));
}

std::string TextEscape::finish() { return escaped(std::exchange(pending_, "")); }

Result<std::vector<std::int32_t>> prompt_tokens(const SampleOptions& options,
                                                const Config& config) {
  Result<std::vector<std::int32_t>> tokens = std::vector<std::int32_t>();
  if (options.is_text(config)) {
    for (const char c : options.prompt) tokens.value().push_back(static_cast<std::uint8_t>(c));
  } else if (options.numbers) {
    tokens = numbers_in(*options.numbers, "--tokens: takes numbers separated by blanks");
  } else {
    tokens = numbers_in(options.prompt,
                        "--prompt: this model reads tokens: give their numbers, separated by "
                        "blanks, with --tokens");
  }
  if (!tokens.ok()) return tokens;
  for (const std::int32_t token : tokens.value()) {
    if (token < config.model.vocab) continue;
    return Status::bad_input(fmt::format("{}: token {} is not below the model's vocab {}",
                                         options.numbers ? "--tokens" : "--prompt", token,
                                         config.model.vocab));
  }
  return tokens;
}

std::int32_t next_token(std::span<const float> logits, double temperature, double uniform) {
  const auto likeliest = std::max_element(logits.begin(), logits.end());
  if (temperature == 0) return static_cast<std::int32_t>(likeliest - logits.begin());

  std::vector<double> sums(logits.size());
  double sum = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    sum += kernels::portable_exp((static_cast<double>(logits[i]) - *likeliest) / temperature);
    sums[i] = sum;
  }
  // Never the end, because uniform <= 1.
  const auto chosen = std::lower_bound(sums.begin(), sums.end(), uniform * sum);
  return static_cast<std::int32_t>(chosen - sums.begin());
}

Status run_sample(const SampleOptions& options, std::ostream& out, std::ostream& error) {
  Result<TrainedRun> opened = open_trained(options.checkpoint, "the sample is of", error);
  if (!opened.ok()) return opened.status();
  TrainedRun& run = opened.value();
  Config& config = run.config;
  config.train.microbatch_size = 1;  // one sequence, so the backend reserves less

  Result<std::vector<std::int32_t>> prompt = prompt_tokens(options, config);
  if (!prompt.ok()) return prompt.status();
  // Whoever trained on a GPU may read the text elsewhere; the bits of logits matter to nobody.
  const Result<TrainedModel> loaded = load_model(run);
  if (!loaded.ok()) return loaded.status();
  Inference& model = *loaded.value().inference;

  const bool bytes = config.data.format == DataFormat::bytes;
  TokenWriter writer(options.is_text(config), out);
  for (const std::int32_t token : prompt.value()) writer.write(token);

  // The last tokens, at most a context of them; where that is full, the older half is dropped.
  std::vector<std::int32_t> input = std::move(prompt).value();
  const auto context = static_cast<std::size_t>(config.model.context);
  if (input.empty()) input.push_back(bytes && config.model.vocab > '\n' ? '\n' : 0);
  if (input.size() > context)
    input.erase(input.begin(), input.end() - static_cast<std::ptrdiff_t>(context));
  std::vector<float> logits(static_cast<std::size_t>(config.model.vocab));
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    model.next_logits(input, logits);
    const PhiloxBlock random =
        philox(options.seed, Stream::sampling, 0, static_cast<std::uint64_t>(i));
    const std::int32_t token = next_token(logits, options.temperature, uniform(random[0]));
    if (!writer.write(token)) return {};  // the reader has closed `out`
    if (input.size() == context)
      input.erase(input.begin(), input.begin() + static_cast<std::ptrdiff_t>((context + 1) / 2));
    input.push_back(token);
  }
  writer.finish();
  return {};
}

}  // namespace swarmpi
