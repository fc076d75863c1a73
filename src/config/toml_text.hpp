#pragma once
// TOML in plain types: the only door to toml++, whose headers are included in toml_text.cpp alone.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.hpp"

namespace swarmpi {

struct TomlValue {
  enum class Kind { boolean, integer, real, text, list, table, date };
  Kind kind = Kind::table;
  bool boolean = false;
  std::int64_t integer = 0;
  double real = 0;
  std::string text;
  std::vector<TomlValue> items;  ///< of a list

  /// As a person would write it, for messages.
  std::string shown() const;
};

/// One key of a deck. `key` is empty for a section itself; `section` is empty for a key outside of
/// any.
struct TomlEntry {
  std::string section, key;
  TomlValue value;
  std::int64_t line = 0;
};

/// All sections and their keys in the order of the file. Errors: bad_input, `name:line: what`.
Result<std::vector<TomlEntry>> read_toml(const std::string& text, const std::string& name);

/// The value written in `text`. Errors: bad_input with toml++'s reason.
Result<TomlValue> read_toml_value(const std::string& text);

/// Values as TOML that reads back as exactly the same value. `text` is UTF-8, `number` finite.
std::string toml_string(std::string_view text);
std::string toml_number(double number);

}  // namespace swarmpi
