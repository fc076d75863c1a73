#include "transport/mpi/peer_directory.hpp"

#include <utility>

namespace swarmpi {

PeerDirectory::PeerDirectory(int self, int count, EndpointOf end_of)
    : self_end_(self),
      end_of_(std::move(end_of)),
      self_(self),
      lost_(static_cast<std::size_t>(count)),
      parted_(static_cast<std::size_t>(count)) {
  for (int end = 0; end < count; ++end) known_.insert(PeerId(end));
}

void PeerDirectory::admit(PeerId self) {
  self_ = self;
  told_.clear();
}

int PeerDirectory::reach(PeerId peer) {
  known_.insert(peer);
  if (dead_.contains(peer)) return -1;
  const int end = end_of_ ? end_of_(peer) : peer.value;
  const bool is_one = end >= 0 && end < static_cast<int>(lost_.size());
  const bool another_lives_here = end == self_end_ && peer != self_;
  return is_one && !another_lives_here && !lost(end) ? end : -1;
}

std::vector<PeerId> PeerDirectory::lose(int end) {
  std::vector<PeerId> peers;
  for (const PeerId peer : std::vector<PeerId>(known_.begin(), known_.end())) {
    if (reach(peer) == end) peers.push_back(peer);
  }
  dead_.insert(peers.begin(), peers.end());
  lost_[static_cast<std::size_t>(end)] = true;
  return peers;
}

void PeerDirectory::add_end() {
  lost_.push_back(false);
  parted_.push_back(false);
}

bool PeerDirectory::must_hear_of(PeerId dead) { return dead != self_ && told_.insert(dead).second; }

void PeerDirectory::parted(int end, bool after_the_end) {
  parted_[static_cast<std::size_t>(end)] = true;
  seen_end_ |= after_the_end;
}

bool PeerDirectory::all_others_parted() const {
  for (std::size_t end = 0; end < parted_.size(); ++end) {
    if (static_cast<int>(end) != self_end_ && !parted_[end] && !lost_[end]) return false;
  }
  return true;
}

}  // namespace swarmpi
