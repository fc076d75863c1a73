#pragma once
// A map for small keys that are looked up far more often than they come: a sorted array. As
// std::map, but that insertions and removals invalidate iterators and references, and that two
// threads may not even read it at a time: it remembers what was looked up last.

#include <algorithm>
#include <cstddef>
#include <cstdint>
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
  void clear() {
    entries_.clear();
    keys_have_changed();
  }

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
    const iterator added = entries_.emplace(at, key, Value(std::forward<Arguments>(arguments)...));
    keys_have_changed();
    return {added, true};
  }
  void erase(const Key& key) {
    const iterator found = find(key);
    if (found == end()) return;
    entries_.erase(found);
    keys_have_changed();
  }
  template <class Condition>
  friend void erase_if(FlatMap& map, const Condition& condition) {
    std::erase_if(map.entries_, condition);
    map.keys_have_changed();
  }

 private:
  /// Whether keys are numbers that a double holds, from which one can tell about where a key is.
  static constexpr bool kNumbers = [] {
    if constexpr (requires(const Key& key) { key.value - key.value; }) {
      return sizeof(Key::value) <= sizeof(std::int32_t);
    }
    return false;
  }();

  /// The first entry whose key is not less.
  iterator place(const Key& key) {
    const bool again = newest_ < entries_.size() && entries_[newest_].first == key;
    if (!again) newest_ = kNumbers ? place_near(key, guess(key)) : place_in(0, size(), key);
    return entries_.begin() + static_cast<std::ptrdiff_t>(newest_);
  }
  std::size_t place_in(std::size_t first, std::size_t last, const Key& key) const {
    const auto less = [](const auto& entry, const Key& wanted) { return entry.first < wanted; };
    const auto all = entries_.begin();
    return static_cast<std::size_t>(std::lower_bound(all + static_cast<std::ptrdiff_t>(first),
                                                     all + static_cast<std::ptrdiff_t>(last), key,
                                                     less) -
                                    all);
  }
  // Few of the entries are in a cache when one is looked up. The ids of peers are about evenly
  // spread, so the search begins where the key would be then, and looks at twice as many each time.
  std::size_t place_near(const Key& key, std::size_t guess) const {
    std::size_t first = guess, last = guess, step = 1;
    while (first > 0 && !(entries_[first - 1].first < key)) {
      last = first - 1;
      first -= std::min(step, first);
      step *= 2;
    }
    while (last < size() && entries_[last].first < key) {
      first = last + 1;
      last = std::min(last + step, size());
      step *= 2;
    }
    return place_in(first, last, key);
  }
  std::size_t guess(const Key& key) const {
    if constexpr (kNumbers) {
      if (entries_.empty() || !(lowest_ < key)) return 0;
      if (!(key < highest_)) return size() - 1;
      const auto low = static_cast<double>(lowest_.value);
      const double share =
          (static_cast<double>(key.value) - low) / (static_cast<double>(highest_.value) - low);
      return static_cast<std::size_t>(share * static_cast<double>(size() - 1));
    } else {
      return 0;
    }
  }
  void keys_have_changed() {
    if (entries_.empty()) return;
    lowest_ = entries_.front().first;
    highest_ = entries_.back().first;
  }

  Entries entries_;
  std::size_t newest_ = 0;    // where the last key is that was looked up, or would be
  Key lowest_{}, highest_{};  // if there are any: at hand, where the first entry may not be
};

}  // namespace swarmpi
