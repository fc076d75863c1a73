#pragma once
// "Did you mean": the nearest name that exists, for keys, sections and choices.

#include <string>
#include <string_view>
#include <vector>

#include "config/schema.hpp"

namespace swarmpi {

/// Insertions, deletions, replacements and swaps of neighbours (optimal string alignment), ignoring
/// case.
int edit_distance(std::string_view a, std::string_view b);

/// The nearest of `names`, or empty where none is near enough to be meant.
std::string_view nearest(std::string_view word, const std::vector<std::string_view>& names);

/// The only key of a deck that stands in no section: decks that are read first.
inline constexpr std::string_view kInclude = "include";

/// `; did you mean train.lr?`, or empty, for a key that its section does not have, or that stands
/// in none.
std::string suggest_key(std::string_view section, std::string_view name);

/// The same for a section that does not exist.
std::string suggest_section(std::string_view section);

/// The same for a key that the rows of a table do not have.
std::string suggest_row_key(const TableSpec& table, std::string_view name);

/// The same for a text that is none of the choices.
std::string suggest_choice(std::string_view word, const std::vector<std::string_view>& choices);

}  // namespace swarmpi
