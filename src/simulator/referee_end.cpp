// What must hold once everybody is done.

#include <algorithm>
#include <optional>

#include "core/text.hpp"
#include "simulator/referee.hpp"

namespace swarmpi {

bool Referee::found_nobody(const Status& status) {
  return status.message().rfind("there is no run to join", 0) == 0;
}

bool Referee::lost_its_disk(const Status& status) {
  return status.message().find("space left") != std::string::npos ||
         status.message().find("output error") != std::string::npos;
}

bool Referee::cut_off(const Status& status) {
  return status.message().find("cannot be killed") != std::string::npos ||
         status.message().find("stopped for too long") != std::string::npos;
}

Step Referee::last_commit() const {
  Step last = resumed_from_;
  for (const auto& [peer, step] : commit_known_) {
    const auto lives_in = incarnations_.find(peer);
    const bool left_behind =
        (lives_in == incarnations_.end() ? resumed_in_ : lives_in->second) < incarnation_;
    const bool counts = !dead(peer) && !outsiders_.contains(peer);
    if (counts && !left_behind) last = std::max(last, step);
  }
  return last;
}

bool Referee::stage_was_lost() const {
  for (std::int32_t s = 0; s < plan_.stages(); ++s) {
    const std::vector<PeerId> replicas = dealt_.replicas(StageId(s));
    const auto is_dead = [this](PeerId peer) { return dead(peer); };
    if (std::all_of(replicas.begin(), replicas.end(), is_dead)) return true;
  }
  return false;
}

std::string Referee::at_the_end(const VirtualWorld& world) const {
  if (!breach_.empty()) return breach_;
  if (!world.all_done()) {
    return format("stalled after %lld events at %.6f s:\n", static_cast<long long>(world.events()),
                  world.now_s()) +
           world.waiting_for();
  }
  if (ended_.empty()) return "";  // nobody is left
  if (std::string wrong = statuses(); !wrong.empty()) return wrong;
  if (std::string wrong = too_much_work(); !wrong.empty()) return wrong;
  if (std::string wrong = left_overs(world); !wrong.empty()) return wrong;
  if (commits_.empty()) return "";  // stopped at once
  if (std::string wrong = unheard_views(); !wrong.empty()) return wrong;
  const bool good = std::all_of(ended_.begin(), ended_.end(),
                                [](const auto& ended) { return ended.second.ok(); });
  return good ? unapplied() : "";
}

std::string Referee::statuses() const {
  const auto found = std::find_if(ended_.begin(), ended_.end(), [](const auto& ended) {
    return !found_nobody(ended.second) && !cut_off(ended.second);
  });
  if (found == ended_.end()) return "";
  const auto& [leader, first] = *found;
  // An end that could not be stored binds nobody: a newcomer that whoever ended the run did not
  // know may take it up, and end it well.
  std::optional<Status> taken_up;
  if (storage_failed_ && !leaders_.empty()) {
    const PeerId last = leaders_.rbegin()->second;
    if (!dealt_.members.contains(last) && ended_.contains(last)) taken_up = ended_.at(last);
  }
  for (const auto& [peer, status] : ended_) {
    if (outsiders_.contains(peer) || found_nobody(status) || cut_off(status)) continue;
    if (status.code() == first.code() && status.message() == first.message()) continue;
    if (taken_up && status.code() == taken_up->code()) continue;
    return format("peer %d ended with status %d (%s), peer %d with %d (%s)", peer.value,
                  static_cast<int>(status.code()), status.message().c_str(), leader.value,
                  static_cast<int>(first.code()), first.message().c_str());
  }
  return "";
}

bool Referee::somebody_was_cut_off() const {
  return std::any_of(ended_.begin(), ended_.end(), [this](const auto& ended) {
    return cut_off(ended.second) && !outsiders_.contains(ended.first);
  });
}

std::string Referee::unheard_views() const {
  for (const auto& [way, number] : views_sent_) {
    const auto& [from, to] = way;
    if (from == to || dead(from) || dead(to)) continue;
    if (unreachable_.contains(to)) continue;
    if (cut_off(ended_.at(from)) || cut_off(ended_.at(to))) continue;
    if (outsiders_.contains(to) || views_.at(to).number >= number) continue;
    return format("peer %d has not heard the last view of peer %d", to.value, from.value);
  }
  return "";
}

std::string Referee::unapplied() const {
  const Step last = last_commit();
  for (const PeerId peer : members()) {
    // One that was let go may not have heard of it.
    const auto serves = newest_.members.find(peer);
    if (serves == newest_.members.end()) continue;
    for (const StageId stage : serves->second) {
      const auto found = applied_.find({peer, stage});
      const Step step = found == applied_.end() ? resumed_from_ : found->second;
      // A run that is over once all have gone back does not wait until all is loaded.
      const auto begins = begins_at_.find(peer);
      if (step == last || (begins != begins_at_.end() && begins->second == last)) continue;
      return format("peer %d ended with step %lld of stage %d applied; step %lld is committed",
                    peer.value, static_cast<long long>(step.value), stage.value,
                    static_cast<long long>(last.value));
    }
  }
  return "";
}

std::string Referee::left_overs(const VirtualWorld& world) const {
  for (const auto& [peer, status] : ended_) {
    if (dead(peer) || world.dead(peer)) continue;
    if (std::string what = world.peer(peer).left_over(); !what.empty()) {
      return format("peer %d still holds ", peer.value) + what;
    }
  }
  return "";
}

// A death can undo all of the open steps; what one just before it has undone counts with it.
std::string Referee::too_much_work() const {
  const std::int64_t steps = 2 * plan_.delay() * plan_.stages();
  const std::int64_t backward = steps * plan_.train.microbatches;
  const std::int64_t forward = backward + steps * plan_.validation_microbatches;
  for (const DeathCost& death : deaths()) {
    if (death.repeated <= backward && death.forward_again <= forward) continue;
    return format(
        "after the death of peer %d %lld backward and %lld forward passes were repeated, of %lld "
        "and %lld in the open steps",
        death.peer.value, static_cast<long long>(death.repeated),
        static_cast<long long>(death.forward_again), static_cast<long long>(backward),
        static_cast<long long>(forward));
  }
  return "";
}

}  // namespace swarmpi
