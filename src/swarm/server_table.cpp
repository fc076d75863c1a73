// A server's part in repairs: what it tells of itself, and what it is asked to send once more.

#include "swarm/server.hpp"

namespace swarmpi {

Phase Server::Work::phase() const {
  if (backward_due) return Phase::to_backward;
  if (forward_due) return Phase::to_forward;
  return awaits_gradient ? Phase::passed_on : Phase::over;
}

TableMessage Server::table() const {
  TableMessage table;
  table.view = view_.number;
  table.incarnation = Incarnation(chronicle_.state().incarnation);
  for (const auto& [step, record] : chronicle_.commits()) table.commits.push_back(record);
  table.written = chronicle_.rows_written();
  table.checkpointed = chronicle_.checkpointed();
  table.hashes = hashes_;
  for (const auto& [microbatch, nats] : losses_) table.losses.push_back({microbatch, nats});
  for (const auto& [step, facts] : sealed_facts_) table.facts.push_back({step, facts});
  for (const auto& [stage, state] : served_) {
    for (const auto& [step, own] : state.accumulators) {
      if (step > chronicle_.committed()) table.stages.push_back(stage_row(stage, step, state));
    }
    if (state.learning && state.learning->complete()) {
      table.learned.push_back({stage, within_reach(state), {}});
    }
    for (const auto& [step, reduced] : state.reduced) {
      if (step > chronicle_.committed()) table.reduced.push_back(reduced);
    }
  }
  for (const auto& [id, work] : works_) {
    WorkRow& row = table.works.emplace_back();
    row.work = id;
    row.phase = work.phase();
    row.sent_to = work.sent_to;
    if (const PathRef& path = work.arrival.path) {
      row.planned_in = path->planned_in;
      row.last = path->last;
    }
    row.lost_way = lost_way(id, work);
    row.keeps_output = work.output != nullptr;
    row.gives_gradient = work.awaits_gradient || work.backward_due || work.input_gradient;
  }
  return table;
}

StageRow Server::stage_row(StageId stage, Step step, const Served& state) const {
  const Accumulator& own = state.accumulators.at(step);
  StageRow row{step, stage, own.microbatches, own.tensors, own.frozen, 0, {}};
  const auto reduction = state.reductions.find(step);
  if (reduction != state.reductions.end()) {
    row.cut_for = reduction->second.cut_for();
    row.chunks = reduction->second.chunks_in_place();
  }
  return row;
}

void Server::receive(const ResendMessage& message, PeerId from) {
  const WorkId& id = message.work;
  if (id.microbatch.step <= chronicle_.committed()) return;
  const auto known = works_.find(id);
  if (known == works_.end() || (!known->second.active() && !known->second.output)) {
    return outbox_.send(from, UnableMessage{id});
  }
  Work& work = known->second;
  work.arrival.path = message.path;
  pass_on(id, work);
}

void Server::receive(const RedirectMessage& message, PeerId from) {
  const WorkId& id = message.work;
  if (id.microbatch.step <= chronicle_.committed()) return;
  const auto known = works_.find(id);
  const bool coming =
      known != works_.end() && (known->second.awaits_gradient || known->second.backward_due);
  if (!coming && (known == works_.end() || !known->second.input_gradient)) {
    return outbox_.send(view_.leader(), UnableMessage{id});
  }
  known->second.arrival.from = from;
  if (!coming) send_back(id, known->second);
}

}  // namespace swarmpi
