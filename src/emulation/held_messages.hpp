#pragma once
// Messages and losses that are on their way until their time comes: those of one peer in order, but
// for what overtakes, which is in order with its like.

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "core/ids.hpp"
#include "core/virtual_time.hpp"

namespace swarmpi {

template <class Held>
class HeldMessages {
 public:
  /// To or from `peer`. It is due no earlier than what was held of that peer before.
  void hold(PeerId peer, bool overtakes, Nanoseconds due, Held held) {
    Nanoseconds& last = last_due_[{peer, overtakes}];
    last = std::max(last, due);
    held_.emplace(std::pair(last, next_number_++), std::move(held));
  }
  /// Whether one of that peer that is due at `due` has none before it here that is due as late.
  bool is_free(PeerId peer, bool overtakes, Nanoseconds due) const {
    const auto last = last_due_.find({peer, overtakes});
    return held_.empty() || last == last_due_.end() || last->second < due;
  }
  bool empty() const { return held_.empty(); }
  std::optional<Nanoseconds> next_due() const {
    return held_.empty() ? std::nullopt : std::optional(held_.begin()->first.first);
  }
  /// The next one whose time has come.
  std::optional<Held> take(Nanoseconds now) {
    if (held_.empty() || held_.begin()->first.first > now) return std::nullopt;
    return std::move(held_.extract(held_.begin()).mapped());
  }
  /// Drops what `goes`, all to or from `peer`; what is held of it from now on does not wait for
  /// that.
  template <class Goes>
  void drop(PeerId peer, Goes goes) {
    for (const bool overtakes : {false, true}) last_due_.erase({peer, overtakes});
    std::erase_if(held_, [&](const auto& held) { return goes(held.second); });
  }
  void clear() {
    held_.clear();
    last_due_.clear();
  }

 private:
  std::map<std::pair<Nanoseconds, std::uint64_t>, Held> held_;  // by due time, then in order
  std::map<std::pair<PeerId, bool>, Nanoseconds> last_due_;
  std::uint64_t next_number_ = 0;
};

}  // namespace swarmpi
