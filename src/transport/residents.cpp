#include "transport/residents.hpp"

#include <utility>

namespace swarmpi {

Residents::Residents(int rank, int ranks, RankOf rank_of)
    : rank_(rank),
      rank_of_(std::move(rank_of)),
      self_(rank),
      lost_(static_cast<std::size_t>(ranks)),
      parted_(static_cast<std::size_t>(ranks)) {
  for (int other = 0; other < ranks; ++other) known_.insert(PeerId(other));
}

void Residents::settle(PeerId self) {
  self_ = self;
  told_.clear();
}

int Residents::reach(PeerId peer) {
  known_.insert(peer);
  if (dead_.contains(peer)) return -1;
  const int rank = rank_of_ ? rank_of_(peer) : peer.value;
  const bool is_one = rank >= 0 && rank < static_cast<int>(lost_.size());
  const bool another_lives_here = rank == rank_ && peer != self_;
  return is_one && !another_lives_here && !lost(rank) ? rank : -1;
}

std::vector<PeerId> Residents::lose(int rank) {
  std::vector<PeerId> peers;
  for (const PeerId peer : known_) {
    if (reach(peer) == rank) peers.push_back(peer);
  }
  dead_.insert(peers.begin(), peers.end());
  lost_[static_cast<std::size_t>(rank)] = true;
  return peers;
}

bool Residents::must_hear_of(PeerId dead) { return dead != self_ && told_.insert(dead).second; }

void Residents::parted(int rank, bool after_the_end) {
  parted_[static_cast<std::size_t>(rank)] = true;
  seen_end_ |= after_the_end;
}

bool Residents::all_others_parted() const {
  for (std::size_t rank = 0; rank < parted_.size(); ++rank) {
    if (static_cast<int>(rank) != rank_ && !parted_[rank] && !lost_[rank]) return false;
  }
  return true;
}

}  // namespace swarmpi
