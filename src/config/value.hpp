#pragma once
// One value of the deck: from TOML into a Config under its key's rules, and back to text.

#include <optional>
#include <string>

#include "config/schema.hpp"
#include "config/toml_text.hpp"
#include "core/status.hpp"

namespace swarmpi {

/// What is wrong with a value, to be read after `section.key: `.
using Complaint = std::optional<std::string>;

/// Checks type, range and choices, then stores the value.
Complaint assign(Config& config, const KeySpec& key, const TomlValue& value);

/// Whether this version can do what the key's value asks for.
Complaint check_available(const Config& config, const KeySpec& key);

/// The text of an override as a value: TOML, but text needs no quotes and a list of one no
/// brackets.
Result<TomlValue> parse_override(const KeySpec& key, const std::string& text);

/// The key's value as TOML that reads back as the same value.
std::string value_text(const Config& config, const KeySpec& key);

/// What the key takes, for messages and the reference: `a number > 0`, `one of "a", "b"`.
std::string expected(const KeySpec& key);

}  // namespace swarmpi
