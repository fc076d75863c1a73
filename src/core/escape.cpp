#include "core/escape.hpp"

#include <utility>

#include "core/text.hpp"

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
  for (const char c : bytes)
    text += format("\\x%02x", static_cast<unsigned>(static_cast<std::uint8_t>(c)));
  return text;
}

// U+0080 .. U+009F: control characters of two bytes, some of which start terminal commands.
bool is_second_control(const std::string& character) {
  return character.size() == 2 && character[0] == '\xc2' &&
         static_cast<std::uint8_t>(character[1]) < 0xa0;
}

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

}  // namespace swarmpi
