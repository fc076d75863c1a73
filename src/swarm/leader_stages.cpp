// Who serves what: spares and newcomers learn the stages that need them most, learners serve once
// their state is that of the others, and where a stage is lost with its last peer all go back to a
// checkpoint.

#include <algorithm>
#include <limits>

#include "core/check.hpp"
#include "core/text.hpp"
#include "swarm/leader.hpp"
#include "swarm/rules.hpp"

namespace swarmpi {

// ---- Learners

void Leader::receive(const JoinMessage& message, PeerId) {
  if (view_.members.contains(message.peer) || !plan_.recovers) return;
  if (end_told_) {
    outbox_.send(message.peer, EndMessage{ending_->code(), ending_->message()});
    outbox_.send(message.peer, LeaveMessage{});
  }
  if (ending_ || goes_back_ || stopping() || dismissed_.contains(message.peer)) return;
  view_.members[message.peer];
  if (called_.erase(message.peer) > 0) failed_calls_ = 0;
  store(EventRow{run_time_s(), committed().value, "join", message.peer.value, -1, 0, ""});
  publish_view();
  // It may be the last that lives one day: then it writes the rows that nobody has written.
  for (const auto& [step, record] : chronicle_.commits()) {
    if (!holds(Rule::tell_newcomers)) break;
    outbox_.send(message.peer,
                 CommitMessage{record, chronicle_.rows_written(), chronicle_.checkpointed()});
  }
}

void Leader::receive(const LearnedMessage& message, PeerId from) {
  if (learns(from, message.stage)) learned_[{from, message.stage}] = message;
}

std::int64_t Leader::wanted_workers() const {
  return workers_ + std::count_if(view_.members.begin(), view_.members.end(),
                                  [&](const auto& m) { return m.first > newest_at_start_; });
}

std::int64_t Leader::busy_peers() const {
  return std::count_if(view_.members.begin(), view_.members.end(), [&](const auto& member) {
    const bool idle = member.second.empty() && !view_.learners.contains(member.first);
    return !idle && !departing_.contains(member.first);
  });
}

std::vector<PeerId> Leader::staying(StageId stage) const {
  std::vector<PeerId> peers = view_.staying(stage);
  std::erase_if(peers, [this](PeerId peer) { return departing_.contains(peer); });
  return peers;
}

bool Leader::learns(PeerId peer, StageId stage) const {
  const auto learns = view_.learners.find(peer);
  return learns != view_.learners.end() && learns->second.contains(stage);
}

// The one whose peers have most to do; one that would be left without a peer before all others.
std::optional<StageId> Leader::neediest_stage() const {
  std::optional<StageId> neediest;
  double most = 0;
  for (std::int32_t s = 0; s < plan_.stages(); ++s) {
    const StageId stage(s);
    const std::size_t peers = staying(stage).size() + view_.learners_of(stage).size();
    const double load =
        peers == 0 ? std::numeric_limits<double>::infinity()
                   : plan_.stage_costs.at(static_cast<std::size_t>(s)) / static_cast<double>(peers);
    if (neediest && load <= most) continue;
    neediest = stage;
    most = load;
  }
  return neediest;
}

// Spares replace the dead; those that are left may be shadows, who learn for good.
void Leader::assign_learners() {
  if (!plan_.recovers || stopping() || !tables_awaited_.empty()) return;
  std::int64_t busy = busy_peers();
  bool changed = false;
  for (const auto& [peer, stages] : view_.members) {
    if (!stages.empty() || view_.learners.contains(peer)) continue;
    if (departing_.contains(peer) || rests(peer)) continue;
    if (busy >= wanted_workers() + plan_.swarm.shadows) break;
    ++busy;
    if (!awake(peer)) continue;
    view_.learners[peer] = {*neediest_stage()};
    changed = true;
  }
  if (changed) publish_view();
}

// A spare is called when it is needed, and takes its time.
bool Leader::awake(PeerId spare) {
  if (plan_.swarm.spare_delay_s <= 0 || spare > newest_at_start_) return true;
  return now_s_ >= wakes_at_s_.try_emplace(spare, now_s_ + plan_.swarm.spare_delay_s).first->second;
}

void Leader::promote_learned() {
  if (!tables_awaited_.empty() || agreed_ != committed()) return;
  std::vector<std::pair<PeerId, StageId>> ready, wrong;
  std::int64_t serving = serving_peers();
  for (const auto& [peer, stages] : view_.learners) {
    for (const StageId stage : stages) {
      const auto learned = learned_.find({peer, stage});
      if (learned == learned_.end()) continue;
      const bool of_last_step = learned->second.step == agreed_ && agreed_hashes_.contains(stage);
      if (of_last_step && learned->second.tensors != agreed_hashes_.at(stage)) {
        wrong.emplace_back(peer, stage);
        continue;
      }
      // Else it stays a shadow.
      const bool wanted =
          serving < wanted_workers() || staying(stage).empty() || !view_.members.at(peer).empty();
      if (!wanted || (holds(Rule::learners_agree) && !of_last_step)) continue;
      ready.emplace_back(peer, stage);
      if (view_.members.at(peer).empty()) ++serving;
    }
  }
  for (const auto& [peer, stage] : ready) promote(peer, stage);
  for (const auto& [peer, stage] : wrong) {
    drop_learner(peer, stage, "has learned another state than all had agreed on");
  }
  if (!ready.empty() || !wrong.empty()) publish_view();
}

void Leader::promote(PeerId peer, StageId stage) {
  view_.learners.at(peer).erase(stage);
  if (view_.learners.at(peer).empty()) view_.learners.erase(peer);
  view_.members.at(peer).insert(stage);
  learned_.erase({peer, stage});
  store(EventRow{run_time_s(), committed().value, "migrate", peer.value, stage.value, 0, ""});
}

// ---- Loss of a stage

bool Leader::mend_stages() {
  bool changed = false;
  for (const auto& [peer, table] : tables_) {
    if (table.incarnation.value != chronicle_.state().incarnation) {
      go_back();
      return false;
    }
  }
  for (std::int32_t s = 0; s < plan_.stages(); ++s) {
    const StageId stage(s);
    if (!view_.replicas(stage).empty()) continue;
    for (const auto& [peer, table] : tables_) {
      for (const LearnedMessage& learned : table.learned) {
        if (learned.stage != stage || learned.step < committed()) continue;
        const auto agreed = agreed_hashes_.find(stage);
        const bool known = learned.step == agreed_ && agreed != agreed_hashes_.end();
        if (known && learned.tensors != agreed->second) continue;
        promote(peer, stage);
        changed = true;
      }
    }
    if (view_.replicas(stage).empty()) {
      go_back();
      return false;
    }
  }
  if (changed) publish_view();
  return !changed;
}

void Leader::go_back() {
  goes_back_ = true;
  tables_awaited_.clear();
  outbox_.act(LoadManifest{});
}

void Leader::loaded(const ManifestLoaded& manifest) {
  if (ending_ || !goes_back_) return;
  goes_back_ = false;
  auto restart = std::make_shared<RestartPoint>();
  if (manifest.checkpoint) *restart = *manifest.checkpoint;
  std::int64_t newest = chronicle_.state().incarnation;
  for (const auto& [peer, table] : tables_) newest = std::max(newest, table.incarnation.value);
  restart->state.incarnation = newest + 1;
  chronicle_ = Chronicle(plan_, restart->state);
  restart_ = std::move(restart);
  view_ = deal_anew();
  open_.clear();
  unagreed_.clear();
  validations_.clear();
  checkpoints_.clear();
  rows_stored_.clear();
  agreed_hashes_.clear();
  learned_.clear();
  drained_after_.clear();
  early_.clear();
  next_to_open_ = committed().next();
  agreed_ = committed();
  last_checkpoint_ = committed();
  checkpoint_owed_ = false;
  store(EventRow{
      run_time_s(), committed().value, "incarnation", -1, -1, now_s_ - repair_since_s_,
      format("a stage was lost: on from step %lld", static_cast<long long>(committed().value))});
  outbox_.set_incarnation(Incarnation(chronicle_.state().incarnation));
  publish_view();
}

// As many serve as at the start, if there are as many.
View Leader::deal_anew() const {
  std::vector<PeerId> workers;
  std::vector<PeerId> spares;
  std::vector<PeerId> departing;  // they serve only if nobody else can
  for (const auto& [peer, stages] : view_.members) {
    const bool goes = departing_.contains(peer);
    (goes ? departing : stages.empty() ? spares : workers).push_back(peer);
  }
  if (workers.empty() && spares.empty()) workers = std::exchange(departing, {});
  while (!spares.empty() && static_cast<std::int64_t>(workers.size()) < wanted_workers()) {
    workers.push_back(spares.front());
    spares.erase(spares.begin());
  }
  spares.insert(spares.end(), departing.begin(), departing.end());
  View view = deal_peers(workers, spares, plan_.stage_costs);
  view.number = view_.number;
  return view;
}

}  // namespace swarmpi
