#pragma once
// Several texts and numbers in one text: each as its length, a colon, and itself.

#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace swarmpi {

inline void append_field(std::string& text, const std::string& field) {
  text += std::to_string(field.size()) + ":" + field;
}

/// Reads what append_field() has written, in order.
class Fields {
 public:
  /// `text` outlives this.
  explicit Fields(std::string_view text) : rest_(text) {}

  /// The next field; nothing if no field is left, or it is malformed.
  std::optional<std::string> text();
  /// The next field as a number; nothing also if it is not a number of this type.
  template <class Number>
  std::optional<Number> number() {
    const std::optional<std::string> field = text();
    Number value = 0;
    if (!field) return std::nullopt;
    const char* const end = field->data() + field->size();
    const auto [stop, error] = std::from_chars(field->data(), end, value);
    if (error != std::errc() || stop != end) return std::nullopt;
    return value;
  }
  /// Whether all fields have been read.
  bool done() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

}  // namespace swarmpi
