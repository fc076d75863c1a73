#pragma once
// Enums with names. The names stand beside the enum, in its order: whatever reads or writes one as
// text uses this table.

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace swarmpi {

template <std::size_t n>
constexpr std::array<std::string_view, n> names(const std::string_view (&all)[n]) {
  return std::to_array(all);
}

/// An enum that counts from 0, with a function names_of() beside it.
template <class T>
concept Choice = std::is_enum_v<T> && requires {
  names_of(T{});
};

template <Choice T>
inline constexpr auto kNamesOf = names_of(T{});

template <Choice T>
std::string name_of(T choice) {
  return std::string(kNamesOf<T>[static_cast<std::size_t>(choice)]);
}

/// The value of that name, if there is one.
template <Choice T>
std::optional<T> value_named(std::string_view name) {
  const auto& names = kNamesOf<T>;
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<T>(found - names.begin());
}

}  // namespace swarmpi
