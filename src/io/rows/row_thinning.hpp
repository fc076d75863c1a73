#pragma once
// Which rows of /peers and /goodput are kept: all of a slow run, and of a fast one so many a
// minute.

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/records.hpp"

namespace swarmpi {

class RowThinning {
 public:
  /// Above so many rows a minute of run time, which the steps' rows tell.
  static constexpr double kRowsPerMinute = 100'000;

  /// Rows come in the order in which they are stored: a step's, then those of its peers. All of
  /// other tables are kept. Of a step's each is kept with the same chance, by a hash of step, peer
  /// and stage: nothing but these and the times of the steps decides.
  bool keeps(const Record& row);
  /// The same for a row of /goodput, whose sums are to stay: the row to keep, which tells what
  /// those of its peer before it would have told.
  std::optional<GoodputRow> thinned(const GoodputRow& row);
  /// What no row has told yet, where no more are to come.
  std::vector<GoodputRow> rest();

 private:
  double last_time_s_ = 0;
  double fraction_ = 1;                          // of the rows of the step that come
  std::int64_t rows_ = 0;                        // of that step; as many are expected of the next
  std::map<std::int64_t, GoodputRow> left_out_;  // of each peer, since the last that was kept
};

}  // namespace swarmpi
