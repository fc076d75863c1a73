#include "protocol/wiring/iwrr.hpp"

#include <algorithm>
#include <utility>

#include "core/check.hpp"

namespace swarmpi {
namespace {

constexpr double kGamma = 0.1;  // weight of the newest measurement in the average

// Less cannot be told from 0 by the clock; a peer that cost nothing would get everything.
constexpr double kShortestS = 1e-9;

}  // namespace

void InterleavedRoundRobin::ProcessingTime::update(double seconds) {
  sum = (1 - kGamma) * sum + kGamma * seconds;
  weight = (1 - kGamma) * weight + kGamma;
}

PeerId InterleavedRoundRobin::choose(const MicrobatchId&) {
  SWARMPI_CHECK(!queue_.empty(), "a router needs a peer to choose");
  const QueueEntry first = *queue_.begin();
  queue_.erase(queue_.begin());
  Candidate& chosen = candidates_.at(first.peer);
  enqueue(chosen, first.priority + chosen.time.expected());
  return first.peer;
}

void InterleavedRoundRobin::measured(PeerId peer, double seconds) {
  const auto candidate = candidates_.find(peer);
  if (candidate == candidates_.end()) return;  // it left while its answer was under way
  const double taken_s = std::max(seconds, kShortestS);
  if (!std::exchange(anything_measured_, true)) scale(taken_s);
  candidate->second.time.update(taken_s);
}

// A slow peer that comes last in a round would begin the next one late, and hold up its end.
void InterleavedRoundRobin::all_idle() {
  queue_.clear();
  for (auto& [peer, candidate] : candidates_) enqueue(candidate, 0);
}

void InterleavedRoundRobin::set_peers(const std::vector<PeerId>& peers) {
  last_estimate_ = initial_estimate();
  const std::set<PeerId> wanted(peers.begin(), peers.end());
  const double minimum = queue_.empty() ? 0 : queue_.begin()->priority;
  std::erase_if(queue_, [&](const QueueEntry& place) { return !wanted.contains(place.peer); });
  std::erase_if(candidates_,
                [&](const auto& candidate) { return !wanted.contains(candidate.first); });
  const double entry = queue_.empty() ? minimum : queue_.begin()->priority;
  for (const PeerId peer : wanted) {
    if (!candidates_.contains(peer)) add_peer(peer, entry, last_estimate_);
  }
}

void InterleavedRoundRobin::add_peer(PeerId peer, double priority, double initial) {
  Candidate& candidate = candidates_[peer];
  candidate.time.initial = initial;
  candidate.place.peer = peer;
  enqueue(candidate, priority);
}

void InterleavedRoundRobin::enqueue(Candidate& candidate, double priority) {
  candidate.place.priority = priority;
  candidate.place.draw = draws_.bits();
  queue_.insert(candidate.place);
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
    candidate.place.priority *= seconds;
    queue_.insert(candidate.place);
  }
}

}  // namespace swarmpi
