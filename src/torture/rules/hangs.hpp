#pragma once
// Jobs and disks that hang: only what does is reported, given up, or handed over, and the run ends
// for it only where nobody else could do the work.

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/status.hpp"
#include "protocol/membership/view.hpp"
#include "protocol/messages/ports.hpp"

namespace swarmpi {

class Hangs {
 public:
  /// `patience_s`: how long it may take until others know that something goes on again.
  explicit Hangs(double patience_s) : patience_s_(patience_s) {}

  /// The peer's jobs, or its calls of the file system, hang until then.
  void expect(PeerId peer, Task task, double until_s);
  /// Whether anything hangs, or has.
  bool any() const { return !until_s_.empty(); }
  /// A peer reports what hangs.
  std::string tells(double now_s, PeerId peer, const LateMessage& message) const;
  /// A leader gives the peer up for its job.
  std::string gives_up(double now_s, PeerId peer) const;
  /// The peer waits for a lane of its storage no more.
  std::string gives_up_disk(double now_s, PeerId peer) const;
  /// Whether anything hung until so recently that others may still wait because of it.
  bool lately(double now_s) const;
  /// The peer leads no more.
  std::string abstains(double now_s, PeerId peer) const;
  /// Peers came, went, were asked to, or were silent: until the others have seen to that they
  /// cannot see to what hangs.
  void disturbed(double until_s) { quiet_since_s_ = std::max(quiet_since_s_, until_s); }
  /// The run ends with this status. `able`: whether a peer lives and stays.
  std::string ends(double now_s, const Status& status, const View& view,
                   const std::function<bool(PeerId)>& able) const;

 private:
  bool hung_lately(double now_s, PeerId peer, Task task) const;
  bool has_hung(PeerId peer, Task task) const { return until_s_.contains({peer, task}); }
  /// Whose job hangs; none where the status does not say so.
  static std::optional<PeerId> whose_job_hangs(const Status& status);
  /// One for each stage of the peer; empty where a stage has none.
  std::vector<PeerId> helpers(PeerId peer, const View& view,
                              const std::function<bool(PeerId)>& able) const;

  double patience_s_;
  std::map<std::pair<PeerId, Task>, double> until_s_;
  double quiet_since_s_ = 0;
};

}  // namespace swarmpi
