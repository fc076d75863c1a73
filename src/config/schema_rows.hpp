#pragma once
// What the tables of the schema are written with.

#include <string_view>
#include <utility>
#include <vector>

#include "config/schema.hpp"

namespace swarmpi {

using Keys = std::vector<KeySpec>;

/// Access to one member of one section.
template <auto section, auto member>
auto& at(Config& config) {
  return config.*section.*member;
}

/// Access to one member of the last row of a table.
template <auto table, auto member>
auto& last(Config& config) {
  return (config.*table).back().*member;
}

/// Names and numbers of peers in decks.
constexpr double kManyPeers = 1 << 20;

/// Clocks count nanoseconds in 64 bits.
constexpr double kLongestS = 1e9;
constexpr Range duration() { return {.min = 0, .max = kLongestS, .above_min = true}; }
constexpr Range duration_or_none() { return {.min = 0, .max = kLongestS}; }

constexpr OnResume kMayChange = OnResume::may_change;

constexpr Range at_least(double min) { return {.min = min}; }
constexpr Range from_to(double min, double max) { return {.min = min, .max = max}; }
constexpr Range fraction() { return {.min = 0, .max = 1, .below_max = true}; }

/// Of [model], [data] and [train]: what is computed.
void append_learning_keys(Keys& all);
/// Of [swarm], [compute], [faults] and [output]: where and how.
void append_running_keys(Keys& all);

/// [devices.NAME], [[peers]] and [[faults.at]].
std::vector<TableSpec> make_tables();

inline void append_section(Keys& all, std::string_view section, Keys keys) {
  for (KeySpec& key : keys) {
    key.section = section;
    all.push_back(std::move(key));
  }
}

}  // namespace swarmpi
