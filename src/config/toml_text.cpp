#include "config/toml_text.hpp"

#include <fmt/core.h>
#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <exception>
#include <optional>
#include <sstream>

namespace swarmpi {
namespace {

using Kind = TomlValue::Kind;
constexpr std::string_view kBare =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

/// A key as the deck must write it: quoted where it is not bare, so that no key is shown as
/// nothing.
std::string shown_key(std::string_view key) {
  return is_bare_key(key) ? std::string(key) : toml_string(key);
}

TomlValue to_value(const toml::node& node, const toml::source_position& place);

std::vector<TomlMember> members_of(const toml::table& table) {
  std::vector<std::pair<toml::source_position, TomlMember>> placed;
  for (const auto& [key, node] : table) {
    const auto place = key.source().begin;
    placed.push_back({place, {shown_key(key.str()), to_value(node, place)}});
  }
  std::stable_sort(placed.begin(), placed.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<TomlMember> members;
  members.reserve(placed.size());
  for (auto& [place, member] : placed) members.push_back(std::move(member));
  return members;
}

/// `place` is where the value's key stands, or the value itself in a list.
TomlValue to_value(const toml::node& node, const toml::source_position& place) {
  TomlValue value;
  value.line = place.line;
  switch (node.type()) {
    case toml::node_type::boolean:
      value.kind = Kind::boolean;
      value.boolean = node.as_boolean()->get();
      break;
    case toml::node_type::integer:
      value.kind = Kind::integer;
      value.integer = node.as_integer()->get();
      break;
    case toml::node_type::floating_point:
      value.kind = Kind::real;
      value.real = node.as_floating_point()->get();
      break;
    case toml::node_type::string:
      value.kind = Kind::text;
      value.text = node.as_string()->get();
      break;
    case toml::node_type::array:
      value.kind = Kind::list;
      for (const toml::node& item : *node.as_array()) {
        value.items.push_back(to_value(item, item.source().begin));
      }
      break;
    case toml::node_type::table:
      value.kind = Kind::table;
      value.members = members_of(*node.as_table());
      break;
    default:
      value.kind = Kind::date;
  }
  return value;
}

struct PlacedEntry {
  toml::source_position place;
  TomlEntry entry;
};

void add_section(std::vector<PlacedEntry>& entries, const toml::key& name, const toml::node& node) {
  const auto section_place = name.source().begin;
  const std::string section = shown_key(name.str());
  TomlValue value = to_value(node, section_place);
  const toml::table* table = node.as_table();
  if (table == nullptr && !node.is_array_of_tables()) {
    entries.push_back({section_place, {"", section, std::move(value)}});
    return;
  }
  entries.push_back({section_place, {section, "", std::move(value)}});
  if (table == nullptr) return;
  for (const auto& [key, member] : *table) {
    const auto place = key.source().begin;
    entries.push_back({place, {section, shown_key(key.str()), to_value(member, place)}});
  }
}

/// The header of the section that a line is in, as ` in [train]`; empty above all headers.
std::string section_at(const std::string& deck, std::int64_t line) {
  std::istringstream lines(deck);
  std::string section, at;
  for (std::int64_t number = 1; number < line && std::getline(lines, at); ++number) {
    const auto start = at.find_first_not_of(" \t");
    const auto end = at.find(']');
    const bool header = start != std::string::npos && at[start] == '[' && end != std::string::npos;
    if (header) section = " in " + at.substr(start, end + 1 - start);
  }
  return section;
}

/// toml++ says where in its grammar it was, which tells a user nothing, and leaves out the usual
/// cause.
std::string reason(const toml::parse_error& error, const std::string& deck) {
  std::string text(error.description());
  if (text.starts_with("Error while parsing")) {
    const auto colon = text.find(": ");
    if (colon != std::string::npos) text.erase(0, colon + 2);
  }
  if (text.starts_with("cannot redefine existing ")) {
    const std::string name = text.substr(std::min(text.find('\''), text.size()));
    if (text.find(" table ") != std::string::npos) return "section " + name + " stands twice";
    return name + " is given twice" + section_at(deck, error.source().begin.line);
  }
  if (text == "could not determine value type") text += " (text needs quotes)";
  return text;
}

/// The first line whose key has more parts than any deck needs, if there is one: toml++ calls
/// itself for each part, until its stack is full.
std::optional<std::int64_t> line_of_a_deep_key(const std::string& text) {
  constexpr std::ptrdiff_t kMostParts = 100;
  std::istringstream lines(text);
  std::string line;
  for (std::int64_t number = 1; std::getline(lines, line); ++number) {
    const std::string key = line.substr(0, line.find_first_of("=\"'#"));
    if (std::count(key.begin(), key.end(), '.') >= kMostParts) return number;
  }
  return std::nullopt;
}

}  // namespace

Result<std::vector<TomlEntry>> read_toml(const std::string& text, const std::string& name) {
  if (const auto line = line_of_a_deep_key(text)) {
    return Status::bad_input(fmt::format("{}:{}: no key of a deck has so many parts", name, *line));
  }
  try {
    const toml::table root = toml::parse(text);
    std::vector<PlacedEntry> placed;
    for (const auto& [key, node] : root) add_section(placed, key, node);
    std::stable_sort(placed.begin(), placed.end(),
                     [](const PlacedEntry& a, const PlacedEntry& b) { return a.place < b.place; });
    std::vector<TomlEntry> entries;
    entries.reserve(placed.size());
    for (PlacedEntry& p : placed) entries.push_back(std::move(p.entry));
    return entries;
  } catch (const toml::parse_error& error) {
    return Status::bad_input(name + ":" + std::to_string(error.source().begin.line) +
                             ": not valid TOML: " + reason(error, text));
  } catch (const std::exception& error) {
    return Status::bad_input(name + ": not valid TOML: " + error.what());
  }
}

Result<TomlValue> read_toml_value(const std::string& text) {
  if (text.find('\n') != std::string::npos) return Status::bad_input("more than one line");
  try {
    const toml::table root = toml::parse("value = " + text);
    return to_value(*root.get("value"), {});
  } catch (const toml::parse_error& error) {
    return Status::bad_input(reason(error, text));
  } catch (const std::exception& error) {
    return Status::bad_input(error.what());
  }
}

bool is_bare_key(std::string_view key) {
  return !key.empty() && key.find_first_not_of(kBare) == std::string_view::npos;
}

std::string toml_string(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      quoted += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string toml_number(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, number).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string TomlValue::shown() const {
  switch (kind) {
    case Kind::boolean:
      return boolean ? "true" : "false";
    case Kind::integer:
      return std::to_string(integer);
    case Kind::real:
      return toml_number(real);
    case Kind::text:
      return toml_string(text);
    case Kind::table:
      return "a table";
    case Kind::date:
      return "a date or time";
    case Kind::list:
      break;
  }
  std::string list = "[";
  for (const TomlValue& item : items) list += (list.size() > 1 ? ", " : "") + item.shown();
  return list + "]";
}

}  // namespace swarmpi
