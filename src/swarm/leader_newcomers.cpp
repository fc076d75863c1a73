// Processes in the place of those that are gone: called in calm moments only, waited for by nobody.

#include <algorithm>

#include "swarm/leader.hpp"

namespace swarmpi {
namespace {

// A death near the start of a process may take others along.
constexpr double kCalmS = 0.25;
constexpr int kLongestPause = 8;  // doublings of a second

}  // namespace

bool Leader::wants_newcomers() const {
  if (!plan_.swarm.spawn || !plan_.recovers || stopping() || !tables_awaited_.empty()) return false;
  // Who has joined later cannot be reached by those whom it calls.
  if (self_ > newest_at_start_ || departing_.contains(self_)) return false;
  const auto leaves = [this](const auto& member) { return departing_.contains(member.first); };
  const auto staying = static_cast<std::int64_t>(view_.members.size()) -
                       std::count_if(view_.members.begin(), view_.members.end(), leaves);
  return staying + static_cast<std::int64_t>(called_.size()) < peers_at_start_;
}

void Leader::call_newcomers() {
  const auto late = [this](const auto& one) {
    return now_s_ > one.second + kPatienceForNewcomersS;
  };
  if (std::erase_if(called_, late) > 0) pause_calls();
  const bool calm = now_s_ >= std::max(last_loss_s_ + kCalmS, calls_again_s_);
  if (!wants_newcomers() || calls_ || !calm) return;
  calls_ = true;
  outbox_.act(SpawnPeer{});
}

void Leader::receive(const PeerSpawned& spawned) {
  calls_ = false;
  called_[spawned.peer] = now_s_;
  store(EventRow{run_time_s(), committed().value, "spawn", spawned.peer.value, -1, spawned.took_s,
                 ""});
}

void Leader::receive(const SpawnFailed& failed) {
  calls_ = false;
  pause_calls();
  event("spawn", committed().value, 0, failed.why);
}

void Leader::pause_calls() {
  failed_calls_ = std::min(failed_calls_ + 1, kLongestPause);
  calls_again_s_ = now_s_ + static_cast<double>(1 << failed_calls_);
}

}  // namespace swarmpi
