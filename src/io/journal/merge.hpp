#pragma once
// Merges the records of several terms into one history.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "core/status.hpp"
#include "io/journal/format.hpp"

namespace swarmpi {

class JournalMerge {
 public:
  /// Adds a term; terms must come in ascending order. Errors: failed, where the term has made a row
  /// again with other bits though begin.must_agree.
  Status add(const TermContent& term);
  /// Rows by step, events and throughput by time.
  History history() const;

 private:
  template <class Row>
  struct Kept {
    Row row;
    std::int64_t term = 0;
  };
  using PeerKey = std::tuple<std::int64_t, std::int64_t, std::int64_t>;  // step, peer, stage

  void drop_after(std::int64_t step);
  void drop_undone(std::int64_t step);
  void drop_overtaken_validation(const TermContent& term);
  template <class Row>
  Status keep(std::map<std::int64_t, Kept<Row>>& rows, const Row& row, const JournalBegin& begin,
              const char* what);

  std::map<std::int64_t, Kept<StepRow>> steps_;
  std::map<std::int64_t, Kept<ValidationRow>> validation_;
  std::map<PeerKey, PeerRow> peers_;
  std::vector<EventRow> events_;
  std::vector<ThroughputRow> throughput_;
};

}  // namespace swarmpi
