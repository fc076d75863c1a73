#pragma once
// TOML in plain types: the only door to toml++, whose headers are included in toml_text.cpp alone.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.hpp"

namespace swarmpi {

struct TomlMember;

struct TomlValue {
  enum class Kind { boolean, integer, real, text, list, table, date };
  Kind kind = Kind::table;
  bool boolean = false;
  std::int64_t integer = 0;
  double real = 0;
  std::string text;
  std::vector<TomlValue> items;     ///< of a list
  std::vector<TomlMember> members;  ///< of a table, in the order of the file
  std::int64_t line = 0;

  /// As a person would write it, for messages.
  std::string shown() const;
};

struct TomlMember {
  std::string key;
  TomlValue value;
};

/// One key of a deck. `key` is empty for a section itself; `section` is empty for a key outside of
/// any.
struct TomlEntry {
  std::string section, key;
  TomlValue value;
  std::int64_t line() const { return value.line; }
};

/// All sections and their keys in the order of the file. Errors: bad_input, `name:line: what`.
Result<std::vector<TomlEntry>> read_toml(const std::string& text, const std::string& name);

/// The value written in `text`. Errors: bad_input with toml++'s reason.
Result<TomlValue> read_toml_value(const std::string& text);

/// Whether a key needs no quotes.
bool is_bare_key(std::string_view key);

/// Values as TOML that reads back as exactly the same value. `text` is UTF-8, `number` finite.
std::string toml_string(std::string_view text);
std::string toml_number(double number);

}  // namespace swarmpi
