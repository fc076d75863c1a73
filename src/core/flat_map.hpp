#pragma once
// A map for small keys that are looked up far more often than they come: a sorted array. As
// std::map, but that insertions and removals invalidate iterators and references, and that two
// threads may not even read it at a time: it remembers what was looked up last.

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "core/check.hpp"

namespace swarmpi {

template <class Key, class Value>
class FlatMap {
 public:
  using Entries = std::vector<std::pair<Key, Value>>;
  using iterator = typename Entries::iterator;
  using const_iterator = typename Entries::const_iterator;

  iterator begin() { return entries_.begin(); }
  iterator end() { return entries_.end(); }
  const_iterator begin() const { return entries_.begin(); }
  const_iterator end() const { return entries_.end(); }
  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  void clear() { entries_.clear(); }

  iterator find(const Key& key) {
    const iterator at = place(key);
    return at != end() && at->first == key ? at : end();
  }
  const_iterator find(const Key& key) const { return const_cast<FlatMap*>(this)->find(key); }
  bool contains(const Key& key) const { return find(key) != end(); }
  const_iterator upper_bound(const Key& key) const {
    return std::upper_bound(
        entries_.begin(), entries_.end(), key,
        [](const Key& wanted, const auto& entry) { return wanted < entry.first; });
  }
  /// REQUIRES: it is there.
  const Value& at(const Key& key) const {
    const const_iterator found = find(key);
    SWARMPI_CHECK(found != end(), "a key that is looked up is there");
    return found->second;
  }
  Value& operator[](const Key& key) { return try_emplace(key).first->second; }
  template <class... Arguments>
  std::pair<iterator, bool> try_emplace(const Key& key, Arguments&&... arguments) {
    const iterator at = place(key);
    if (at != end() && at->first == key) return {at, false};
    return {entries_.emplace(at, key, Value(std::forward<Arguments>(arguments)...)), true};
  }
  void erase(const Key& key) {
    const iterator found = find(key);
    if (found != end()) entries_.erase(found);
  }
  template <class Condition>
  friend void erase_if(FlatMap& map, const Condition& condition) {
    std::erase_if(map.entries_, condition);
  }

 private:
  iterator place(const Key& key) {
    const bool again = newest_ < entries_.size() && entries_[newest_].first == key;
    if (again) return entries_.begin() + static_cast<std::ptrdiff_t>(newest_);
    const iterator at =
        std::lower_bound(entries_.begin(), entries_.end(), key,
                         [](const auto& entry, const Key& wanted) { return entry.first < wanted; });
    newest_ = static_cast<std::size_t>(at - entries_.begin());
    return at;
  }

  Entries entries_;
  std::size_t newest_ = 0;  // where the last key is that was looked up, or would be
};

}  // namespace swarmpi
