#pragma once
// A set of small values that are looked up far more often than they come: a sorted array. As
// std::set, but that insertions and removals invalidate iterators.

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <utility>
#include <vector>

namespace swarmpi {

template <class Value>
class FlatSet {
 public:
  using value_type = Value;
  using const_iterator = typename std::vector<Value>::const_iterator;

  FlatSet() = default;
  FlatSet(std::initializer_list<Value> values) { insert(values.begin(), values.end()); }

  const_iterator begin() const { return values_.begin(); }
  const_iterator end() const { return values_.end(); }
  bool empty() const { return values_.empty(); }
  std::size_t size() const { return values_.size(); }
  void clear() { values_.clear(); }

  const_iterator lower_bound(const Value& value) const {
    return std::lower_bound(values_.begin(), values_.end(), value);
  }
  bool contains(const Value& value) const {
    return std::binary_search(values_.begin(), values_.end(), value);
  }
  /// Whether it was not there.
  bool insert(const Value& value) {
    const auto at = std::lower_bound(values_.begin(), values_.end(), value);
    if (at != values_.end() && *at == value) return false;
    values_.insert(at, value);
    return true;
  }
  template <class Iterator>
  void insert(Iterator first, Iterator last) {
    if (first == last) return;
    values_.insert(values_.end(), first, last);
    std::sort(values_.begin(), values_.end());
    values_.erase(std::unique(values_.begin(), values_.end()), values_.end());
  }
  void erase(const Value& value) {
    const auto [first, last] = std::equal_range(values_.begin(), values_.end(), value);
    values_.erase(first, last);
  }
  template <class Condition>
  friend void erase_if(FlatSet& set, const Condition& condition) {
    std::erase_if(set.values_, condition);
  }
  bool operator==(const FlatSet&) const = default;

 private:
  std::vector<Value> values_;
};

}  // namespace swarmpi
