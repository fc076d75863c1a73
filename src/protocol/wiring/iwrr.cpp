#include "protocol/wiring/iwrr.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "core/check.hpp"

namespace swarmpi {
namespace {

// Weight of the newest measurement in the average: gamma of Algorithm 1.
constexpr double kGamma = 0.1;

// A job may be too short for the clock. With an expected time of 0 a peer would keep the lowest
// priority and get every microbatch.
constexpr double kShortestS = 1e-9;

// Priorities this near to each other are tied, in expected times of a microbatch.
constexpr double kTied = 0.01;

// Peers are alike if the slowest takes so many times as long as the fastest.
constexpr double kAlike = 1.2;

bool is_like(double one_s, double other_s) {
  return one_s <= kAlike * other_s && other_s <= kAlike * one_s;
}

}  // namespace

PeerId InterleavedRoundRobin::choose(const MicrobatchId&) {
  SWARMPI_CHECK(!queue_.empty(), "a router needs a peer to choose");
  const PeerId first = queue_.begin()->peer;  // (2)
  queue_.erase(*queue_.begin());
  Candidate& chosen = candidates_.find(first)->second;
  chosen.priority += chosen.time.expected();  // (3)
  chosen.draw = draws_.bits();
  enqueue(first, chosen);
  return first;
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
  for (auto& [peer, candidate] : candidates_) candidate.priority = 0;
  enqueue_all();
}

// Where one had a microbatch more than the others, as after a death, senders that take turns would
// all choose the same peers at a time from then on.
void InterleavedRoundRobin::step_over() {
  if (are_alike()) all_idle();
}

bool InterleavedRoundRobin::are_alike() const {
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (const auto& [peer, candidate] : candidates_) {
    least = std::min(least, candidate.time.expected());
    most = std::max(most, candidate.time.expected());
  }
  return is_like(most, least);
}

void InterleavedRoundRobin::set_peers(const std::vector<PeerId>& peers, std::size_t sender) {
  // Most views change other stages.
  if (peers == peers_ && sender == sender_) return;
  peers_ = peers;
  last_estimate_ = initial_estimate();
  const double before = lowest_priority();
  FlatSet<PeerId> wanted;
  wanted.insert(peers.begin(), peers.end());
  erase_if(candidates_,
           [&](const auto& candidate) { return !wanted.contains(candidate.first); });  // (6)
  const double lowest = candidates_.empty() ? before : lowest_priority();
  FlatMap<PeerId, Candidate> newcomers;
  for (const PeerId peer : wanted) {
    if (candidates_.contains(peer)) continue;
    Candidate& newcomer = newcomers[peer];
    newcomer.priority = first_priority(peer, lowest);  // (5)
    newcomer.time.initial = last_estimate_;
    newcomer.draw = draws_.bits();
  }
  for (const auto& [peer, newcomer] : newcomers) candidates_.try_emplace(peer, newcomer);
  sender_ = sender;
  std::size_t place = 0;
  for (auto& [peer, candidate] : candidates_) candidate.place = place++;
  enqueue_all();
}

double InterleavedRoundRobin::lowest_priority() const {
  if (candidates_.empty()) return 0;
  const auto less = [](const auto& a, const auto& b) {
    return a.second.priority < b.second.priority;
  };
  return std::min_element(candidates_.begin(), candidates_.end(), less)->second.priority;
}

// The turns of peers that take as long as most do are spread over the senders; the one fast peer
// among many may have its turn at all of them at a time.
double InterleavedRoundRobin::first_priority(PeerId newcomer, double lowest) const {
  if (candidates_.empty()) return lowest;
  const double usual = median_expected();
  auto behind = candidates_.upper_bound(newcomer);
  while (behind == candidates_.end() || !is_like(behind->second.time.expected(), usual)) {
    behind = behind == candidates_.end() ? candidates_.begin() : std::next(behind);
  }
  const double turn = (behind->second.priority - lowest) / behind->second.time.expected();
  return lowest + std::min(turn, 1.0) * usual;
}

double InterleavedRoundRobin::median_expected() const {
  std::vector<double> all;
  for (const auto& [peer, candidate] : candidates_) all.push_back(candidate.time.expected());
  const auto middle = all.begin() + std::ssize(all) / 2;
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

void InterleavedRoundRobin::enqueue(PeerId peer, const Candidate& candidate) {
  const double key = key_of(candidate.priority, candidate.time.expected());
  queue_.insert({key, order_of(candidate), peer});
}

void InterleavedRoundRobin::enqueue_all() {
  queue_.clear();
  for (const auto& [peer, candidate] : candidates_) enqueue(peer, candidate);
}

double InterleavedRoundRobin::key_of(double priority, double expected) const {
  const auto above = queue_.lower_bound({priority, 0, PeerId()});
  double nearest = std::numeric_limits<double>::infinity();
  if (above != queue_.end()) nearest = above->key;
  if (above != queue_.begin()) {
    const double below = std::prev(above)->key;
    if (priority - below < nearest - priority) nearest = below;
  }
  return std::abs(nearest - priority) <= kTied * expected ? nearest : priority;
}

std::uint64_t InterleavedRoundRobin::order_of(const Candidate& candidate) const {
  if (ties_ == WiringTies::random) return candidate.draw;
  const std::size_t peers = candidates_.size();
  return (candidate.place + peers - sender_ % peers) % peers;
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
  last_estimate_ *= seconds;
  for (auto& [peer, candidate] : candidates_) {
    candidate.time.initial *= seconds;
    candidate.priority *= seconds;
  }
  enqueue_all();
}

}  // namespace swarmpi
