#pragma once
// What hangs is said on stderr when it is heard of: its row may have to wait for the very disk that
// hangs, and a peer that does not lead stores none.

#include <cstdio>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "protocol/messages/message_kinds.hpp"
#include "protocol/observer.hpp"

namespace swarmpi {

/// Of the process of one peer: a leader hears of jobs and calls of storage that hang, its own among
/// them, and of storage that works again; whoever has ordered another to be killed waits for it
/// where nobody can.
class HangNotices final : public Observer {
 public:
  /// `give_up_after_s`: so long a peer is waited for that nobody can kill. `before`: is called
  /// before anything is said, so that a line which somebody else has begun can be ended.
  explicit HangNotices(double give_up_after_s, std::FILE* out = stderr,
                       std::function<void()> before = {})
      : give_up_after_s_(give_up_after_s), out_(out), before_(std::move(before)) {}

  void happened(double now_s, PeerId peer, const Event& event) override;
  void asked(double now_s, PeerId peer, const Action& action) override;

 private:
  void hears(const LateMessage& message, PeerId from);
  /// Once, until it is heard again or is dead.
  void waits_for(PeerId self, PeerId peer);
  void say(const std::string& what);

  double give_up_after_s_;
  std::FILE* out_;
  std::function<void()> before_;
  std::map<std::pair<PeerId, Task>, std::string> told_;
  std::map<PeerId, int> ordered_;  // to be killed, so often
  std::set<PeerId> waited_for_;
};

}  // namespace swarmpi
