#pragma once
// What the time of all peers went by with in a run, as lines, and the two measures that others tell
// of such runs.

#include <string>
#include <vector>

#include "core/records.hpp"

namespace swarmpi {

/// Adds up rows as they come.
class GoodputTotal {
 public:
  void add(const GoodputRow& row) { sum_ += row; }

  /// Productive work over the most that could be done in all peer-seconds (goodput, normalised, of
  /// Kokolis and others, 2025). NaN where there are none.
  double goodput() const;
  /// Productive run time over all run time: all but starting, repairing, being held up by
  /// checkpoints, and passes of which nothing came (effective training time ratio, of the same and
  /// of others). NaN where there are none.
  double ettr() const;
  /// Empty where no row has come, as from files of early versions.
  std::vector<std::string> lines() const;

 private:
  GoodputRow sum_;
};

}  // namespace swarmpi
