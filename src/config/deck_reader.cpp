#include "config/deck_reader.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "config/rules.hpp"
#include "config/suggest.hpp"
#include "config/value.hpp"

namespace swarmpi {
namespace {

using Kind = TomlValue::Kind;

bool is_section(std::string_view name) {
  const auto& names = sections();
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string full_name(const std::string& section, const std::string& key) {
  return key.empty() ? section : section.empty() ? key : section + "." + key;
}

/// A name that is not in the schema: why.
std::string unknown(const std::string& section, const std::string& key) {
  if (section.empty() && is_section(key)) return "is a section: write [" + key + "]";
  if (section.empty()) return "a key must stand below a [section]" + suggest_key("", key);
  if (!is_section(section)) return "unknown section" + suggest_section(section);
  if (key.empty()) return "must be one section [" + section + "], not a list of them";
  return "unknown key" + suggest_key(section, key);
}

std::string unknown_in_row(const TableSpec& table, const std::string& key) {
  return "unknown key" + suggest_row_key(table, key);
}

bool is_list_of_tables(const TomlValue& value) {
  return value.kind == Kind::list &&
         std::all_of(value.items.begin(), value.items.end(),
                     [](const TomlValue& item) { return item.kind == Kind::table; });
}

Status no_table(const TableSpec& table, const std::string& label, const std::string& place) {
  return Status::bad_input(place + ": " + label + ": is a table: write " + table.header());
}

}  // namespace

void DeckReader::begin_file(const std::string& name, const std::set<std::string>& below) {
  file_ = name;
  below_ = below;
}

Status DeckReader::check_given_once(const std::string& id, const std::string& label,
                                    const std::string& place) const {
  const auto given = places_.find(id);
  if (given == places_.end()) return {};
  const std::string file = given->second.substr(0, given->second.rfind(':'));
  if (file == file_ || below_.contains(file)) return {};
  return Status::bad_input(place + ": " + label + ": " + given->second +
                           " says it, too, and neither of these decks includes the other: say it "
                           "in the deck that includes both");
}

Status DeckReader::read_entry(const TomlEntry& entry) {
  const PlaceOf place_of = [this](std::int64_t line) { return file_ + ":" + std::to_string(line); };
  const std::string full = full_name(entry.section, entry.key);
  const std::string place = place_of(entry.line());
  const TableSpec* table = find_table(full);
  const bool has_header = is_section(full) || (table != nullptr && table->named());
  if (has_header && entry.key.empty() && entry.value.kind == Kind::table) return {};
  if (table != nullptr && table->named()) return no_table(*table, full, place);
  if (table != nullptr) return read_list(*table, entry.value, place_of);
  if (const TableSpec* named = find_table(entry.section)) {
    return read_named(*named, entry.key, entry.value, place_of);
  }

  const KeySpec* key = find_key(entry.section, entry.key);
  const Complaint complaint =
      key == nullptr ? unknown(entry.section, entry.key) : assign(config_, *key, entry.value);
  if (complaint) return Status::bad_input(place + ": " + full + ": " + *complaint);
  if (Status once = check_given_once(full, full, place); !once.ok()) return once;
  places_[full] = place;
  return {};
}

Status DeckReader::read_list(const TableSpec& table, const TomlValue& value,
                             const PlaceOf& place_of) {
  const std::string label(table.name);
  if (!is_list_of_tables(value)) return no_table(table, label, place_of(value.line));
  places_[label] = place_of(value.line);
  for (const TomlValue& row : value.items) {
    const std::size_t rows = table.count(config_);
    table.resize(config_, rows + 1);
    const std::string id = table.row_id(config_, rows);
    if (Status status = read_row(table, row, id, label, place_of); !status.ok()) return status;
  }
  return {};
}

Status DeckReader::read_named(const TableSpec& table, const std::string& name,
                              const TomlValue& value, const PlaceOf& place_of) {
  const std::string id = full_name(std::string(table.name), name);
  if (value.kind != Kind::table) return no_table(table, id, place_of(value.line));
  if (!is_bare_key(name)) {
    return Status::bad_input(place_of(value.line) + ": " + id +
                             ": a name is letters, digits, _ and -");
  }
  Status once = check_given_once(id, id, place_of(value.line));
  if (!once.ok()) return once;
  forget_row(table, id);
  table.resize(config_, table.count(config_) + 1);
  table.row_name(config_) = name;
  return read_row(table, value, id, id, place_of);
}

Status DeckReader::read_row(const TableSpec& table, const TomlValue& value, const std::string& id,
                            const std::string& label, const PlaceOf& place_of) {
  places_[id] = place_of(value.line);
  for (const TomlMember& member : value.members) {
    const std::string place = place_of(member.value.line);
    const KeySpec* key = table.find_key(member.key);
    const Complaint complaint =
        key == nullptr ? unknown_in_row(table, member.key) : assign(config_, *key, member.value);
    if (complaint) {
      return Status::bad_input(fmt::format("{}: {}.{}: {}", place, label, member.key, *complaint));
    }
    places_[id + "." + member.key] = place;
  }
  for (const KeySpec& key : table.keys) {
    const std::string name(key.name);
    if (!key.required || places_.contains(fmt::format("{}.{}", id, name))) continue;
    return Status::bad_input(
        fmt::format("{}: {}: needs {}: {}", places_[id], label, name, expected(key)));
  }
  return {};
}

Status DeckReader::read_override(const std::string& text) {
  const std::string place = "--set " + text;
  const auto equals = text.find('=');
  const std::string full = text.substr(0, equals);
  const auto dot = full.find('.');
  if (equals == std::string::npos) {
    return Status::bad_input(place + ": expected section.key=value");
  }
  const TableSpec* table = find_table(full);
  if (table == nullptr) table = find_table(full.substr(0, dot));
  if (table != nullptr) return read_table_override(*table, full, text.substr(equals + 1), place);
  if (dot == std::string::npos) {
    return Status::bad_input(place + ": expected section.key=value" +
                             (is_section(full) ? "" : suggest_key("", full)));
  }
  const std::string section = full.substr(0, dot), name = full.substr(dot + 1);
  const KeySpec* key = find_key(section, name);
  if (key == nullptr) return Status::bad_input(place + ": " + unknown(section, name));
  const Result<TomlValue> value = parse_override(*key, text.substr(equals + 1));
  if (!value.ok()) return Status::bad_input(place + ": " + value.status().message());
  const Complaint complaint = assign(config_, *key, value.value());
  if (complaint) return Status::bad_input(place + ": " + *complaint);
  places_[key->full_name()] = place;
  return {};
}

Status DeckReader::read_table_override(const TableSpec& table, const std::string& name,
                                       const std::string& value, const std::string& place) {
  const PlaceOf place_of = [&](std::int64_t) { return place; };
  const Result<TomlValue> parsed = read_toml_value(value);
  const bool one_row = table.named() && name != table.name;
  const Kind wanted = one_row ? Kind::table : Kind::list;
  if (!parsed.ok() || table.named() != one_row || parsed.value().kind != wanted) {
    const std::string form = table.named() ? std::string(table.name) + ".NAME={key = value, ...}"
                                           : std::string(table.name) + "=[{key = value, ...}, ...]";
    return Status::bad_input(place + ": expected " + form);
  }
  if (!one_row) {
    std::erase_if(places_, [&](const auto& row) { return row.first.starts_with(name + "["); });
    places_.erase(name);
    table.resize(config_, 0);
    return read_list(table, parsed.value(), place_of);
  }
  places_.erase(name);
  return read_named(table, name.substr(table.name.size() + 1), parsed.value(), place_of);
}

void DeckReader::forget_row(const TableSpec& table, const std::string& id) {
  Config others;
  for (std::size_t row = 0; row < table.count(config_); ++row) {
    if (table.row_id(config_, row) != id) table.append_row(config_, row, others);
  }
  std::erase_if(places_, [&](const auto& entry) {
    return entry.first == id || entry.first.starts_with(id + ".");
  });
  table.resize(config_, 0);
  for (std::size_t row = 0; row < table.count(others); ++row) {
    table.append_row(others, row, config_);
  }
}

Status DeckReader::check_all_available() const {
  for (const KeySpec& key : schema()) {
    const Complaint complaint = check_available(config_, key);
    if (!complaint) continue;
    const std::string name = key.full_name();
    return Status::bad_input(place_of({name}) + ": " + name + " = " + *complaint);
  }
  for (const TableSpec& table : tables()) {
    for (std::size_t row = 0; row < table.count(config_); ++row) {
      const Config one = table.alone(config_, row);
      for (const KeySpec& key : table.keys) {
        const Complaint complaint = check_available(one, key);
        if (!complaint) continue;
        const std::string place =
            place_of({table.row_id(config_, row) + "." + std::string(key.name)});
        return Status::bad_input(place + ": " + key.full_name() + " = " + *complaint);
      }
    }
  }
  return {};
}

Result<Config> DeckReader::finish() const {
  if (Status status = check_all_available(); !status.ok()) return status;
  const auto broken = broken_rule(config_);
  if (broken) return Status::bad_input(place_of(broken->keys) + ": " + broken->message);
  Config config = config_;
  config.places = places_;
  config.places[""] = name_;
  return config;
}

/// Where the first of the keys was given by an override, which changed last; else by the deck.
std::string DeckReader::place_of(const std::vector<std::string>& keys) const {
  std::string found;
  for (const std::string& key : keys) {
    const auto place = places_.find(key);
    if (place == places_.end()) continue;
    if (place->second.starts_with("--set ")) return place->second;
    if (found.empty()) found = place->second;
  }
  return found.empty() ? name_ : found;
}

}  // namespace swarmpi
