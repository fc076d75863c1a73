#pragma once
// `swarmpi sample`: generates text with a checkpoint's model.

#include <cstdint>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "core/status.hpp"

namespace swarmpi {

struct SampleOptions {
  std::string checkpoint;              ///< see named_checkpoint()
  std::string prompt;                  ///< text; for models of tokens numbers, as below
  std::optional<std::string> numbers;  ///< in its place: tokens' numbers, separated by blanks
  std::int64_t tokens = 400;
  double temperature = 0.8;  ///< 0: always the likeliest token
  std::uint64_t seed = 1;

  /// Whether text goes in and comes out, and not numbers of tokens.
  bool is_text(const Config& config) const {
    return config.data.format == DataFormat::bytes && !numbers;
  }
};

/// The tokens of a prompt for the model of this deck. Errors: bad_input, where they are not
/// numbers, or not below its vocabulary.
Result<std::vector<std::int32_t>> prompt_tokens(const SampleOptions& options, const Config& config);

/// Draws from softmax(logits / temperature) by the number `uniform` in (0, 1]; at temperature 0 the
/// likeliest token, the first of equals.
std::int32_t next_token(std::span<const float> logits, double temperature, double uniform);

/// Bytes for a terminal: whole UTF-8 characters pass, control characters and broken ones are
/// written out as \xNN, so that a model cannot steer the terminal.
class TextEscape {
 public:
  /// The text that can be shown once `byte` is known; "" while a character of several bytes is
  /// incomplete.
  std::string push(std::uint8_t byte);
  /// What is left of an incomplete character, escaped.
  std::string finish();

 private:
  std::string pending_;  // begins a UTF-8 character
};

/// Prints the prompt and its continuation, token by token, as text or as numbers; stops without
/// error when `out` fails. `error`: for warnings.
Status run_sample(const SampleOptions& options, std::ostream& out, std::ostream& error);

}  // namespace swarmpi
