// Who may be taken for dead, and what those must not do who were, and live.

#include <algorithm>

#include "core/text.hpp"
#include "simulator/referee.hpp"
#include "simulator/story.hpp"

namespace swarmpi {
namespace {

bool says_that_another_writes(const Status& status) {
  return status.message().rfind("another run writes", 0) == 0;
}

}  // namespace

// One who lives, though the others have been told that it does not: what it does must do no harm.
void Referee::forgotten(double now_s, PeerId peer, const Action& action) {
  if (const auto* kill = std::get_if<KillPeer>(&action)) {
    rule(is_suspect(now_s, kill->peer), "nobody is killed who is not silent", peer,
         format("peer %d", kill->peer.value));
  } else if (const auto* finish = std::get_if<Finish>(&action)) {
    const bool as_all_others = disk_.ended && disk_.ended->code == finish->status.code();
    const bool harmless = as_all_others || finish->status.code() == ExitStatus::stopped ||
                          (finish->status.ok() && may_leave_.contains(peer)) ||
                          says_that_another_writes(finish->status);
    rule(harmless, "whoever was taken for dead just goes", peer, finish->status.message());
  } else if (const auto* send = std::get_if<Send>(&action)) {
    if (const auto* issue = std::get_if<IssueMessage>(&send->message.body)) {
      issued_.insert({send->message.incarnation, issue->microbatch});
    }
    const auto* commit = std::get_if<CommitMessage>(&send->message.body);
    const auto known = commit == nullptr ? commits_.end() : commits_.find(commit->record->step);
    if (known == commits_.end()) return;
    const std::string unequal = difference(*known->second, *commit->record);
    rule(unequal.empty(), "a step is committed once", peer, unequal);
  }
}

bool Referee::is_suspect(double now_s, PeerId peer) const {
  if (ended_.contains(peer) || dead(peer)) return true;
  const auto silences = silences_.find(peer);
  if (silences == silences_.end()) return false;
  const double patience_s = plan_.swarm.suspect_after_s;
  return std::any_of(silences->second.begin(), silences->second.end(), [&](const Silence& silence) {
    const bool long_enough = std::min(silence.until_s, now_s) - silence.from_s > patience_s / 3;
    return long_enough && now_s < silence.until_s + 1.1 * patience_s;
  });
}

bool Referee::somebody_was_silent(double now_s) const {
  const double longest_s = 4.1 * plan_.swarm.suspect_after_s;
  return std::any_of(silences_.begin(), silences_.end(), [&](const auto& of_peer) {
    return std::any_of(of_peer.second.begin(), of_peer.second.end(),
                       [&](const Silence& silence) { return now_s < silence.until_s + longest_s; });
  });
}

}  // namespace swarmpi
