#pragma once
// In which order peers are to lead. By id; who abstains because its storage hangs stands out, and
// once it has come back, behind all others, so that nobody gives way to it.

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>

#include "core/field_list.hpp"
#include "core/ids.hpp"

namespace swarmpi {

/// A number for each peer that has ever abstained, or has come since: odd while it abstains, else
/// its place, before its id. The others have 0. Numbers only grow: of two opinions of one peer the
/// higher is the newer, whoever holds it, so that all who have heard the same agree.
struct LeadingOrder {
  std::map<PeerId, std::int64_t> numbers;

  bool operator==(const LeadingOrder&) const = default;

  std::int64_t number_of(PeerId peer) const {
    const auto found = numbers.find(peer);
    return found == numbers.end() ? 0 : found->second;
  }
  bool abstains(PeerId peer) const { return number_of(peer) % 2 != 0; }
  /// Whether `a` leads rather than `b`: before all who abstain come those who do not.
  bool comes_before(PeerId a, PeerId b) const { return place(a) < place(b); }

  /// The peer does not lead from now on.
  void abstain(PeerId peer) {
    if (!abstains(peer)) ++numbers[peer];
  }
  /// It may lead again, after all others. `number`: the highest that it knows of itself.
  void come_back(PeerId peer, std::int64_t number) {
    const std::int64_t own = std::max(number, number_of(peer));
    numbers[peer] = std::max(last() + 2, own + own % 2);
  }
  /// A peer that was not there comes: it does not stand before those who have come back.
  void join(PeerId peer) {
    const std::int64_t end = last();
    if (!abstains(peer) && number_of(peer) < end) numbers[peer] = end;
  }
  /// What another knows as well.
  void merge(const LeadingOrder& other) {
    for (const auto& [peer, number] : other.numbers) {
      numbers[peer] = std::max(number_of(peer), number);
    }
  }

 private:
  std::tuple<bool, std::int64_t, PeerId> place(PeerId peer) const {
    const bool out = abstains(peer);
    return {out, out ? 0 : number_of(peer), peer};
  }
  std::int64_t last() const {
    std::int64_t last = 0;
    for (const auto& [peer, number] : numbers) last = std::max(last, number - number % 2);
    return last;
  }
};
SWARMPI_FIELDS(LeadingOrder, numbers);

}  // namespace swarmpi
