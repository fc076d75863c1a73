#pragma once
// Memory: what peers need for the stages that they serve and learn, and what they may take. All is
// a function of the plan and of the budgets in a view, so that every leader decides alike.
//
// What gives way where there is too little: caches (kept_bytes()), then what is learned, shadows
// first of all; a replica never does.

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "protocol/membership/view.hpp"

namespace swarmpi {

/// What a stage takes at least, once per peer.
struct StageNeeds {
  std::int64_t serving_bytes = 0;
  std::int64_t learning_bytes = 0;  ///< not less: parts of the state on their way come on top
  /// What serving takes beside, divided among the replicas, where each owns a range of the stage.
  std::int64_t owned_bytes = 0;

  /// What one of so many replicas takes.
  std::int64_t serving_bytes_of(std::int64_t owners) const {
    return serving_bytes + (owned_bytes + owners - 1) / owners;
  }
};
SWARMPI_FIELDS(StageNeeds, serving_bytes, learning_bytes, owned_bytes);

/// What peers need. Without stages nothing is known, and everything fits.
struct MemoryNeeds {
  std::int64_t peer_bytes = 0;     ///< of a peer with any stage, whatever their number
  std::vector<StageNeeds> stages;  ///< by id

  bool known() const { return !stages.empty(); }
  const StageNeeds& of(StageId stage) const {
    return stages.at(static_cast<std::size_t>(stage.value));
  }
  /// Nothing is less than in `other`, of the same stages.
  void raise_to(const MemoryNeeds& other);
};
SWARMPI_FIELDS(MemoryNeeds, peer_bytes, stages);

/// What a peer takes at least that serves and learns these stages, as one of `owners` replicas of
/// those that it serves.
std::int64_t least_bytes(const MemoryNeeds& needs, const std::set<StageId>& serves,
                         const std::set<StageId>& learns, std::int64_t owners = 1);
/// The same of a member. A peer that moves is counted with both of its stages, unless it had to
/// leave the old one first: then with the larger of the two.
std::int64_t least_bytes(const MemoryNeeds& needs, const View& view, PeerId peer);
/// Whether that is within the peer's budget.
bool fits(const MemoryNeeds& needs, const View& view, PeerId peer);
/// Whether all members have room for what they serve and learn.
bool fits(const MemoryNeeds& needs, const View& view);

/// Whether a member has room to learn a stage beside what it serves and learns.
enum class Room : std::uint8_t {
  none,
  if_others_give_way,  ///< if it learns nothing else any more
  beside,
};
Room room_to_learn(const MemoryNeeds& needs, const View& view, PeerId peer, StageId stage);
/// Whether the peer could learn the stage if it had no other.
bool could_learn_alone(const MemoryNeeds& needs, const View& view, PeerId peer, StageId stage);

/// What a member may keep of what it has sent: half of what its stages leave of its budget, and
/// `most_bytes` at most. The other half is for activations.
std::int64_t kept_bytes(const MemoryNeeds& needs, const View& view, PeerId peer,
                        std::int64_t most_bytes);
/// The share of what stages leave that is for what was sent.
std::int64_t kept_share(std::int64_t left_bytes);

}  // namespace swarmpi
