#include "protocol/membership/late_work.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "protocol/ending_words.hpp"
#include "protocol/messages/stalls.hpp"

namespace swarmpi {
namespace {

// What others are asked to store takes a moment on a good disk that is busy.
constexpr double kStoreTakesTimes = 3;
// Where a second peer hangs, no step is committed after the first has gone.
constexpr double kBetweenTwoTimes = 10;
// A server that comes back is not there for all hosts at the same moment.
constexpr double kAfterAllHaveHungTimes = 10;

}  // namespace

bool LateWork::enter(const LateMessage& message, PeerId from, double now_s) {
  const std::pair key(from, message.task);
  if (!message.late) {
    late_.erase(key);
    told_.erase(key);
    const bool works = message.task != Task::storage;
    if (works && resigned_ && resigned_->peer == from) resigned_.reset();
    if (works && tried_for_ == from) tried_for_.reset();
    return false;
  }
  late_[key] = Late{message.what, now_s - message.since_s};
  return std::exchange(told_[key], message.what) != message.what;
}

void LateWork::new_view() {
  late_.clear();
  tried_for_.reset();
  if (resigned_) resigned_->view_since = true;
}

void LateWork::gave_itself_up(PeerId peer, double at_s) {
  if (!resigned_ || resigned_->peer != peer) resigned_ = Resigned{peer, at_s, true, {}};
}

bool LateWork::work_hangs(const View& view) const {
  return std::any_of(late_.begin(), late_.end(), [&](const auto& late) {
    const auto& [peer, task] = late.first;
    const auto member = view.members().find(peer);
    return task != Task::storage && member != view.members().end() && !member->second.empty();
  });
}

void LateWork::enter(const TriedMessage& message, PeerId from, double now_s) {
  // An answer that comes late came because what had hung everywhere goes on.
  if (tried_for_ && message.number == trial_.number && now_s - trial_.asked_s <= patience_s()) {
    trial_.answered.insert(from);
  }
  const Trial& store = storage_.trial;
  if (storage_.since_s && message.number == store.number &&
      now_s - store.asked_s <= kStoreTakesTimes * patience_s()) {
    storage_.able.insert(from);
    storage_.answered_s = storage_.answered_s.value_or(now_s);
  }
}

void LateWork::lost(PeerId peer) {
  const auto of_peer = [peer](const auto& late) { return late.first.first == peer; };
  std::erase_if(late_, of_peer);
  std::erase_if(told_, of_peer);
  if (tried_for_ == peer) tried_for_.reset();
}

std::string LateWork::what_hangs(PeerId peer, double now_s) const {
  std::string text;
  for (const Task task : {Task::job, Task::load, Task::storage}) {
    const auto found = late_.find({peer, task});
    if (found == late_.end()) continue;
    text += fmt::format("{}peer {}: {} ({:.0f} s)", text.empty() ? "" : ", ", peer.value,
                        found->second.what, now_s - found->second.since_s);
  }
  return text;
}

// ---- Jobs and loading

std::vector<std::vector<PeerId>> LateWork::helpers(const View& view, PeerId peer) const {
  std::vector<std::vector<PeerId>> by_stage;
  if (!plan_->recovers) return {};  // nobody can go
  for (const StageId stage : view.members().at(peer)) {
    std::vector<PeerId> others = view.replicas(stage);
    std::erase_if(others, [&](PeerId other) { return other == peer || works_not(other); });
    if (others.empty()) return {};
    by_stage.push_back(std::move(others));
  }
  return by_stage;
}

LateWork::Decision LateWork::decide(const View& view, Step committed, double now_s) {
  if (resigned_ && !may_give_up_the_next(view, committed, now_s)) return {};
  resigned_.reset();
  for (const auto& [key, late] : late_) {
    const auto& [peer, task] = key;
    if (task == Task::storage || !view.contains(peer)) continue;
    if (view.members().at(peer).empty()) continue;  // a learner: nobody waits for it for long
    if (tried_for_ && *tried_for_ != peer && works_not(*tried_for_)) continue;
    Decision decision = judge(peer, task, late, view, now_s);
    if (!decision.tries.empty() || decision.resigns || decision.end || tried_for_) return decision;
  }
  return {};
}

bool LateWork::may_give_up_the_next(const View& view, Step committed, double now_s) {
  const bool waited = now_s - resigned_->at_s > kBetweenTwoTimes * patience_s();
  // With its answer to a view it has heard before that it was to go: it had a reason to stay. Or it
  // works again, which it need not say in a new view.
  if (view.contains(resigned_->peer)) return resigned_->view_since || waited;
  if (!resigned_->committed) resigned_->committed = committed;
  return committed > *resigned_->committed || waited;
}

LateWork::Decision LateWork::judge(PeerId peer, Task task, const Late& late, const View& view,
                                   double now_s) {
  Decision decision;
  const std::vector<std::vector<PeerId>> by_stage = helpers(view, peer);
  const bool is_tried = tried_for_ == peer;
  const auto has_answered = [this](const std::vector<PeerId>& others) {
    return std::any_of(others.begin(), others.end(),
                       [this](PeerId other) { return trial_.answered.contains(other); });
  };
  const bool works =
      is_tried && !by_stage.empty() && std::all_of(by_stage.begin(), by_stage.end(), has_answered);
  const double waits_s = kAfterAllHaveHungTimes * patience_s();
  const bool all_hung_lately = all_hung_at_s_ && now_s - *all_hung_at_s_ < waits_s;
  if (works && !all_hung_lately) {
    tried_for_.reset();
    resigned_ = Resigned{peer, now_s, false, {}};
    decision.resigns = {peer, late.what};
    return decision;
  }
  const bool over = is_tried && now_s - trial_.asked_s > patience_s();
  // Where all are late at once, nobody can be asked.
  if (by_stage.empty() || (over && !works)) all_hung_at_s_ = now_s;
  if (!by_stage.empty() && (!is_tried || over)) {
    tried_for_ = peer;
    trial_ = {++last_number_, now_s, is_tried ? trial_.first_asked_s : now_s, {}};
    std::set<PeerId> asked;
    for (const std::vector<PeerId>& others : by_stage) asked.insert(others.begin(), others.end());
    for (const PeerId other : asked) {
      decision.tries.push_back({other, {trial_.number, Task::job}});
    }
  }
  if (by_stage.empty()) tried_for_.reset();
  // Long enough for whoever could help to show it. What loads was told once it hung for
  // storage_timeout_s: the others may have begun to load later.
  const bool loads = task == Task::load;
  const double most_s =
      loads ? 2 * plan_->storage_timeout_s : plan_->job_timeout_s + 2 * patience_s();
  const double waits_since_s = by_stage.empty() ? late.since_s : trial_.first_asked_s;
  if (now_s - waits_since_s > most_s) {
    decision.end =
        Status::stopped(fmt::format("peer {} hangs in {} for {:.0f} s, {}", peer.value, late.what,
                                    now_s - late.since_s, ending_words::kNobodyCanWork));
  }
  return decision;
}

// ---- The leader's own storage

std::optional<PeerId> LateWork::who_can_store(const View& view, double now_s) const {
  if (!storage_.answered_s || now_s - *storage_.answered_s < patience_s()) return std::nullopt;
  std::optional<PeerId> first;
  for (const PeerId able : storage_.able) {
    if (!view.contains(able)) continue;  // it has left since
    if (!first || view.order().comes_before(able, *first)) first = able;
  }
  return first;
}

std::vector<std::pair<PeerId, TryMessage>> LateWork::try_others(const View& view, PeerId self,
                                                                double now_s) {
  std::vector<std::pair<PeerId, TryMessage>> tries;
  if (storage_.since_s && now_s - storage_.trial.asked_s <= kStoreTakesTimes * patience_s()) {
    return tries;
  }
  storage_.since_s = storage_.since_s.value_or(now_s);
  storage_.trial = {++last_number_, now_s, now_s, {}};
  for (const auto& [peer, stages] : view.members()) {
    if (peer == self || view.order().abstains(peer)) continue;
    tries.push_back({peer, {storage_.trial.number, Task::storage}});
  }
  return tries;
}

}  // namespace swarmpi
