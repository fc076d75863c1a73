#pragma once
// The columns of a run's tables are the fields of their rows (core/records.hpp); here stands what
// is said of them beside. Run file, checkpoint, journal and comparison follow from both. A new
// column is the last field of its row and one that came later, and the journal's version
// (format_version.hpp) grows.

#include <fmt/core.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include "core/hash.hpp"
#include "core/records.hpp"

namespace swarmpi {

struct ColumnTraits {
  bool same_again = false;  ///< a row that is made again must hold the same bits here
  bool shown = true;        ///< in the run file; journal and checkpoint have all columns
  bool came_later = false;  ///< files of earlier versions lack it: there it reads as zeros
};

constexpr ColumnTraits traits_of(const StepRow*, std::string_view column) {
  return {.same_again = column != "time_s" && column != "term" && column != "incarnation"};
}
constexpr ColumnTraits traits_of(const ValidationRow*, std::string_view column) {
  return {.same_again = column != "time_s", .shown = column != "time_s"};
}
constexpr ColumnTraits traits_of(const PeerRow*, std::string_view column) {
  return {.came_later = column == "microbatches" || column == "useful_s" || column == "transfer_s"};
}
constexpr ColumnTraits traits_of(const ThroughputRow*, std::string_view column) {
  return {.came_later = column == "fraction_of_capacity"};
}
/// The whole table came later.
constexpr ColumnTraits traits_of(const GoodputRow*, std::string_view column) {
  return {.shown = column != "run" && column != "incarnation", .came_later = true};
}
constexpr ColumnTraits traits_of(const void*, std::string_view) { return {}; }

/// Field i of Row as a column.
template <class Row, std::size_t i>
struct Column : ColumnTraits {
  using Value = std::remove_reference_t<decltype(std::get<i>(fields_of(std::declval<Row&>())))>;

  std::string name;

  static auto& of(auto& row) { return std::get<i>(fields_of(row)); }
};

/// use(column) for each column of Row, in order.
template <class Row, class Use>
void for_each_column(Use&& use) {
  constexpr std::size_t kCount = std::tuple_size_v<decltype(fields_of(std::declval<Row&>()))>;
  static constexpr auto kNames = split_names<kCount>(FieldList<Row>::kNames);
  const auto use_all = [&use]<std::size_t... i>(std::index_sequence<i...>) {
    const Row* const row = nullptr;
    (use(Column<Row, i>{traits_of(row, kNames[i]), std::string(kNames[i])}), ...);
  };
  use_all(std::make_index_sequence<kCount>());
}

/// The fields of RunOrigin as attributes of the run file.
struct OriginField {
  const char* name;
  std::string RunOrigin::*member;
  bool in_checkpoint;      ///< also an attribute of the leader's file
  bool is_number = false;  ///< an integer in the run file
};
inline constexpr OriginField kOriginFields[] = {{"deck", &RunOrigin::deck, true},
                                                {"seed", &RunOrigin::seed, false, true},
                                                {"version", &RunOrigin::version, true},
                                                {"build", &RunOrigin::build, true},
                                                {"fingerprint", &RunOrigin::fingerprint, true},
                                                {"hosts", &RunOrigin::hosts, false}};

/// use(name, rows) for each table of a run, in the order of Record. AnyHistory: const or not.
template <class AnyHistory, class Use>
void for_each_table(AnyHistory& history, Use&& use) {
  use("steps", history.steps);
  use("validation", history.validation);
  use("peers", history.peers);
  use("events", history.events);
  use("throughput", history.throughput);
  use("goodput", history.goodput);
}

/// Equal bits; a NaN equals the same NaN.
template <class Value>
bool same_bits(const Value& a, const Value& b) {
  if constexpr (std::is_same_v<Value, double>) {
    return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
  } else if constexpr (std::is_same_v<Value, float>) {
    return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
  } else {
    return a == b;
  }
}

/// A value with all its digits, a double also with its bits.
inline std::string in_full(double value) {
  return fmt::format("{:.17g} (0x{})", value, hex(std::bit_cast<std::uint64_t>(value)));
}
inline std::string in_full(std::uint64_t value) { return "0x" + hex(value); }
inline std::string in_full(std::int64_t value) { return std::to_string(value); }
inline std::string in_full(bool value) { return value ? "1" : "0"; }
inline std::string in_full(const std::string& value) { return value; }

/// A row of a run that computes nothing, as it is stored and shown. Its losses are made up, so they
/// become NaN.
inline Record without_losses(Record row) {
  constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
  if (auto* step = std::get_if<StepRow>(&row)) step->loss = step->grad_norm = kNothing;
  if (auto* validation = std::get_if<ValidationRow>(&row)) validation->loss = kNothing;
  return row;
}

}  // namespace swarmpi
