#include "protocol/membership/newcomers.hpp"

#include <algorithm>

namespace swarmpi {
namespace {

// Nobody is spawned so soon after a death: near the start of a process a death may take others
// along.
constexpr double kQuietAfterLossS = 0.25;
// After failed spawns the next one waits for a second, doubled so often at most.
constexpr int kMaxDelayDoublings = 8;

}  // namespace

void Newcomers::lost(PeerId peer, double now_s) {
  last_loss_s_ = now_s;
  if (spawned_at_s_.erase(peer) > 0) delay_next(now_s);
}

void Newcomers::joined(PeerId peer) {
  if (spawned_at_s_.erase(peer) > 0) failures_ = 0;
}

void Newcomers::give_up_late(double now_s) {
  const auto late = [&](const auto& one) { return now_s > one.second + kPatienceForNewcomersS; };
  if (std::erase_if(spawned_at_s_, late) > 0) delay_next(now_s);
}

bool Newcomers::due(std::int64_t staying, double now_s) const {
  if (spawning_ || staying + static_cast<std::int64_t>(spawned_at_s_.size()) >= peers_)
    return false;
  return now_s >= std::max(last_loss_s_ + kQuietAfterLossS, next_spawn_s_);
}

void Newcomers::spawned(PeerId peer, double now_s) {
  spawning_ = false;
  spawned_at_s_[peer] = now_s;
}

void Newcomers::failed(double now_s) {
  spawning_ = false;
  delay_next(now_s);
}

void Newcomers::delay_next(double now_s) {
  failures_ = std::min(failures_ + 1, kMaxDelayDoublings);
  next_spawn_s_ = now_s + static_cast<double>(1 << failures_);
}

}  // namespace swarmpi
