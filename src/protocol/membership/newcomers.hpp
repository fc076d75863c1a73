#pragma once
// Processes are spawned in the place of peers that are gone, one at a time. Nobody waits for them.

#include <cstdint>
#include <map>

#include "core/ids.hpp"

namespace swarmpi {

/// A process that was spawned and has not joined after this time is replaced by another.
inline constexpr double kPatienceForNewcomersS = 120;

class Newcomers {
 public:
  /// `peers`: as many as there are to be.
  Newcomers(std::int64_t peers, double now_s) : peers_(peers), last_loss_s_(now_s) {}

  void lost(PeerId peer, double now_s);
  void joined(PeerId peer);
  /// Those that have not joined in time are not waited for any more.
  void give_up_late(double now_s);
  /// Whether a process is to be spawned now, where `staying` members stay: one is missing, none is
  /// being started, and no loss or failed spawn is recent.
  bool due(std::int64_t staying, double now_s) const;
  void spawning() { spawning_ = true; }
  void spawned(PeerId peer, double now_s);
  void failed(double now_s);

 private:
  /// The next spawn has to wait, twice as long after each failure.
  void delay_next(double now_s);

  std::int64_t peers_;
  bool spawning_ = false;                  // a process is being started
  std::map<PeerId, double> spawned_at_s_;  // of those that have not joined yet
  double last_loss_s_;
  double next_spawn_s_ = 0;  // not before
  int failures_ = 0;
};

}  // namespace swarmpi
