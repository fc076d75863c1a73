#pragma once
// Whether an order to kill is still meant when it can be followed. Orders wait where a host is
// stopped or cut off until whoever was silent speaks again: then they must not be followed. So an
// order to another host is a question first, and is given where the answer comes soon; and a
// process that was stopped itself follows none for a while. What still stands is repeated every
// `suspect_after_s`.

#include <map>

namespace swarmpi {

class KillOrders {
 public:
  /// `suspect_after_s`: for so long a peer is silent before it is to be killed.
  explicit KillOrders(double suspect_after_s)
      : longest_answer_s_(suspect_after_s / 6),
        stopped_s_(suspect_after_s / 3),
        void_s_(suspect_after_s / 3) {}

  /// This process looks at MPI; where it has not for long, it was stopped.
  void looked(double now_s) {
    if (now_s - looked_at_s_ > stopped_s_) void_until_s_ = now_s + void_s_;
    looked_at_s_ = now_s;
  }
  /// Whether orders that have come are not followed, as of the last look.
  bool are_void() const { return looked_at_s_ < void_until_s_; }

  /// Ranks of another host are asked whether they are ready to kill this one.
  void asked(int victim, double now_s) { asked_s_[victim] = now_s; }
  /// One of them is. Whether it is to do so.
  bool stands(int victim, double now_s) const {
    const auto asked = asked_s_.find(victim);
    return asked != asked_s_.end() && now_s - asked->second < longest_answer_s_;
  }

 private:
  double longest_answer_s_, stopped_s_, void_s_;
  double looked_at_s_ = 0;  // last
  double void_until_s_ = 0;
  std::map<int, double> asked_s_;  // when that was last asked of each
};

}  // namespace swarmpi
