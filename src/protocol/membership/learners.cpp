#include "protocol/membership/learners.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

#include "protocol/messages/learning.hpp"

namespace swarmpi {
namespace {

// A learner that was dropped waits for learner_patience_s, doubled so often at most.
constexpr int kMaxBackoffDoublings = 10;

}  // namespace

// ---- Beginning

std::int64_t Learners::count_joined(const View& view) const {
  const auto first = view.members().upper_bound(highest_id_at_start_);
  return std::distance(first, view.members().end());
}

std::int64_t Learners::wanted_workers(const View& view) const {
  if (counted_in_ != view.revision()) {
    joined_ = count_joined(view);
    counted_in_ = view.revision();
  }
  return workers_ + joined_;
}

bool Learners::counts_hold(const View& view) const {
  return counted_in_ != view.revision() || joined_ == count_joined(view);
}

// Spares that are not needed in the place of the dead are shadows: they learn for good.
bool Learners::assign(View& view, const Departures& departures,
                      const std::function<std::vector<double>()>& needs, const Progress& progress,
                      double now_s) {
  std::int64_t busy = departures.busy(view);
  const auto enough = [&] { return busy >= wanted_workers(view) + plan_.swarm.shadows; };
  bool changed = false, somebody_waits = false;
  std::set<PeerId> idle;
  if (!enough()) idle = view.idle();
  for (const PeerId peer : idle) {
    if (departures.departs(peer) || backs_off(peer, now_s)) continue;
    if (enough()) break;
    const auto stage = neediest_stage(view, departures, needs(), peer);
    if (!stage) continue;
    ++busy;
    if (!spare_ready(peer, now_s)) continue;
    if (!may_begin_now(progress)) {
      somebody_waits = true;
      continue;
    }
    view.learn(peer, *stage);
    changed = true;
  }
  if (!somebody_waits) begin_after_.reset();
  return changed;
}

bool Learners::may_begin(const View& view, PeerId peer, double now_s) {
  return !backs_off(peer, now_s) && (!view.members().at(peer).empty() || spare_ready(peer, now_s));
}

bool Learners::spare_ready(PeerId spare, double now_s) {
  if (plan_.swarm.spare_delay_s <= 0 || joined_later(spare)) return true;
  const double ready_at_s = now_s + plan_.swarm.spare_delay_s;
  return now_s >= ready_at_s_.try_emplace(spare, ready_at_s).first->second;
}

// A step that is sealed without a learner leaves what that has behind as it is committed; or, if
// that is all, the stage is sealed anew, and all wait until the new replica has the gradient.
bool Learners::may_begin_now(const Progress& progress) {
  if (!begin_after_) begin_after_ = progress.sealed;
  return *begin_after_ <= progress.committed;
}

bool Learners::backs_off(PeerId peer, double now_s) const {
  const auto backoff = backoffs_.find(peer);
  return backoff != backoffs_.end() && now_s < backoff->second.until_s;
}

// A stage that would be left without a peer goes before all others. A peer that moves counts in the
// stage that it learns.
std::optional<StageId> Learners::neediest_stage(const View& view, const Departures& departures,
                                                const std::vector<double>& needs,
                                                PeerId peer) const {
  std::optional<StageId> neediest;
  double most = -1;
  for (std::size_t s = 0; s < needs.size(); ++s) {
    const StageId stage(static_cast<std::int32_t>(s));
    if (room_to_learn(plan_.needs, view, peer, stage) == Room::none) continue;
    auto peers =
        departures.staying(view, stage) + static_cast<std::int64_t>(view.learners_of(stage).size());
    const auto& move = view.move();
    const bool loses_mover = move && move->from == stage && view.serves(move->peer, stage) &&
                             !view.leaves(move->peer, stage);
    if (loses_mover && peers > 1) --peers;
    const double need = peers == 0 ? std::numeric_limits<double>::infinity()
                                   : needs[s] / static_cast<double>(peers);
    if (need <= most) continue;
    neediest = stage;
    most = need;
  }
  return neediest;
}

// ---- Progress, and the end of learning

void Learners::enter(const LearnedMessage& message, PeerId from) {
  learned_[{from, message.stage}] = {message.step, message.tensors};
}

void Learners::forget(PeerId peer) {
  std::erase_if(learned_, [peer](const auto& learned) { return learned.first.first == peer; });
  backoffs_.erase(peer);
  ready_at_s_.erase(peer);
}

void Learners::keep_listed(PeerId peer, const std::vector<LearnedMessage>& listed) {
  std::erase_if(learned_, [&](const auto& known) {
    const auto& [who, stage] = known.first;
    const auto says = [&](const LearnedMessage& row) { return row.stage == stage; };
    return who == peer && std::none_of(listed.begin(), listed.end(), says);
  });
}

Learners::Judged Learners::judge(const View& view, const Departures& departures, Step agreed,
                                 const StateHashes& hashes) const {
  Judged judged;
  if (learned_.empty()) return judged;
  std::int64_t serving = departures.serving(view);
  // One that had to leave its old stage first is to serve all the same.
  const auto moves = [&](PeerId peer) { return view.move() && view.move()->peer == peer; };
  if (view.move() && view.members().at(view.move()->peer).empty()) ++serving;
  for (const auto& [peer, stages] : view.learners()) {
    for (const StageId stage : stages) {
      const auto learned = learned_.find({peer, stage});
      if (learned == learned_.end()) continue;
      const auto known = hashes.find(stage);
      const bool of_last_step = learned->second.step == agreed && known != hashes.end();
      if (of_last_step && learned->second.tensors != known->second) {
        judged.wrong.emplace_back(peer, stage);
        continue;
      }
      // Where nobody more is wanted it learns on, as a shadow.
      const bool is_new = view.members().at(peer).empty() && !moves(peer);
      const bool wanted =
          serving < wanted_workers(view) || departures.staying(view, stage) == 0 || !is_new;
      if (!wanted || !of_last_step) continue;
      judged.ready.emplace_back(peer, stage);
      if (is_new) ++serving;
    }
  }
  return judged;
}

void Learners::promote(View& view, PeerId peer, StageId stage) {
  view.serve(peer, stage);
  learned_.erase({peer, stage});
}

double Learners::drop(View& view, PeerId peer, StageId stage, double now_s) {
  view.take_from(peer, stage);
  learned_.erase({peer, stage});
  Backoff& backoff = backoffs_[peer];
  backoff.times = std::min(backoff.times + 1, kMaxBackoffDoublings);
  const double pause_s =
      plan_.torture_only.learner_patience_s * static_cast<double>(1 << backoff.times);
  backoff.until_s = now_s + pause_s;
  return pause_s;
}

}  // namespace swarmpi
