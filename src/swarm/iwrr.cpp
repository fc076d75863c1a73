#include "swarm/iwrr.hpp"

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
  const Place first = *queue_.begin();
  queue_.erase(queue_.begin());
  Server& chosen = servers_.at(first.peer);
  enqueue(chosen, first.priority + chosen.time.expected());
  return first.peer;
}

void InterleavedRoundRobin::measured(PeerId peer, double seconds) {
  const auto server = servers_.find(peer);
  if (server == servers_.end()) return;  // it left while its answer was under way
  const double taken_s = std::max(seconds, kShortestS);
  if (!std::exchange(anything_measured_, true)) scale(taken_s);
  server->second.time.update(taken_s);
}

// A slow peer that comes last in a round would begin the next one late, and hold up its end.
void InterleavedRoundRobin::all_idle() {
  queue_.clear();
  for (auto& [peer, server] : servers_) enqueue(server, 0);
}

void InterleavedRoundRobin::set_peers(const std::vector<PeerId>& peers) {
  last_estimate_ = initial_estimate();
  const std::set<PeerId> wanted(peers.begin(), peers.end());
  const double minimum = queue_.empty() ? 0 : queue_.begin()->priority;
  std::erase_if(queue_, [&](const Place& place) { return !wanted.contains(place.peer); });
  std::erase_if(servers_, [&](const auto& server) { return !wanted.contains(server.first); });
  const double entry = queue_.empty() ? minimum : queue_.begin()->priority;
  for (const PeerId peer : wanted) {
    if (!servers_.contains(peer)) add_peer(peer, entry, last_estimate_);
  }
}

void InterleavedRoundRobin::add_peer(PeerId peer, double priority, double initial) {
  Server& server = servers_[peer];
  server.time.initial = initial;
  server.place.peer = peer;
  enqueue(server, priority);
}

void InterleavedRoundRobin::enqueue(Server& server, double priority) {
  server.place.priority = priority;
  server.place.draw = draws_.bits();
  queue_.insert(server.place);
}

double InterleavedRoundRobin::initial_estimate() const {
  double sum = 0;
  int known = 0;
  for (const auto& [peer, server] : servers_) {
    if (!server.time.known()) continue;
    sum += server.time.expected();
    ++known;
  }
  return known > 0 ? sum / known : last_estimate_;
}

void InterleavedRoundRobin::scale(double seconds) {
  queue_.clear();
  last_estimate_ *= seconds;
  for (auto& [peer, server] : servers_) {
    server.time.initial *= seconds;
    server.place.priority *= seconds;
    queue_.insert(server.place);
  }
}

}  // namespace swarmpi
