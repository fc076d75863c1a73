#include "protocol/leader/leader_record.hpp"

#include <algorithm>
#include <utility>

#include "protocol/membership/failure_detector.hpp"
#include "protocol/messages/record_port.hpp"

namespace swarmpi {

LeaderRecord::LeaderRecord(PeerId self, const RunPlan& plan, const CommitLog& commit_log,
                           Outbox& outbox, Term run, double run_time_ahead_s, const double& now_s)
    : self_(self),
      plan_(plan),
      commit_log_(commit_log),
      outbox_(outbox),
      now_s_(now_s),
      run_time_ahead_s_(run_time_ahead_s),
      rows_(plan, commit_log.state().time_s),
      lives_(run) {
  const auto& faults = plan_.faults_by_clock;
  const double last_s = commit_log.state().time_s;  // none was made known since
  while (next_fault_ < faults.size() && faults[next_fault_].time_s < last_s) ++next_fault_;
}

void LeaderRecord::go_on_from(double run_time_s) {
  run_time_ahead_s_ = std::max(run_time_ahead_s_, run_time_s - now_s_);
  rows_.go_on_from(run_time_s);
}

void LeaderRecord::store(RunRows::Row row) {
  outbox_.act(rows_.numbered(std::move(row), lives_.take()));
}

// ---- Steps

void LeaderRecord::store_step(const AgreedStep& agreed, const View& view) {
  for (RunRows::Row& row : rows_.of(agreed, commit_log_.state().incarnation, view)) {
    store(std::move(row));
  }
  store_event(EventKind::commit, agreed.record->step.value, agreed.seal_to_commit_s, "");
}

void LeaderRecord::add_validation(Step step, double loss) {
  rows_.add_validation(step, {plan_.validated_step(step), loss, run_time_s()});
}

void LeaderRecord::store_validations(Step agreed, std::optional<Step> oldest_open) {
  for (const ValidationRow& row : rows_.take_validations(agreed, oldest_open)) store(row);
}

// ---- Events

void LeaderRecord::store_event(EventKind kind, std::int64_t step, double cost_s,
                               std::string detail) {
  store(EventRow{run_time_s(), step, kind, self_.value, -1, cost_s, std::move(detail)});
}

void LeaderRecord::store_peer_event(EventKind kind, PeerId peer, std::optional<StageId> stage,
                                    std::string detail) {
  store(EventRow{run_time_s(), committed().value, kind, peer.value, stage ? stage->value : -1, 0,
                 std::move(detail)});
}

void LeaderRecord::store_stage_event(EventKind kind, std::optional<StageId> stage, double cost_s,
                                     std::string detail) {
  store(EventRow{run_time_s(), committed().value, kind, -1, stage ? stage->value : -1, cost_s,
                 std::move(detail)});
}

void LeaderRecord::store_death(PeerId peer, const std::string& how,
                               const std::optional<Suspicion>& suspicion) {
  if (!suspicion) return store_peer_event(EventKind::kill, peer, {}, how);
  store(EventRow{run_time_s(), committed().value, EventKind::suspect, peer.value, -1,
                 suspicion->silent_s, suspicion->why});
  store_peer_event(EventKind::kill, peer, {}, how + "; it was killed because " + suspicion->why);
}

// Of faults that are no deaths only the trace tells.
void LeaderRecord::store_faults() {
  while (next_fault_ < plan_.faults_by_clock.size()) {
    const TraceEvent& fault = plan_.faults_by_clock[next_fault_];
    if (fault.time_s > run_time_s()) return;
    ++next_fault_;
    if (const auto kind = value_named<EventKind>(name_of(fault.event))) {
      store(EventRow{fault.time_s, committed().value, *kind, fault.peer, -1, 0,
                     "faults.trace in the deck"});
    }
  }
}

// ---- Lives

void LeaderRecord::end_life(PeerId peer, double GoodputRow::*column, double checkpoint_s) {
  lives_.end(peer, column, now_s_, committed(), commit_log_.state().incarnation, checkpoint_s);
}

}  // namespace swarmpi
