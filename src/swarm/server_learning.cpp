// How a server comes by a stage that it has not served from the start: it copies the state tensor
// by tensor from the replicas while training goes on, or loads it from a checkpoint with all
// others.

#include <algorithm>

#include "core/check.hpp"
#include "swarm/payload_size.hpp"
#include "swarm/rules.hpp"
#include "swarm/server.hpp"

namespace swarmpi {
namespace {

// Tensors that a learner asks for at a time.
constexpr std::size_t kFetchesAtOnce = 4;

}  // namespace

// ---- Learning

void Server::learn(StageId stage) {
  const auto [place, is_new] = served_.try_emplace(stage);
  Served& state = place->second;
  if (is_new) {
    state.blocks = cut_into_blocks(plan_.elements_in(stage));
    begin_to_learn(stage, state);
  }
  SWARMPI_CHECK(state.learning, "what is served is not learned");
  std::erase_if(state.learning->asked,
                [&](const auto& asked) { return !view_.serves(asked.second, stage); });
  fetch(stage, state);
}

void Server::begin_to_learn(StageId stage, Served& state) {
  state.applied = chronicle_.committed();
  Learning& learning = state.learning.emplace();
  learning.here.resize(plan_.stage_tensors.at(stage.value).size());
  learning.hashes.resize(learning.here.size());
}

// A new leader may remember no commit between those that this peer has heard of and the last one.
void Server::learn_from_here() {
  if (running_) running_->void_by_now = true;
  applications_.clear();
  const Step committed = chronicle_.committed();
  for (auto& [stage, state] : served_) {
    SWARMPI_CHECK(state.learning, "whoever serves a stage hears of every commit");
    forget_steps(committed, state);
    begin_to_learn(stage, state);
  }
}

// Each learner begins with another replica, and goes round.
void Server::fetch(StageId stage, Served& state) {
  Learning& learning = *state.learning;
  const std::vector<PeerId> donors = view_.replicas(stage);
  if (donors.empty() || learning.room != Learning::Room::ready) return;
  for (std::size_t t = 0; t < learning.here.size(); ++t) {
    const auto tensor = static_cast<std::int32_t>(t);
    if (learning.asked.size() >= kFetchesAtOnce) return;
    if (learning.here[t] || learning.asked.contains(tensor) || learning.to_write.contains(tensor)) {
      continue;
    }
    const auto turn = static_cast<std::size_t>(self_.value) + t;
    const PeerId donor = donors[turn % donors.size()];
    learning.asked[tensor] = donor;
    outbox_.send(donor, FetchMessage{stage, tensor, state.applied});
  }
}

void Server::receive(const FetchMessage& message, PeerId from) {
  if (served_.contains(message.stage)) fetches_.emplace_back(from, message);
}

void Server::receive(const TensorMessage& message, PeerId) {
  const auto found = served_.find(message.stage);
  if (found == served_.end() || !found->second.learning) return;
  Served& state = found->second;
  state.learning->asked.erase(message.tensor);
  // One that is older than the updates that were applied here is of no use.
  if (message.step >= state.applied) state.learning->to_write[message.tensor] = message;
  fetch(message.stage, state);
}

// What comes to a learner goes in before the next update, so that it takes part.
std::optional<Job> Server::next_learning_job() {
  for (auto& [stage, state] : served_) {
    if (!state.learning) continue;
    Learning& learning = *state.learning;
    if (learning.room == Learning::Room::none) {
      if (being_written_.contains(stage) || to_be_dropped(stage)) continue;
      learning.room = Learning::Room::being_made;
      return PrepareJob{stage, state.applied};
    }
    for (const auto& [tensor, message] : learning.to_write) {
      if (holds(Rule::tensors_of_one_step) && message.step != state.applied) continue;
      return WriteJob{stage, tensor, message.step, message.state};
    }
  }
  for (auto it = fetches_.begin(); it != fetches_.end(); ++it) {
    const auto& [learner, fetch] = *it;
    const auto state = served_.find(fetch.stage);
    if (state == served_.end() || state->second.loading) continue;
    if (state->second.learning || state->second.applied < fetch.at_least) continue;
    reading_ = Reading{learner, state->second.applied};
    const ReadJob job{fetch.stage, fetch.tensor};
    fetches_.erase(it);
    return job;
  }
  return std::nullopt;
}

void Server::handle(const PrepareResult& result, double) {
  Served& state = served(result.stage);
  if (!state.learning) return;
  state.learning->room = Learning::Room::ready;
  fetch(result.stage, state);
}

void Server::handle(const ReadResult& result, double) {
  const Reading read = *std::exchange(reading_, std::nullopt);
  if (!alive(read.learner)) return;
  if (read.learner != self_) served(result.stage).use.bytes_sent += size_of(result.state);
  outbox_.send(read.learner, TensorMessage{result.stage, result.tensor, read.step, result.state});
}

void Server::handle(const WriteResult& result, double) {
  Served& state = served(result.stage);
  if (!state.learning) return;
  Learning& learning = *state.learning;
  learning.to_write.erase(result.tensor);
  learning.here[static_cast<std::size_t>(result.tensor)] = true;
  learning.hashes[static_cast<std::size_t>(result.tensor)] = result.hash;
  fetch(result.stage, state);
  tell_learned(result.stage, state);
}

void Server::tell_learned(StageId stage, const Served& state) {
  if (!state.learning->complete()) return;
  outbox_.send(view_.leader(), LearnedMessage{stage, state.applied, state.learning->hashes});
}

// The step up to which this peer can apply updates without asking anybody.
Step Server::within_reach(const Served& state) const {
  Step step = state.applied;
  while (state.reduced.contains(step.next())) step = step.next();
  return step;
}

// ---- Leaving and beginning again

void Server::drop_others(const std::set<StageId>& stages) {
  for (const StageId stage : std::exchange(left_behind_, {})) {
    if (!stages.contains(stage)) drops_.push_back({stage});
  }
  for (auto it = served_.begin(); it != served_.end();) {
    const StageId stage = it->first;
    if (stages.contains(stage)) {
      ++it;
      continue;
    }
    drops_.push_back({stage});
    if (running_ && running_->stage == stage) running_->void_by_now = true;
    std::erase_if(applications_, [&](const ApplyJob& job) { return job.stage == stage; });
    for (auto work = works_.begin(); work != works_.end();) {
      if (work->first.stage != stage) {
        ++work;
        continue;
      }
      kept_bytes_ -= work->second.kept_bytes;
      forwards_.erase(work->first);
      backwards_.erase(work->first);
      work = works_.erase(work);
    }
    it = served_.erase(it);
  }
  std::erase_if(fetches_, [this](const auto& row) { return has_left(row.second.stage); });
}

void Server::restart(const RestartPoint& checkpoint) {
  if (running_) running_->void_by_now = true;
  for (const auto& [stage, state] : served_) left_behind_.insert(stage);
  served_.clear();
  works_.clear();
  forwards_.clear();
  backwards_.clear();
  kept_bytes_ = 0;
  applications_.clear();
  to_load_.clear();
  fetches_.clear();
  report_ = {};
  losses_.clear();
  sealed_facts_.clear();
  hashes_.clear();
  chronicle_ = Chronicle(plan_, checkpoint.state);
  resumed_from_ = Step(checkpoint.state.step);
  restart_files_ = checkpoint.files;
}

bool Server::to_be_dropped(StageId stage) const {
  return std::any_of(drops_.begin(), drops_.end(),
                     [stage](const DropJob& drop) { return drop.stage == stage; });
}

// Only once nothing runs or is written: what is loaded takes the place of what that is about.
void Server::start_loading() {
  for (auto it = to_load_.begin(); it != to_load_.end();) {
    if (being_written_.contains(*it) || to_be_dropped(*it)) {
      ++it;
      continue;
    }
    outbox_.act(LoadStage{Incarnation(chronicle_.state().incarnation), *it, resumed_from_,
                          *restart_files_});
    ++loads_;
    it = to_load_.erase(it);
  }
}

void Server::loaded(const StageLoaded& message) {
  --loads_;
  if (message.incarnation.value != chronicle_.state().incarnation) return;
  if (const auto state = served_.find(message.stage); state != served_.end()) {
    state->second.loading = false;
  }
}

}  // namespace swarmpi
