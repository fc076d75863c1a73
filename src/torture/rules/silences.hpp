#pragma once
// When peers were stopped or had a link cut, and what others may do because of it.

#include <map>
#include <string>
#include <vector>

#include "core/ids.hpp"
#include "core/records.hpp"
#include "core/status.hpp"
#include "protocol/messages/port_kinds.hpp"

namespace swarmpi {

/// Whether work was planned again because nothing had happened for long.
bool is_planned_at_a_deadline(const EventRow& event);

class Silences {
 public:
  /// `patience_s`: after which a peer suspects one that it does not hear of; `give_up_after_s`: so
  /// long after an order to kill a peer the run ends because nobody could follow it.
  Silences(double patience_s, double give_up_after_s)
      : patience_s_(patience_s), give_up_after_s_(give_up_after_s) {}

  /// The peer is stopped for this time, or one of its links is cut.
  void expect(PeerId peer, double from_s, double until_s) {
    silences_[peer].push_back({from_s, until_s});
  }
  /// Reductions, or tables behind the state that learners are sent, may take longer than a leader
  /// waits at first: rounds at a deadline that find nothing to be sent again are no fault.
  void expect_slow_work() { slow_work_ = true; }
  /// The others hear that the peer has died: nobody waits for it any more.
  void died(double now_s, PeerId peer);
  /// A peer that goes on is to be killed.
  std::string kills(double now_s, PeerId victim) const;
  /// A peer is ordered to be killed, whether it goes on or not.
  void ordered(double now_s, PeerId victim) { ordered_s_.try_emplace(victim, now_s); }
  /// A peer ends with this status.
  std::string ends(double now_s, const Status& status) const;
  /// A repair at a deadline was planned because nothing had happened for long.
  std::string stores(double now_s, const StoreRecord& record) const;

 private:
  struct Silence {
    double from_s, until_s;
  };

  /// Somebody was cut off for this time, until just now.
  std::string ends_alone(double now_s, double waits_s, const Status& status) const;

  double patience_s_;
  double give_up_after_s_;
  bool slow_work_ = false;
  std::map<PeerId, double> ordered_s_;  // first
  std::map<PeerId, std::vector<Silence>> silences_;
};

}  // namespace swarmpi
