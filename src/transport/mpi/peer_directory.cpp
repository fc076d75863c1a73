#include "transport/mpi/peer_directory.hpp"

#include <utility>

namespace swarmpi {

PeerDirectory::PeerDirectory(int self, int count, EndpointOf endpoint_of)
    : self_endpoint_(self),
      endpoint_of_(std::move(endpoint_of)),
      self_(self),
      lost_(static_cast<std::size_t>(count)),
      parted_(static_cast<std::size_t>(count)) {
  for (int endpoint = 0; endpoint < count; ++endpoint) known_.insert(PeerId(endpoint));
}

void PeerDirectory::admit(PeerId self) {
  self_ = self;
  reported_.clear();
}

int PeerDirectory::find(PeerId peer) {
  known_.insert(peer);
  if (dead_.contains(peer)) return -1;
  const int endpoint = endpoint_of_ ? endpoint_of_(peer) : peer.value;
  const bool exists = endpoint >= 0 && endpoint < static_cast<int>(lost_.size());
  const bool another_lives_here = endpoint == self_endpoint_ && peer != self_;
  return exists && !another_lives_here && !is_lost(endpoint) ? endpoint : -1;
}

std::vector<PeerId> PeerDirectory::mark_lost(int endpoint) {
  std::vector<PeerId> peers;
  for (const PeerId peer : std::vector<PeerId>(known_.begin(), known_.end())) {
    if (find(peer) == endpoint) peers.push_back(peer);
  }
  dead_.insert(peers.begin(), peers.end());
  lost_[static_cast<std::size_t>(endpoint)] = true;
  return peers;
}

void PeerDirectory::add_endpoint() {
  lost_.push_back(false);
  parted_.push_back(false);
}

bool PeerDirectory::first_report(PeerId dead) {
  return dead != self_ && reported_.insert(dead).second;
}

void PeerDirectory::mark_parted(int endpoint, bool after_the_end) {
  parted_[static_cast<std::size_t>(endpoint)] = true;
  run_ended_ |= after_the_end;
}

bool PeerDirectory::all_others_parted() const {
  for (std::size_t endpoint = 0; endpoint < parted_.size(); ++endpoint) {
    if (static_cast<int>(endpoint) != self_endpoint_ && !parted_[endpoint] && !lost_[endpoint])
      return false;
  }
  return true;
}

}  // namespace swarmpi
