#pragma once
// A queue of items by time; of the same time those for the peer with the lower id come first, and
// for one peer in the order in which they were pushed.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/ids.hpp"
#include "core/prefetch.hpp"
#include "core/virtual_time.hpp"

namespace swarmpi {

template <class Item>
class EventQueue {
 public:
  /// Where an item is, until it is released.
  using Slot = std::uint32_t;

  /// The item's place, with whatever was there before.
  Item& push(Nanoseconds at, PeerId peer) {
    Slot slot = slots_;
    if (free_.empty()) {
      if (slots_ % kSlab == 0) slabs_.push_back(std::make_unique<Slab>());
      ++slots_;
    } else {
      slot = free_.back();
      free_.pop_back();
    }
    keys_.push_back({});
    rise(keys_.size() - 1, {at, pushed_++, peer.value, slot});
    return item(slot);
  }
  void push(Nanoseconds at, PeerId peer, Item item) { push(at, peer) = std::move(item); }

  bool empty() const { return keys_.empty(); }
  std::size_t size() const { return keys_.size(); }
  /// REQUIRES: not empty.
  Nanoseconds next_time() const { return keys_.front().at; }
  /// Whom the next item is for. REQUIRES: not empty.
  PeerId next_peer() const { return PeerId(keys_.front().peer); }
  /// REQUIRES: not empty.
  const Item& next() const { return const_cast<EventQueue*>(this)->item(keys_.front().slot); }
  /// Has the next item read into the cache, where there is one.
  void prefetch_next() {
    if (!empty()) prefetch(&item(keys_.front().slot));
  }
  /// Moves the next item to a later time; among the peer's items of that time its order is still
  /// that in which it was pushed. REQUIRES: not empty; `at` is not before its time.
  void postpone(Nanoseconds at) {
    Key key = keys_.front();
    key.at = at;
    sink(key);
  }
  /// The next item is due no more, but stays where it is. REQUIRES: not empty.
  Slot take() {
    const Slot slot = keys_.front().slot;
    const Key last = keys_.back();
    keys_.pop_back();
    if (!keys_.empty()) sink(last);
    return slot;
  }
  Item& item(Slot slot) { return (*slabs_[slot / kSlab])[slot % kSlab]; }
  /// Its place is for others.
  void release(Slot slot) { free_.push_back(slot); }
  /// REQUIRES: not empty.
  Item pop() {
    const Slot slot = take();
    Item popped = std::move(item(slot));
    release(slot);
    return popped;
  }

 private:
  // Items are large and stay where they are; only their keys move, in a heap in which each has four
  // below it: half as many steps as with two, in the same cache lines.
  struct Key {
    Nanoseconds at = 0;
    std::uint64_t number = 0;
    std::int32_t peer = 0;
    Slot slot = 0;
  };
  static constexpr std::size_t kBelow = 4;
  static constexpr Slot kSlab = 256;
  using Slab = std::array<Item, kSlab>;

  static bool earlier(const Key& a, const Key& b) {
    if (a.at != b.at) return a.at < b.at;
    if (a.peer != b.peer) return a.peer < b.peer;
    return a.number < b.number;
  }
  /// Puts the key where `place` is free, or above.
  void rise(std::size_t place, const Key& key) {
    while (place > 0) {
      const std::size_t above = (place - 1) / kBelow;
      if (!earlier(key, keys_[above])) break;
      keys_[place] = keys_[above];
      place = above;
    }
    keys_[place] = key;
  }
  /// Puts the key in the place of the first, or below.
  void sink(const Key& key) {
    std::size_t place = 0;
    const std::size_t size = keys_.size();
    while (true) {
      const std::size_t first = kBelow * place + 1;
      if (first >= size) break;
      std::size_t least = first;
      const std::size_t end = first + kBelow < size ? first + kBelow : size;
      for (std::size_t below = first + 1; below < end; ++below) {
        if (earlier(keys_[below], keys_[least])) least = below;
      }
      if (!earlier(keys_[least], key)) break;
      keys_[place] = keys_[least];
      place = least;
    }
    keys_[place] = key;
  }

  std::vector<Key> keys_;
  std::vector<std::unique_ptr<Slab>> slabs_;
  Slot slots_ = 0;
  std::vector<Slot> free_;
  std::uint64_t pushed_ = 0;
};

}  // namespace swarmpi
