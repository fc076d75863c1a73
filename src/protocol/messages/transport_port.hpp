#pragma once
// Actions for transport, and its events, but for messages (message.hpp).

#include <string>

#include "core/field_list.hpp"
#include "core/ids.hpp"

namespace swarmpi {

/// A peer has died: a fact, not a suspicion.
struct PeerLost {
  PeerId peer;
};
SWARMPI_FIELDS(PeerLost, peer);

/// A peer that was to be killed cannot be reached: it may live.
struct KillFailed {
  PeerId peer;
};
SWARMPI_FIELDS(KillFailed, peer);

/// A process was started, whose peer will ask to join.
struct PeerSpawned {
  PeerId peer;
  double took_s = 0;
};
SWARMPI_FIELDS(PeerSpawned, peer, took_s);

/// No process could be started.
struct SpawnFailed {
  std::string why;
};
SWARMPI_FIELDS(SpawnFailed, why);

/// Kill this peer, which is silent or deaf, or whose link is cut; answered by PeerLost at all
/// peers, or by KillFailed here.
struct KillPeer {
  PeerId peer;
};
SWARMPI_FIELDS(KillPeer, peer);

/// Start another process, with a peer of its own; answered by PeerSpawned or SpawnFailed.
struct SpawnPeer {};
SWARMPI_FIELDS(SpawnPeer);

}  // namespace swarmpi
