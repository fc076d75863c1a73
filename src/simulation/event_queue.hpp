#pragma once
// A queue of items by time; items of the same time come in the order in which they were pushed.

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace swarmpi {

template <class Item>
class EventQueue {
 public:
  void push(double at_s, Item item) {
    std::size_t slot = items_.size();
    if (free_.empty()) {
      items_.push_back(std::move(item));
    } else {
      slot = free_.back();
      free_.pop_back();
      items_[slot] = std::move(item);
    }
    keys_.push_back({at_s, pushed_++, slot});
    std::push_heap(keys_.begin(), keys_.end(), later);
  }

  bool empty() const { return keys_.empty(); }
  /// REQUIRES: not empty.
  double next_s() const { return keys_.front().at_s; }
  /// REQUIRES: not empty.
  const Item& next() const { return items_[keys_.front().slot]; }
  /// Moves the next item to a later time; among items of that time its order is still that in which
  /// it was pushed. REQUIRES: not empty; `at_s` is not before its time.
  void postpone(double at_s) {
    std::pop_heap(keys_.begin(), keys_.end(), later);
    keys_.back().at_s = at_s;
    std::push_heap(keys_.begin(), keys_.end(), later);
  }
  /// REQUIRES: not empty.
  Item pop() {
    std::pop_heap(keys_.begin(), keys_.end(), later);
    const std::size_t slot = keys_.back().slot;
    keys_.pop_back();
    free_.push_back(slot);
    return std::move(items_[slot]);
  }

 private:
  // Items are large and stay where they are; only their keys move.
  struct Key {
    double at_s;
    std::uint64_t number;
    std::size_t slot;
  };
  static bool later(const Key& a, const Key& b) {
    return a.at_s > b.at_s || (a.at_s == b.at_s && a.number > b.number);
  }

  std::vector<Key> keys_;
  std::vector<Item> items_;
  std::vector<std::size_t> free_;
  std::uint64_t pushed_ = 0;
};

}  // namespace swarmpi
