#pragma once
// The number of each kind of message, job or record, as it is sent and written. A number never
// changes and is never used again. The order of the rows means nothing.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace swarmpi {

/// A row of a table. The kind need not be complete.
template <std::uint8_t kNumber, class Kind>
struct KindRow {};

constexpr bool all_different(std::initializer_list<std::uint8_t> numbers) {
  for (const std::uint8_t number : numbers) {
    if (std::count(numbers.begin(), numbers.end(), number) > 1) return false;
  }
  return true;
}

template <class First, class...>
struct FirstOf {
  using Kind = First;
};

template <class... Rows>
struct KindTable;
template <std::uint8_t... kNumbers, class... Kinds>
struct KindTable<KindRow<kNumbers, Kinds>...> : KindRow<kNumbers, Kinds>... {
  using First = typename FirstOf<Kinds...>::Kind;
  static_assert(all_different({kNumbers...}), "no number stands for two kinds");
  static constexpr std::size_t kCount = sizeof...(Kinds);
  /// One above the highest number.
  static constexpr std::size_t kEnd = std::max({kNumbers...}) + std::size_t{1};

  static constexpr bool has_number(std::size_t number) { return ((number == kNumbers) || ...); }
  /// Calls use.operator()<number, kind>() for each row, in the order of the table.
  template <class Use>
  static constexpr void for_each_row(Use&& use) {
    (use.template operator()<kNumbers, Kinds>(), ...);
  }
};

template <class Kind, std::uint8_t kNumber>
constexpr std::uint8_t number_in_row(const KindRow<kNumber, Kind>*) {
  return kNumber;
}

template <class Table, class Kind>
concept HasKind = requires(const Table* table) {
  number_in_row<Kind>(table);
};

/// The number of a kind in its table.
template <class Table, class Kind>
requires HasKind<Table, Kind>
inline constexpr std::uint8_t kNumberIn = number_in_row<Kind>(static_cast<const Table*>(nullptr));

}  // namespace swarmpi
