#include "swarm/server.hpp"

#include <algorithm>

#include "core/check.hpp"
#include "core/text.hpp"
#include "swarm/payload_size.hpp"
#include "swarm/rules.hpp"

namespace swarmpi {

Server::Server(PeerId self, const RunPlan& plan, const ResumeState& resume, Outbox& outbox)
    : self_(self),
      plan_(plan),
      outbox_(outbox),
      resumed_from_(resume.step),
      chronicle_(plan, resume) {}

void Server::set_now(double now_s) {
  if (!running_) (reducing() ? communication_s_ : idle_s_) += now_s - now_s_;
  now_s_ = now_s;
}

void Server::adopt(const View& view) {
  view_ = view;
  const auto stages_in = [&](const std::map<PeerId, std::set<StageId>>& roles) {
    const auto mine = roles.find(self_);
    return mine == roles.end() ? std::set<StageId>() : mine->second;
  };
  const std::set<StageId> serves = stages_in(view.members);
  const std::set<StageId> learns = stages_in(view.learners);
  std::set<StageId> all = serves;
  all.insert(learns.begin(), learns.end());
  drop_others(all);
  for (const StageId stage : serves) serve(stage);
  for (const StageId stage : learns) learn(stage);
}

void Server::serve(StageId stage) {
  const auto [place, is_new] = served_.try_emplace(stage);
  Served& state = place->second;
  if (is_new) {
    state.applied = resumed_from_;
    state.blocks = cut_into_blocks(plan_.elements_in(stage));
    if (restart_files_) to_load_.insert(stage);
    state.loading = restart_files_ && holds(Rule::loading_stages_rest);
  }
  if (const auto learned = std::exchange(state.learning, std::nullopt)) {
    hashes_.push_back({state.applied, stage, learned->hashes});
  }
  const StageId next = stage.next();
  if (next.value == plan_.stages()) return;
  std::unique_ptr<Router>& router = routers_[next];
  if (!router) router = make_router(plan_.swarm.wiring, plan_.swarm.seed, self_, next);
  router->set_peers(view_.choices(next));
}

Server::Served& Server::served(StageId stage) {
  const auto found = served_.find(stage);
  SWARMPI_CHECK(found != served_.end(), format("stage %d is served here", stage.value));
  return found->second;
}

Server::Accumulator& Server::accumulator(StageId stage, Step step) {
  const auto [place, fresh] = served(stage).accumulators.try_emplace(step);
  if (fresh) {
    place->second.microbatches = Bitmap(plan_.train_microbatches(step));
    place->second.tensors.resize(plan_.stage_tensors.at(stage.value).size());
  }
  return place->second;
}

bool Server::contributed(const WorkId& work) const {
  if (work.microbatch.purpose != Purpose::train) return false;
  const auto& accumulators = served_.at(work.stage).accumulators;
  const auto own = accumulators.find(work.microbatch.step);
  return own != accumulators.end() && own->second.microbatches.contains(work.microbatch.index);
}

// ---- A microbatch comes

void Server::receive(const IssueMessage& message, PeerId from) {
  if (has_left(StageId(0))) return;
  take_on({message.microbatch, StageId(0)}, {nullptr, from, message.sent_s, now_s_, message.path});
}

void Server::receive(const ForwardMessage& message, PeerId from) {
  if (has_left(message.work.stage)) return;
  // Whoever has left its stage had nothing of it in its table: this is on its way by another, too.
  const StageId before(message.work.stage.value - 1);
  if (holds(Rule::refuse_the_left) && !view_.serves(from, before)) return;
  if (from != self_) {
    served(message.work.stage).use.bytes_received += size_of(message.activations);
  }
  take_on(message.work, {message.activations, from, message.sent_s, now_s_, message.path});
}

// Without a path, what is known already was sent twice. With one, the microbatch is on its way
// again because of a death: it passes through peers that have done their part, who pass it on.
void Server::take_on(const WorkId& id, Arrival arrival) {
  if (id.microbatch.step <= chronicle_.committed()) return;
  const auto known = works_.find(id);
  if (known != works_.end() || contributed(id)) {
    if (!arrival.path) return;
    const bool twice = known != works_.end() && known->second.active() &&
                       known->second.arrival.path && known->second.arrival.from == arrival.from &&
                       arrival.path->planned_in == known->second.arrival.path->planned_in;
    if (twice) return;
  }
  Work& work = works_[id];
  // What an earlier plan has sent on its way may come later: the newer path counts.
  const PathRef path = work.arrival.path;
  const bool newer = !path || !arrival.path || path->planned_in < arrival.path->planned_in;
  work.arrival = std::move(arrival);
  if (!newer) work.arrival.path = path;
  // It may be on its way forward again, though its own part is done.
  const bool gives_gradient = work.awaits_gradient || work.backward_due;
  if (!gives_gradient && id.microbatch.purpose == Purpose::train) {
    if (contributed(id) && work.input_gradient) {
      send_back(id, work);
    } else if (in_last_stage(id)) {
      await_backward(id, work, nullptr);  // forward, loss and backward in one
    } else {
      work.awaits_gradient = true;
    }
  }
  pass_on(id, work);
}

void Server::pass_on(const WorkId& id, Work& work) {
  const bool training = id.microbatch.purpose == Purpose::train;
  if (training && in_last_stage(id)) return;
  const PathRef& path = work.arrival.path;
  if (training && path && path->last == id.stage) {
    const auto holder = path->holders.find(id.stage.next());
    if (!work.awaits_gradient || lost_way(id, work)) return;
    work.sent_to = holder->second;
    outbox_.send(holder->second, RedirectMessage{{id.microbatch, id.stage.next()}});
  } else if (work.output) {
    if (!lost_way(id, work)) send_output(id, work, work.output);
  } else if (!work.forward_due) {
    work.forward_due = true;
    forwards_.insert(id);
  }
}

bool Server::lost_way(const WorkId& id, const Work& work) const {
  if (in_last_stage(id)) return false;
  if (const PathRef& path = work.arrival.path) {
    const auto ahead = path->holders.upper_bound(id.stage);
    const auto gone = [this](const auto& holder) {
      return !view_.serves(holder.second, holder.first);
    };
    if (holds(Rule::live_paths) && std::any_of(ahead, path->holders.end(), gone)) return true;
    if (ahead != path->holders.end() && ahead->first == id.stage.next()) return false;
  }
  return view_.replicas(id.stage.next()).empty();
}

// Where it was sent before, if that peer lives: it must not be in two hands.
void Server::send_output(const WorkId& id, Work& work, const PayloadRef& output) {
  const WorkId onward{id.microbatch, id.stage.next()};
  const PathRef& path = work.arrival.path;
  const auto holder = path ? path->holders.find(onward.stage) : decltype(path->holders.end()){};
  PeerId to;
  if (path && holder != path->holders.end()) {
    to = holder->second;
  } else if (holds(Rule::one_hand) && work.sent_to && view_.serves(*work.sent_to, onward.stage)) {
    to = *work.sent_to;
  } else {
    to = routers_.at(onward.stage)->choose(id.microbatch);
  }
  work.sent_to = to;
  send_boundary(to, id.stage, output, ForwardMessage{onward, output, now_s_, path});
}

void Server::receive(const ForwardDone& message, PeerId from) {
  const auto router = routers_.find(message.work.stage);
  if (router != routers_.end()) router->second->measured(from, message.compute_s);
}

void Server::receive(const BackwardMessage& message, PeerId from) {
  const WorkId& id = message.work;
  if (has_left(id.stage)) return;
  if (from != self_) served(id.stage).use.bytes_received += size_of(message.gradient);
  const auto known = works_.find(id);
  if (known == works_.end()) return;
  if (holds(Rule::gradient_once) && !known->second.awaits_gradient) return;  // sent twice, or done
  await_backward(id, known->second, message.gradient);
}

void Server::await_backward(const WorkId& id, Work& work, const PayloadRef& output_gradient) {
  work.awaits_gradient = false;
  work.backward_due = true;
  backwards_.emplace(id, output_gradient);
}

bool Server::undeliverable(const WorkId& id, const Work& work) const {
  return id.stage.value > 0 && !view_.serves(work.arrival.from, StageId(id.stage.value - 1));
}

// What its receiver did not live to see is kept in any case: somebody else will ask for it.
void Server::send_back(const WorkId& id, Work& work) {
  if (id.stage.value == 0 || undeliverable(id, work)) return;
  const WorkId back{id.microbatch, StageId(id.stage.value - 1)};
  send_boundary(work.arrival.from, id.stage, work.input_gradient,
                BackwardMessage{back, work.input_gradient});
}

template <class Message>
void Server::send_boundary(PeerId to, StageId from_stage, const PayloadRef& payload,
                           Message message) {
  if (to != self_) served(from_stage).use.bytes_sent += size_of(payload);
  outbox_.send(to, std::move(message));
}

bool Server::keep(Work& work, const PayloadRef& payload) {
  const std::int64_t bytes = size_of(payload);
  if (!payload || kept_bytes_ + bytes > plan_.kept_bytes) return false;
  kept_bytes_ += bytes;
  work.kept_bytes += bytes;
  return true;
}

void Server::tidy(std::map<WorkId, Work>::iterator place) {
  Work& work = place->second;
  if (work.active()) return;
  work.arrival.input.reset();
  // Where a repaired microbatch was sent must not be forgotten: it may come by once more.
  const bool training = place->first.microbatch.purpose == Purpose::train;
  const bool repaired = work.arrival.path != nullptr;
  if (training && !repaired && !work.output && !work.input_gradient) works_.erase(place);
}

// ---- What the leader is told

void Server::flush_report() {
  if (report_.empty()) return;
  outbox_.send(view_.leader(), std::exchange(report_, {}));
}

std::set<PeerId> Server::awaited() const {
  std::set<PeerId> peers;
  for (const auto& [id, work] : works_) {
    // For what is validated, or only passed on again, it is the leader who waits.
    const bool passed_on = id.microbatch.purpose == Purpose::validate || work.arrival.path;
    if (work.sent_to && (work.awaits_gradient || passed_on)) peers.insert(*work.sent_to);
  }
  for (const auto& [stage, state] : served_) {
    for (const auto& [step, reduction] : state.reductions) {
      // What is complete here may still be owed to others.
      if (reduction.closed() || step <= chronicle_.committed()) continue;
      for (const PeerId peer : reduction.partners()) peers.insert(peer);
    }
    if (!state.learning) continue;
    for (const auto& [tensor, donor] : state.learning->asked) peers.insert(donor);
  }
  std::erase_if(peers, [this](PeerId peer) { return !alive(peer); });
  return peers;
}

std::string Server::left_over() const {
  const Step committed = chronicle_.committed();
  std::int64_t kept_bytes = 0;
  for (const auto& [id, work] : works_) {
    kept_bytes += work.kept_bytes;
    const bool training = id.microbatch.purpose == Purpose::train;
    if (training && id.microbatch.step <= committed) return "a microbatch of a committed step";
    if (has_left(id.stage)) return "a microbatch of a stage that was left";
  }
  if (kept_bytes != kept_bytes_) return "memory that counts as used";
  if (!losses_.empty() && losses_.begin()->first.step <= committed)
    return "the loss of a microbatch";
  if (!sealed_facts_.empty() && sealed_facts_.begin()->first <= committed) return "a step's facts";
  for (const auto& [learner, fetch] : fetches_) {
    if (has_left(fetch.stage)) return "a learner's question about a stage that was left";
  }
  for (const auto& [stage, state] : served_) {
    const auto is_old = [&](const auto& by_step) {
      return !by_step.empty() && by_step.begin()->first <= state.applied;
    };
    if (is_old(state.accumulators) || is_old(state.reductions) || is_old(state.reduced)) {
      return "sums of an applied step";
    }
  }
  return "";
}

std::string Server::activity() const {
  if (running_) return running_->what;
  for (const auto& [stage, state] : served_) {
    for (const auto& [step, reduction] : state.reductions) {
      if (reduction.closed()) continue;
      if (!reduction.complete()) return reduction.waiting_for();
      return format("the commit of step %lld", static_cast<long long>(step.value));
    }
  }
  return format("work (%zu microbatches here, %zu forward, %zu backward, %zu updates queued)",
                works_.size(), forwards_.size(), backwards_.size(), applications_.size());
}

}  // namespace swarmpi
