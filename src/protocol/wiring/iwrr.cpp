#include "protocol/wiring/iwrr.hpp"

#include <algorithm>
#include <utility>

#include "core/check.hpp"

namespace swarmpi {
namespace {

// Weight of the newest measurement in the average: gamma of Algorithm 1.
constexpr double kGamma = 0.1;

// A job may be too short for the clock. With an expected time of 0 a peer would keep the lowest
// priority and get every microbatch.
constexpr double kShortestS = 1e-9;

}  // namespace

PeerId InterleavedRoundRobin::choose(const MicrobatchId&) {
  SWARMPI_CHECK(!queue_.empty(), "a router needs a peer to choose");
  const QueueEntry first = *queue_.begin();  // (2)
  queue_.erase(queue_.begin());
  Candidate& chosen = candidates_.at(first.peer);
  enqueue(chosen, first.priority + chosen.time.expected());  // (3)
  return first.peer;
}

void InterleavedRoundRobin::measured(PeerId peer, double seconds) {
  const auto candidate = candidates_.find(peer);
  if (candidate == candidates_.end()) return;  // it left while its answer was under way
  const double taken_s = std::max(seconds, kShortestS);
  if (!std::exchange(anything_measured_, true)) scale(taken_s);
  candidate->second.time.update(taken_s);  // (4)
}

void InterleavedRoundRobin::ProcessingTime::update(double seconds) {
  sum = (1 - kGamma) * sum + kGamma * seconds;
  weight = (1 - kGamma) * weight + kGamma;
}

// Else a slow peer that was chosen last in one step would be chosen late in the next, which would
// then wait for it.
void InterleavedRoundRobin::all_idle() {
  queue_.clear();
  for (auto& [peer, candidate] : candidates_) enqueue(candidate, 0);
}

void InterleavedRoundRobin::set_peers(const std::vector<PeerId>& peers) {
  last_estimate_ = initial_estimate();
  const std::set<PeerId> wanted(peers.begin(), peers.end());
  const double minimum = queue_.empty() ? 0 : queue_.begin()->priority;
  std::erase_if(queue_, [&](const QueueEntry& entry) { return !wanted.contains(entry.peer); });
  std::erase_if(candidates_,
                [&](const auto& candidate) { return !wanted.contains(candidate.first); });  // (6)
  const double lowest = queue_.empty() ? minimum : queue_.begin()->priority;
  for (const PeerId peer : wanted) {
    if (!candidates_.contains(peer)) add_peer(peer, lowest, last_estimate_);  // (5)
  }
}

void InterleavedRoundRobin::add_peer(PeerId peer, double priority, double initial) {
  Candidate& candidate = candidates_[peer];
  candidate.time.initial = initial;
  candidate.entry.peer = peer;
  enqueue(candidate, priority);
}

void InterleavedRoundRobin::enqueue(Candidate& candidate, double priority) {
  candidate.entry.priority = priority;
  candidate.entry.draw = draws_.bits();
  queue_.insert(candidate.entry);
}

double InterleavedRoundRobin::initial_estimate() const {
  double sum = 0;
  int known = 0;
  for (const auto& [peer, candidate] : candidates_) {
    if (!candidate.time.known()) continue;
    sum += candidate.time.expected();
    ++known;
  }
  return known > 0 ? sum / known : last_estimate_;
}

void InterleavedRoundRobin::scale(double seconds) {
  queue_.clear();
  last_estimate_ *= seconds;
  for (auto& [peer, candidate] : candidates_) {
    candidate.time.initial *= seconds;
    candidate.entry.priority *= seconds;
    queue_.insert(candidate.entry);
  }
}

}  // namespace swarmpi
