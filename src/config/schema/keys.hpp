#pragma once
// What the sections of the schema are written with: access to the members of Config, ranges, and
// the keys of each section.

#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "config/schema.hpp"

namespace swarmpi {

using Keys = std::vector<KeySpec>;

/// A member of one section of Config.
template <auto section, auto member>
auto& in_section(Config& config) {
  return config.*section.*member;
}

/// A member of the last row of a table.
template <auto table, auto member>
auto& in_last_row(Config& config) {
  return (config.*table).back().*member;
}

/// What `access` gives; an enum as the number that it is kept as.
template <auto access>
Field field_at() {
  using Value = std::remove_reference_t<std::invoke_result_t<decltype(access), Config&>>;
  if constexpr (std::is_enum_v<Value>) {
    static_assert(sizeof(Value) == sizeof(std::uint8_t));
    const auto number = [](Config& config) -> std::uint8_t& {
      return reinterpret_cast<std::uint8_t&>(access(config));
    };
    return ChoiceField{number, kNamesOf<Value>};
  } else {
    return access;
  }
}

/// Bound on ids and numbers of peers in decks.
constexpr double kMostPeers = 1 << 20;
constexpr double kMostMemoryGb = 1e6;

/// Clocks count nanoseconds in 64 bits.
constexpr double kLongestS = 1e9;
constexpr Range duration() { return {.min = 0, .max = kLongestS, .above_min = true}; }
constexpr Range duration_or_none() { return {.min = 0, .max = kLongestS}; }

constexpr OnResume kMayChange = OnResume::may_change;

constexpr Range at_least(double min) { return {.min = min}; }
constexpr Range from_to(double min, double max) { return {.min = min, .max = max}; }
constexpr Range fraction() { return {.min = 0, .max = 1, .below_max = true}; }

Keys model_keys();
Keys data_keys();
Keys train_keys();
Keys swarm_keys();
Keys compute_keys();
Keys faults_keys();
Keys output_keys();

TableSpec devices_table();
TableSpec links_table();
TableSpec sites_table();
TableSpec routes_table();
TableSpec peers_table();
TableSpec faults_at_table();

/// A table whose rows are `list`, a member of Config.
template <auto list>
TableSpec table_of(std::string_view name, std::string_view help, Keys keys) {
  TableSpec spec;
  spec.name = name;
  for (KeySpec& key : keys) {
    key.section = name;
    key.on_resume = kMayChange;
  }
  spec.keys = std::move(keys);
  spec.count = [](const Config& config) { return (config.*list).size(); };
  spec.resize = [](Config& config, std::size_t rows) { (config.*list).resize(rows); };
  spec.append_row = [](const Config& from, std::size_t row, Config& to) {
    (to.*list).push_back((from.*list)[row]);
  };
  spec.help = help;
  return spec;
}

}  // namespace swarmpi
