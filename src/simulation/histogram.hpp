#pragma once
// Counts of whole numbers, and two such counts side by side as text.

#include <cstdint>
#include <map>
#include <string>

namespace swarmpi {

class Histogram {
 public:
  void add(std::int64_t value) { ++counts_[value]; }
  std::int64_t count(std::int64_t value) const;
  /// Of values in [first, last].
  std::int64_t count(std::int64_t first, std::int64_t last) const;
  std::int64_t total() const;
  double mean() const;
  const std::map<std::int64_t, std::int64_t>& counts() const { return counts_; }

 private:
  std::map<std::int64_t, std::int64_t> counts_;
};

/// A line for each value, and one for all values beyond 12 on either side, with counts and bars.
std::string side_by_side(const std::string& name_a, const Histogram& a, const std::string& name_b,
                         const Histogram& b);

}  // namespace swarmpi
