#include "protocol/membership/room.hpp"

#include <algorithm>
#include <limits>

namespace swarmpi {
namespace {

constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max();

std::int64_t budget_of(const View& view, PeerId peer) {
  const auto stated = view.budgets().find(peer);
  return stated == view.budgets().end() ? kUnbounded : stated->second;
}

const std::set<StageId>& stages_of(const View::Roles& roles, PeerId peer) {
  static const std::set<StageId> none;
  const auto found = roles.find(peer);
  return found == roles.end() ? none : found->second;
}

bool moves(const View& view, PeerId peer) { return view.move() && view.move()->peer == peer; }

}  // namespace

void MemoryNeeds::raise_to(const MemoryNeeds& other) {
  peer_bytes = std::max(peer_bytes, other.peer_bytes);
  for (std::size_t s = 0; s < std::min(stages.size(), other.stages.size()); ++s) {
    StageNeeds& own = stages[s];
    own.serving_bytes = std::max(own.serving_bytes, other.stages[s].serving_bytes);
    own.learning_bytes = std::max(own.learning_bytes, other.stages[s].learning_bytes);
    own.owned_bytes = std::max(own.owned_bytes, other.stages[s].owned_bytes);
  }
}

std::int64_t least_bytes(const MemoryNeeds& needs, const std::set<StageId>& serves,
                         const std::set<StageId>& learns, std::int64_t owners) {
  if (!needs.known() || (serves.empty() && learns.empty())) return 0;
  std::int64_t bytes = needs.peer_bytes;
  for (const StageId stage : serves) bytes += needs.of(stage).serving_bytes_of(owners);
  for (const StageId stage : learns) bytes += needs.of(stage).learning_bytes;
  return bytes;
}

std::int64_t least_bytes(const MemoryNeeds& needs, const View& view, PeerId peer) {
  const std::set<StageId>& serves = stages_of(view.members(), peer);
  // Where replicas own ranges there is one stage.
  const std::int64_t owners = serves.empty() ? 1 : std::ssize(view.replicas(*serves.begin()));
  const std::int64_t now = least_bytes(needs, serves, stages_of(view.learners(), peer), owners);
  if (!moves(view, peer)) return now;
  return std::max(now, least_bytes(needs, {}, {view.move()->to}));
}

bool fits(const MemoryNeeds& needs, const View& view, PeerId peer) {
  return least_bytes(needs, view, peer) <= budget_of(view, peer);
}

bool fits(const MemoryNeeds& needs, const View& view) {
  return std::all_of(view.budgets().begin(), view.budgets().end(), [&](const auto& stated) {
    return !view.contains(stated.first) || fits(needs, view, stated.first);
  });
}

// A peer that moves has nothing that could give way, and has promised the room for its new stage.
Room room_to_learn(const MemoryNeeds& needs, const View& view, PeerId peer, StageId stage) {
  if (!needs.known()) return Room::beside;
  const std::int64_t budget = budget_of(view, peer);
  const std::set<StageId>& serves = stages_of(view.members(), peer);
  std::set<StageId> learns = stages_of(view.learners(), peer);
  learns.insert(stage);
  if (moves(view, peer) && !serves.contains(view.move()->to)) learns.insert(view.move()->to);
  if (least_bytes(needs, serves, learns) <= budget) return Room::beside;
  const bool gives_way =
      learns.size() > 1 && !moves(view, peer) && least_bytes(needs, serves, {stage}) <= budget;
  return gives_way ? Room::if_others_give_way : Room::none;
}

bool could_learn_alone(const MemoryNeeds& needs, const View& view, PeerId peer, StageId stage) {
  return least_bytes(needs, {}, {stage}) <= budget_of(view, peer);
}

std::int64_t kept_share(std::int64_t left_bytes) {
  return std::max<std::int64_t>(left_bytes, 0) / 2;
}

std::int64_t kept_bytes(const MemoryNeeds& needs, const View& view, PeerId peer,
                        std::int64_t most_bytes) {
  const std::int64_t budget = budget_of(view, peer);
  if (!needs.known() || budget == kUnbounded) return most_bytes;
  return std::min(most_bytes, kept_share(budget - least_bytes(needs, view, peer)));
}

}  // namespace swarmpi
