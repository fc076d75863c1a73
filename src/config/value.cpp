#include "config/value.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "config/suggest.hpp"
#include "core/overloaded.hpp"
#include "core/text.hpp"

namespace swarmpi {
namespace {

using Kind = TomlValue::Kind;
constexpr double kBeyondIntegers = 0x1p63;

template <class T>
struct IsList : std::false_type {};
template <class T>
struct IsList<std::vector<T>> : std::true_type {};

/// The type that a field refers to.
template <class F>
using ValueOf = std::remove_reference_t<std::invoke_result_t<F, Config&>>;

bool in_range(const Range& range, double value) {
  const bool low = range.above_min ? value <= range.min : value < range.min;
  const bool high = range.below_max ? value >= range.max : value > range.max;
  return !low && !high;
}

/// A bound of a range: as short as it can be written.
std::string bound_text(double bound) {
  std::string text = toml_number(bound);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

std::string range_text(const Range& range) {
  std::string text;
  if (std::isfinite(range.min)) {
    text = (range.above_min ? " > " : " >= ") + bound_text(range.min);
  }
  if (std::isfinite(range.max)) {
    text += text.empty() ? "" : " and";
    text += (range.below_max ? " < " : " <= ") + bound_text(range.max);
  }
  if (!range.why.empty()) text += " (" + std::string(range.why) + ")";
  return text;
}

std::string quoted_list(const std::vector<std::string_view>& names) {
  std::string text;
  for (const std::string_view name : names) {
    text += (text.empty() ? "" : ", ") + toml_string(name);
  }
  return text;
}

/// Reads one value of a type; false where the TOML value is of another. 1e3 is an integer, 1.5 is
/// not; 1 is a number.
bool read_value(const TomlValue& value, bool& out) {
  out = value.boolean;
  return value.kind == Kind::boolean;
}

bool read_value(const TomlValue& value, std::int64_t& out) {
  out = value.integer;
  if (value.kind == Kind::real && std::fabs(value.real) < kBeyondIntegers &&
      value.real == std::trunc(value.real)) {
    out = static_cast<std::int64_t>(value.real);
    return true;
  }
  return value.kind == Kind::integer;
}

bool read_value(const TomlValue& value, std::uint64_t& out) {
  std::int64_t integer = 0;
  if (!read_value(value, integer) || integer < 0) return false;
  out = static_cast<std::uint64_t>(integer);
  return true;
}

bool read_value(const TomlValue& value, double& out) {
  if (value.kind == Kind::integer) {
    out = static_cast<double>(value.integer);
    return true;
  }
  out = value.real;
  return value.kind == Kind::real && std::isfinite(value.real);
}

bool read_value(const TomlValue& value, std::string& out) {
  out = value.text;
  return value.kind == Kind::text;
}

template <class T>
bool read_value(const TomlValue& value, std::vector<T>& out) {
  out.clear();
  for (const TomlValue& item : value.items) {
    T element{};
    if (!read_value(item, element)) return false;
    out.push_back(std::move(element));
  }
  return value.kind == Kind::list;
}

template <class T>
bool allowed(const KeySpec& key, const T& value) {
  if constexpr (IsList<T>::value) {
    return std::all_of(value.begin(), value.end(), [&](const auto& v) { return allowed(key, v); });
  } else if constexpr (std::is_same_v<T, std::string>) {
    return true;
  } else {
    return in_range(key.range, static_cast<double>(value));
  }
}

std::string text_of(bool value) { return value ? "true" : "false"; }
std::string text_of(std::int64_t value) { return std::to_string(value); }
std::string text_of(std::uint64_t value) { return std::to_string(value); }
std::string text_of(double value) { return toml_number(value); }
std::string text_of(const std::string& value) { return toml_string(value); }
template <class T>
std::string text_of(const std::vector<T>& values) {
  std::string text;
  for (const T& value : values) text += (text.empty() ? "" : ", ") + text_of(value);
  return "[" + text + "]";
}

/// Reads a value of the key's type, if it is one that the key takes.
template <class Value>
bool store(Config& config, const KeySpec& key, Value& (*field)(Config&), const TomlValue& value) {
  Value typed{};
  if (!read_value(value, typed) || !allowed(key, typed)) return false;
  field(config) = std::move(typed);
  return true;
}
bool store(Config& config, const KeySpec&, const ChoiceField& field, const TomlValue& value) {
  const auto found = std::find(field.names.begin(), field.names.end(), value.text);
  if (value.kind != Kind::text || found == field.names.end()) return false;
  field(config) = static_cast<std::uint8_t>(found - field.names.begin());
  return true;
}

/// Text that no file name or message can hold.
bool holds_nul(const TomlValue& value) {
  return value.text.find('\0') != std::string::npos ||
         std::any_of(value.items.begin(), value.items.end(), holds_nul);
}

}  // namespace

std::string expected(const KeySpec& key) {
  return std::visit(
      [&](auto field) -> std::string {
        using T = ValueOf<decltype(field)>;
        if constexpr (std::is_same_v<T, std::uint8_t>)
          return "one of " + quoted_list(key.choices());
        if constexpr (std::is_same_v<T, bool>) return "true or false";
        if constexpr (std::is_same_v<T, double>) return "a number" + range_text(key.range);
        if constexpr (std::is_same_v<T, std::string>) return "a text in quotes";
        if constexpr (std::is_same_v<T, std::vector<std::string>>) return "a list of texts";
        if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
          return "a list of integers" + range_text(key.range);
        }
        return "an integer" + range_text(key.range);
      },
      key.field);
}

Complaint assign(Config& config, const KeySpec& key, const TomlValue& value) {
  if (holds_nul(value)) return "must not hold NUL characters";
  const bool good =
      std::visit([&](const auto& field) { return store(config, key, field, value); }, key.field);
  if (good) return std::nullopt;
  return "expected " + expected(key) + ", got " + value.shown() +
         suggest_choice(value.text, key.choices());
}

Complaint check_available(const Config& config, const KeySpec& key) {
  const std::string value = value_text(config, key);
  if (key.default_only) {
    const std::string only = value_text(Config{}, key);
    if (value != only) return value + " is not available in this version, only " + only;
  }
  const bool known = key.available.empty() ||
                     std::any_of(key.available.begin(), key.available.end(),
                                 [&](std::string_view name) { return value == toml_string(name); });
  if (known) return std::nullopt;
  return value + " is not available in this version, only " + quoted_list(key.available);
}

Result<TomlValue> parse_override(const KeySpec& key, const std::string& text) {
  if (!is_utf8(text)) return Status::bad_input("not valid UTF-8");
  const bool is_text = std::holds_alternative<std::string& (*)(Config&)>(key.field) ||
                       std::holds_alternative<ChoiceField>(key.field);
  const bool is_texts = std::holds_alternative<std::vector<std::string>& (*)(Config&)>(key.field);
  const bool is_list =
      is_texts || std::holds_alternative<std::vector<std::int64_t>& (*)(Config&)>(key.field);
  const bool quoted = text.starts_with('"') || text.starts_with('\'');
  const bool bare = (is_text || (is_texts && !text.starts_with('['))) && !quoted;

  TomlValue value;
  if (bare) {
    value.kind = Kind::text;
    value.text = text;
  } else {
    Result<TomlValue> parsed = read_toml_value(text);
    if (!parsed.ok()) {
      return Status::bad_input("expected " + expected(key) + ", got \"" + text + "\"");
    }
    value = std::move(parsed).value();
  }
  if (!is_list || value.kind == Kind::list) return value;
  TomlValue list;
  list.kind = Kind::list;
  list.items.push_back(std::move(value));
  return list;
}

std::string value_text(const Config& config, const KeySpec& key) {
  Config copy = config;  // fields give access for writing
  return std::visit(
      Overloaded{[&](const ChoiceField& field) { return toml_string(field.names[field(copy)]); },
                 [&](auto field) { return text_of(field(copy)); }},
      key.field);
}

}  // namespace swarmpi
