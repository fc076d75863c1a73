#pragma once
// By what the rows of a table are in order.

#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>

#include "core/archive.hpp"
#include "core/records.hpp"

namespace swarmpi {

/// A row with the term of the file that it was read from.
template <class Row>
struct KeptRow {
  Row row;
  std::int64_t term = 0;
};

inline std::int64_t key_of(const StepRow& row) { return row.step; }
inline std::int64_t key_of(const ValidationRow& row) { return row.step; }
inline auto key_of(const PeerRow& row) { return std::make_tuple(row.step, row.peer, row.stage); }
inline double key_of(const EventRow& row) { return row.time_s; }
inline double key_of(const ThroughputRow& row) { return row.time_s; }
inline auto key_of(const GoodputRow& row) {
  return std::make_tuple(row.step, row.peer, row.run, row.incarnation);
}
template <class Row>
auto key_of(const KeptRow<Row>& kept) {
  return key_of(kept.row);
}

template <class Row>
using KeyOf = decltype(key_of(std::declval<const Row&>()));

template <class Row>
std::int64_t step_of(const KeptRow<Row>& kept) {
  return kept.row.step;
}
/// Rows of throughput name no step.
inline std::int64_t step_of(const KeptRow<ThroughputRow>&) {
  return std::numeric_limits<std::int64_t>::min();
}

template <class Row>
void write(ArchiveWriter& archive, const KeptRow<Row>& kept) {
  archive(kept.row, kept.term);
}
template <class Row>
void read(ArchiveReader& archive, KeptRow<Row>& kept) {
  archive(kept.row, kept.term);
}

}  // namespace swarmpi
