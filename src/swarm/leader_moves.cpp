// Who goes, and who moves. Whoever was told to leave hands over what only it serves, gets no new
// work, and goes once what it has done is committed: no work is lost. A peer that moves learns the
// new stage while it serves the old one, and leaves that likewise. Learners that are too slow do
// not hold the others up.

#include <algorithm>

#include "core/text.hpp"
#include "swarm/leader.hpp"
#include "swarm/rules.hpp"

namespace swarmpi {
namespace {

constexpr int kLongestRest = 10;  // doublings

}  // namespace

// ---- Notices

void Leader::receive(const NoticeMessage& message, PeerId from) {
  if (!plan_.recovers && !stop_requested_) stop_requested_ = message.why;
  notices_.try_emplace(from, Notice{now_s_, message.why});
}

// From all who live: the run stops. From fewer: these leave.
void Leader::weigh_notices() {
  if (notices_.empty() || stop_requested_) return;
  const bool from_all =
      std::all_of(view_.members.begin(), view_.members.end(),
                  [this](const auto& member) { return notices_.contains(member.first); });
  if (from_all) {
    stop_requested_ = notices_.begin()->second.why;
    return;
  }
  for (const auto& [peer, notice] : notices_) {
    if (now_s_ < notice.at_s + plan_.notices_together_s || !view_.members.contains(peer)) continue;
    if (!departing_.insert(peer).second) continue;
    store(EventRow{run_time_s(), committed().value, "notice", peer.value, -1, 0, notice.why});
  }
}

// ---- Leaving

void Leader::let_go() {
  if (!plan_.recovers || stopping() || !tables_awaited_.empty()) return;
  bool changed = hand_over();
  changed |= take_leave();
  changed |= dismiss_departed();
  if (changed) publish_view();
}

// What only those serve who want to leave is learned by somebody who stays: by a spare, if there is
// one, else beside its own stages.
bool Leader::hand_over() {
  bool changed = false;
  for (const PeerId peer : departing_) {
    for (const StageId stage : view_.members.at(peer)) {
      if (!staying(stage).empty() || !holds(Rule::hand_over_first)) {
        changed |= mark_leaving(peer, stage);
      } else {
        changed |= find_heir(stage);
      }
    }
  }
  return changed;
}

bool Leader::find_heir(StageId stage) {
  const auto goes = [this](PeerId peer) { return departing_.contains(peer); };
  const std::vector<PeerId> learners = view_.learners_of(stage);
  if (!std::all_of(learners.begin(), learners.end(), goes)) return false;
  for (const PeerId replica : view_.replicas(stage)) {
    if (!goes(replica)) return stay(replica, stage);  // it was about to move
  }
  std::optional<PeerId> heir;
  for (const auto& [peer, stages] : view_.members) {
    if (goes(peer) || rests(peer) || (stages.empty() && !awake(peer))) continue;
    if (!heir || stages.size() < view_.members.at(*heir).size()) heir = peer;
  }
  if (heir) view_.learners[*heir].insert(stage);
  return heir.has_value();
}

bool Leader::mark_leaving(PeerId peer, StageId stage) {
  return view_.leaving[peer].insert(stage).second;
}

bool Leader::stay(PeerId peer, StageId stage) {
  drained_after_.erase({peer, stage});
  const auto leaves = view_.leaving.find(peer);
  if (leaves == view_.leaving.end() || leaves->second.erase(stage) == 0) return false;
  if (leaves->second.empty()) view_.leaving.erase(leaves);
  return true;
}

// Those to whom a stage was left may have died since.
void Leader::keep_the_needed() {
  if (!holds(Rule::hand_over_first)) return;
  std::vector<std::pair<PeerId, StageId>> needed;
  for (const auto& [peer, stages] : view_.leaving) {
    for (const StageId stage : stages) {
      if (view_.staying(stage).empty()) needed.emplace_back(peer, stage);
    }
  }
  for (const auto& [peer, stage] : needed) stay(peer, stage);
}

// Its last microbatches are of the steps that were open when it was told to take no more, and it
// writes no checkpoint.
bool Leader::is_drained(PeerId peer, StageId stage) {
  if (!holds(Rule::drain_first)) return true;
  const Step newest(next_to_open_.value - 1);
  const Step last = drained_after_.try_emplace({peer, stage}, newest).first->second;
  if (committed() < last || agreed_ != committed()) return false;
  return std::none_of(checkpoints_.begin(), checkpoints_.end(), [&](const auto& pending) {
    const auto asked = pending.second.asked.find(stage);
    return asked != pending.second.asked.end() && asked->second == peer &&
           !pending.second.files.contains(stage);
  });
}

bool Leader::take_leave() {
  std::vector<std::pair<PeerId, StageId>> drained;
  for (const auto& [peer, stages] : view_.leaving) {
    for (const StageId stage : stages) {
      if (is_drained(peer, stage)) drained.emplace_back(peer, stage);
    }
  }
  for (const auto& [peer, stage] : drained) {
    view_.take_from(peer, stage);
    drained_after_.erase({peer, stage});
    forget(peer, stage);
    store(EventRow{run_time_s(), committed().value, "migrate", peer.value, stage.value, 0,
                   "serves the stage no more"});
  }
  return !drained.empty();
}

bool Leader::dismiss_departed() {
  std::vector<PeerId> gone;
  for (const PeerId peer : departing_) {
    if (!view_.members.at(peer).empty()) continue;
    if (peer != self_) {
      gone.push_back(peer);
    } else if (records_durable_ == records_stored_ && checkpoints_.empty()) {
      has_left_ = true;
    }
  }
  for (const PeerId peer : gone) {
    view_.remove(peer);
    departing_.erase(peer);
    notices_.erase(peer);
    dismissed_.insert(peer);
    outbox_.send(peer, DismissMessage{});
    store(EventRow{run_time_s(), committed().value, "leave", peer.value, -1, 0, ""});
  }
  return !gone.empty();
}

// ---- Moving

// Of the moves of a peer that are due the last counts: others were made by a leader before.
bool Leader::overtaken(std::size_t move) const {
  for (std::size_t i = move + 1; i < plan_.moves.size(); ++i) {
    const Move& later = plan_.moves[i];
    if (later.peer == plan_.moves[move].peer && later.after <= committed()) return true;
  }
  return false;
}

void Leader::move_peers() {
  if (!plan_.recovers || stopping() || !tables_awaited_.empty()) return;
  bool changed = false;
  for (std::size_t i = 0; i < plan_.moves.size(); ++i) {
    const Move& move = plan_.moves[i];
    if (moves_done_.contains(i) || committed() < move.after || overtaken(i)) continue;
    const auto member = view_.members.find(move.peer);
    const bool can =
        member != view_.members.end() && !member->second.empty() && !departing_.contains(move.peer);
    if (!can || member->second.contains(move.to)) {
      moves_done_.insert(i);
      if (can) changed |= stay(move.peer, move.to);
      for (const StageId stage : can ? member->second : std::set<StageId>()) {
        const std::vector<PeerId> others = staying(stage);
        const bool needed = others.size() == 1 && others.front() == move.peer;
        if (stage != move.to && !needed) changed |= mark_leaving(move.peer, stage);
      }
    } else if (!learns(move.peer, move.to) && !rests(move.peer)) {
      view_.learners[move.peer].insert(move.to);
      changed = true;
    }
  }
  if (changed) publish_view();
}

// ---- Learners that are too slow

bool Leader::rests(PeerId peer) const {
  const auto rest = rests_.find(peer);
  return rest != rests_.end() && now_s_ < rest->second.until_s;
}

void Leader::drop_laggards() {
  if (!tables_awaited_.empty()) return;
  std::vector<std::pair<PeerId, StageId>> late;
  for (auto& [step, open] : open_) {
    for (auto& [stage, sealed] : open.stages) {
      const auto reduced = open.reduced.find(stage);
      if (!sealed.seal || reduced == open.reduced.end()) continue;
      const auto has = [&](PeerId peer) { return reduced->second.contains(peer); };
      const std::vector<PeerId> replicas = view_.replicas(stage);
      if (!std::all_of(replicas.begin(), replicas.end(), has)) continue;
      if (!sealed.reduced_at_s) sealed.reduced_at_s = now_s_;
      if (now_s_ - *sealed.reduced_at_s < plan_.learner_patience_s) continue;
      for (const PeerId peer : sealed.learners) {
        if (learns(peer, stage) && !has(peer)) late.emplace_back(peer, stage);
      }
    }
  }
  for (const auto& [peer, stage] : late) {
    drop_learner(peer, stage, "holds a commit up: learns no more");
  }
  if (!late.empty()) publish_view();
}

void Leader::drop_learner(PeerId peer, StageId stage, const std::string& why) {
  view_.take_from(peer, stage);
  forget(peer, stage);
  learned_.erase({peer, stage});
  Rest& rest = rests_[peer];
  rest.times = std::min(rest.times + 1, kLongestRest);
  rest.until_s = now_s_ + plan_.learner_patience_s * static_cast<double>(1 << rest.times);
  store(EventRow{run_time_s(), committed().value, "suspect", peer.value, stage.value, 0, why});
}

}  // namespace swarmpi
