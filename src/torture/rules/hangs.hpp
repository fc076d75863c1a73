#pragma once
// Jobs and disks that hang: only what does is reported, given up, or handed over, one peer at a
// time, and the run ends for it only where nobody else could do the work.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/status.hpp"
#include "protocol/membership/view.hpp"
#include "protocol/messages/message_kinds.hpp"

namespace swarmpi {

class Hangs {
 public:
  /// `patience_s`: how long it may take until others know that something goes on again.
  explicit Hangs(double patience_s) : patience_s_(patience_s) {}

  /// The peer's jobs, or its calls of the file system, hang until then.
  void expect(PeerId peer, Task task, double until_s);
  /// The peer is stopped as a whole: what hangs then goes on, as the peer sees it, no sooner than
  /// it does.
  void stopped(PeerId peer, double from_s, double until_s);
  /// The peer has died of something else: who leads then need not know that it was told to go.
  void died(PeerId peer) { told_.erase(peer); }
  /// Whether anything hangs, or has.
  bool any() const { return !until_s_.empty(); }
  /// How often a peer that had abstained came back.
  std::int64_t came_back() const { return came_back_; }
  /// A peer reports what hangs.
  std::string tells(double now_s, PeerId peer, const LateMessage& message) const;
  /// A leader tells the peer that it is given up for its job, or because it cannot load.
  std::string gives_up(double now_s, PeerId peer);
  /// The peer has answered a view, or goes on: what it was told before does not count any more.
  void stays(PeerId peer) { told_.erase(peer); }
  /// A commit is announced.
  void commits(Incarnation incarnation, Step step) {
    newest_commit_ = std::max(newest_commit_, std::pair(incarnation, step));
  }
  /// What the peer had asked of its disk as a proof is stored.
  void stored_proof(PeerId peer) { proven_.insert(peer); }
  /// The peer says that it may lead again.
  std::string comes_back(PeerId peer);
  /// The peer waits for a lane of its storage no more.
  std::string gives_up_disk(double now_s, PeerId peer) const;
  /// Whether anything hung until so recently that others may still wait because of it.
  bool lately(double now_s) const;
  /// The peer leads no more.
  std::string abstains(double now_s, PeerId peer);
  /// Peers came, went, were asked to, or were silent: until the others have seen to that they
  /// cannot see to what hangs.
  void disturbed(double until_s) { quiet_since_s_ = std::max(quiet_since_s_, until_s); }
  /// The run ends with this status. `able`: whether a peer lives and stays.
  std::string ends(double now_s, const Status& status, const View& view,
                   const std::function<bool(PeerId)>& able) const;

 private:
  bool hung_lately(double now_s, PeerId peer, Task task) const;
  /// Whether the peer's jobs hang, or have, or its disk does, or did lately.
  bool may_not_help(double now_s, PeerId peer, Task task) const;
  /// Whose job hangs, or whose disk as it loads; none where the status does not say so.
  static std::optional<PeerId> whose_work_hangs(const Status& status);
  /// One for each stage of the peer; empty where a stage has none.
  std::vector<PeerId> helpers(double now_s, PeerId peer, Task hangs, const View& view,
                              const std::function<bool(PeerId)>& able) const;

  double patience_s_;
  std::map<std::pair<PeerId, Task>, double> until_s_;
  double quiet_since_s_ = 0;
  /// A peer that a leader has told to go.
  struct Told {
    double at_s = 0;
    std::pair<Incarnation, Step> newest_commit;  // then
  };
  std::map<PeerId, Told> told_;
  std::pair<Incarnation, Step> newest_commit_{Incarnation(0), Step(-1)};
  std::set<PeerId> proven_;  // have stored a proof since they abstained
  std::int64_t came_back_ = 0;
};

}  // namespace swarmpi
