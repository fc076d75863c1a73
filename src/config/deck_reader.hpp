#pragma once
// Builds a Config from the entries of a deck and of those that it includes, then overrides;
// remembers where each key was given.

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "config/schema.hpp"
#include "config/toml_text.hpp"
#include "core/status.hpp"

namespace swarmpi {

class DeckReader {
 public:
  /// `name` stands for the file in messages.
  explicit DeckReader(std::string name) : name_(std::move(name)), file_(name_) {}

  /// From now on entries are of this file. What the files `below` it have said it may say anew; of
  /// other files nothing.
  void begin_file(const std::string& name, const std::set<std::string>& below);
  Status read_entry(const TomlEntry& entry);
  /// `section.key=value`, or `table=[...]` with all rows of a table, or `devices.NAME={...}`.
  Status read_override(const std::string& text);
  /// The config, after the checks that need all values: availability and rules between keys.
  Result<Config> finish() const;

 private:
  /// "deck.toml:12" for a line of the deck; for an override "--set ...", whatever the line.
  using PlaceOf = std::function<std::string(std::int64_t line)>;

  Status read_table_override(const TableSpec& table, const std::string& name,
                             const std::string& value, const std::string& place);
  Status read_list(const TableSpec& table, const TomlValue& value, const PlaceOf& place_of);
  Status read_named(const TableSpec& table, const std::string& name, const TomlValue& value,
                    const PlaceOf& place_of);
  /// `id` names the row in `places_`, `label` in messages.
  Status read_row(const TableSpec& table, const TomlValue& value, const std::string& id,
                  const std::string& label, const PlaceOf& place_of);
  /// Whether this file may say what `id` names in `places_`. `label` is for messages.
  Status check_given_once(const std::string& id, const std::string& label,
                          const std::string& place) const;
  void forget_row(const TableSpec& table, const std::string& id);
  Status check_all_available() const;
  std::string place_of(const std::vector<std::string>& keys) const;

  std::string name_;
  std::string file_;             // that is read
  std::set<std::string> below_;  // files that it includes, and those that these include
  Config config_;
  std::map<std::string, std::string> places_;
};

}  // namespace swarmpi
