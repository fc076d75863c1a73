#include "commands/sweep/shell_words.hpp"

#include <fmt/core.h>

#include <string_view>
#include <utility>

namespace swarmpi {
namespace {

constexpr char kNoQuote = '\0';

bool is_blank(char c) { return std::string_view(" \t\n").find(c) != std::string_view::npos; }

// Whether a backslash before `next` is not a character of its own.
bool escapes(char quote, char next) {
  if (quote == '"') return std::string_view("\"\\$`").find(next) != std::string_view::npos;
  return quote == kNoQuote;
}

}  // namespace

Result<std::vector<std::string>> shell_words(const std::string& text) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = kNoQuote;  // that is open
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool backslash = c == '\\' && quote != '\'' && i + 1 < text.size();
    if (backslash && text[i + 1] == '\n') {  // the line goes on
      ++i;
      continue;
    }
    if (quote == kNoQuote && is_blank(c)) {
      in_word = false;
      continue;
    }
    if (!std::exchange(in_word, true)) words.emplace_back();
    if (quote != kNoQuote && c == quote) {
      quote = kNoQuote;
    } else if (quote == kNoQuote && (c == '\'' || c == '"')) {
      quote = c;
    } else {
      words.back() += backslash && escapes(quote, text[i + 1]) ? text[++i] : c;
    }
  }
  if (quote == kNoQuote) return words;
  return Status::bad_input(
      fmt::format("`{}` has a {} that is not closed: close it, or put a "
                  "backslash before it",
                  text, quote));
}

}  // namespace swarmpi
