#pragma once
// Merges the records of several terms into one history, as they come. Its memory does not grow with
// the history: see io/rows/blocked_rows.hpp.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <tuple>

#include "core/status.hpp"
#include "io/journal/format.hpp"
#include "io/rows/blocked_rows.hpp"

namespace swarmpi {

class JournalMerge {
 public:
  /// `scratch_path`: of a ScratchFile for rows that are not in memory; "": all are in memory.
  explicit JournalMerge(const std::string& scratch_path = "");

  /// A term begins; terms must come in ascending order. The records that follow are its.
  void begin(const JournalBegin& begin);
  /// Errors: failed, where the term has made a row again with other bits though begin.must_agree.
  Status add(const Record& record);
  /// What the rows so far say of each other holds from here on. To be called before they are used.
  void settle();
  /// Not ok once rows were lost, for the scratch file cannot be read: then it must be made anew.
  Status status() const;

  template <class Row>
  std::size_t count() {
    return table<Row>().size();
  }
  /// Rows by step, events and throughput by time, from row `from` on; until `use` returns false.
  template <class Row>
  void for_each_block(std::size_t from, const std::function<bool(std::span<const Row>)>& use) {
    std::vector<Row> rows;
    table<Row>().for_each_block(from, [&](std::span<const KeptRow<Row>> kept) {
      rows.clear();
      for (const KeptRow<Row>& one : kept) rows.push_back(one.row);
      return use(rows);
    });
  }
  template <class Row>
  BlockedRows<KeptRow<Row>>& table() {
    return std::get<BlockedRows<KeptRow<Row>>>(tables_);
  }
  /// All of it, in memory.
  History history();

 private:
  void drop_after(std::int64_t step);
  void drop_undone(std::int64_t step);
  /// The rows of peers' time after the step are of a history that is left.
  void undo_after(std::int64_t step);
  /// Replaces the row with this key, if there is one.
  template <class Row>
  void put(const Row& row);
  template <class Row>
  Status keep(const Row& row, const char* what);
  template <class Row>
  void append(const Row& row);

  ScratchFile scratch_;
  JournalBegin begin_;         // of the term whose records come
  std::int64_t reached_ = -1;  // the newest step of which it has a row; at least its from_step
  std::tuple<BlockedRows<KeptRow<StepRow>>, BlockedRows<KeptRow<ValidationRow>>,
             BlockedRows<KeptRow<PeerRow>>, BlockedRows<KeptRow<EventRow>>,
             BlockedRows<KeptRow<ThroughputRow>>, BlockedRows<KeptRow<GoodputRow>>>
      tables_;
};

/// The steps from 0 to `last` that have no row, as "3 to 5, 9"; "" if all have one.
std::string missing_steps(JournalMerge& rows, std::int64_t last);

}  // namespace swarmpi
