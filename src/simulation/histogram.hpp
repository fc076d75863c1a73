#pragma once
// How often whole numbers came, as text.

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

/// A line for each value, or for a range where there are many, with counts and bars of both.
std::string side_by_side(const std::string& name_a, const Histogram& a, const std::string& name_b,
                         const Histogram& b);

}  // namespace swarmpi
