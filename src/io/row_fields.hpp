#pragma once
// The tables of a run and their columns, once: journal, run file, checkpoint and comparison all go
// through these lists. A new column is appended to its list as one that came later, and the
// journal's version (format_version.hpp) grows.

#include <fmt/core.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <tuple>
#include <type_traits>

#include "core/hash.hpp"
#include "core/records.hpp"

namespace swarmpi {

/// Whether a row that is made again must hold the same bits here.
enum class Again : bool { may_differ, same };
/// Whether the run file shows the column (journal and checkpoint have all).
enum class Shown : bool { no, yes };
/// Whether files of all versions have the column; where it is missing it reads as zeros.
enum class Came : bool { first, later };

template <class Row, class Value>
struct Field {
  constexpr Field(const char* column, Value Row::*row_member,
                  Again when_made_again = Again::may_differ, Shown in_run_file = Shown::yes,
                  Came into_being = Came::first)
      : name(column),
        member(row_member),
        again(when_made_again),
        shown(in_run_file),
        came(into_being) {}

  const char* name;
  Value Row::*member;
  Again again;
  Shown shown;
  Came came;
};

inline constexpr auto fields_of(const StepRow*) {
  return std::make_tuple(
      Field{"step", &StepRow::step, Again::same}, Field{"loss", &StepRow::loss, Again::same},
      Field{"grad_norm", &StepRow::grad_norm, Again::same},
      Field{"clip", &StepRow::clip, Again::same}, Field{"lr", &StepRow::lr, Again::same},
      Field{"tokens", &StepRow::tokens, Again::same}, Field{"time_s", &StepRow::time_s},
      Field{"state_hash", &StepRow::state_hash, Again::same},
      Field{"skipped", &StepRow::skipped, Again::same}, Field{"term", &StepRow::term},
      Field{"incarnation", &StepRow::incarnation});
}

inline constexpr auto fields_of(const ValidationRow*) {
  return std::make_tuple(Field{"step", &ValidationRow::step, Again::same},
                         Field{"loss", &ValidationRow::loss, Again::same},
                         Field{"time_s", &ValidationRow::time_s, Again::may_differ, Shown::no});
}

inline constexpr auto fields_of(const PeerRow*) {
  return std::make_tuple(
      Field{"step", &PeerRow::step}, Field{"peer", &PeerRow::peer}, Field{"stage", &PeerRow::stage},
      Field{"compute_s", &PeerRow::compute_s}, Field{"idle_s", &PeerRow::idle_s},
      Field{"communication_s", &PeerRow::communication_s},
      Field{"recovery_s", &PeerRow::recovery_s}, Field{"repeated", &PeerRow::repeated},
      Field{"queue", &PeerRow::queue}, Field{"bytes_sent", &PeerRow::bytes_sent},
      Field{"bytes_received", &PeerRow::bytes_received},
      Field{"microbatches", &PeerRow::microbatches, Again::may_differ, Shown::yes, Came::later});
}

inline constexpr auto fields_of(const EventRow*) {
  return std::make_tuple(Field{"time_s", &EventRow::time_s}, Field{"step", &EventRow::step},
                         Field{"kind", &EventRow::kind}, Field{"peer", &EventRow::peer},
                         Field{"stage", &EventRow::stage}, Field{"cost_s", &EventRow::cost_s},
                         Field{"detail", &EventRow::detail});
}

inline constexpr auto fields_of(const ThroughputRow*) {
  return std::make_tuple(Field{"time_s", &ThroughputRow::time_s},
                         Field{"tokens_per_s", &ThroughputRow::tokens_per_s},
                         Field{"fraction_of_ideal", &ThroughputRow::fraction_of_ideal});
}

/// The fields of RunOrigin: attributes of the run file, texts of a journal's first record.
struct OriginField {
  const char* name;
  std::string RunOrigin::*member;
  bool in_checkpoint;  ///< also an attribute of the leader's file
};
inline constexpr OriginField kOriginFields[] = {{"deck", &RunOrigin::deck, true},
                                                {"seed", &RunOrigin::seed, false},
                                                {"version", &RunOrigin::version, true},
                                                {"build", &RunOrigin::build, true},
                                                {"fingerprint", &RunOrigin::fingerprint, true},
                                                {"hosts", &RunOrigin::hosts, false}};

/// use(field) for each column of Row, in order.
template <class Row, class Use>
void for_each_field(Use&& use) {
  std::apply([&use](const auto&... field) { (use(field), ...); },
             fields_of(static_cast<const Row*>(nullptr)));
}

/// use(name, rows) for each table of a run, in the order of Record. AnyHistory: const or not.
template <class AnyHistory, class Use>
void for_each_table(AnyHistory& history, Use&& use) {
  use("steps", history.steps);
  use("validation", history.validation);
  use("peers", history.peers);
  use("events", history.events);
  use("throughput", history.throughput);
}

/// Equal bits; a NaN equals the same NaN.
template <class Value>
bool same_bits(const Value& a, const Value& b) {
  if constexpr (std::is_same_v<Value, double>) {
    return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
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

}  // namespace swarmpi
