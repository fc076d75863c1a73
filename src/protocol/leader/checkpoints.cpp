#include "protocol/leader/checkpoints.hpp"

#include <fmt/core.h>

#include <set>

#include "protocol/ending_words.hpp"
#include "protocol/membership/failure_detector.hpp"
#include "protocol/messages/checkpoints.hpp"
#include "protocol/messages/stalls.hpp"
#include "protocol/messages/storage_port.hpp"

namespace swarmpi {

Checkpoints::Checkpoints(const RunPlan& plan, const View& view, RunHistory& history,
                         LeaderRecord& record, const LateWork& late,
                         const FailureDetector& failure_detector, Outbox& outbox,
                         const double& now_s)
    : plan_(plan),
      view_(view),
      history_(history),
      record_(record),
      late_(late),
      failure_detector_(failure_detector),
      outbox_(outbox),
      now_s_(now_s),
      interval_(plan, history.commit_log.state().time_s) {}

// ---- When one is owed

void Checkpoints::passed(Step step, double time_s) {
  history_.checkpoint_rounds.passed(step);
  if (interval_.due(step, time_s)) history_.checkpoint_rounds.owe();
}

bool Checkpoints::owed() const {
  // Nobody holds the state of an earlier step any more: a dead leader has committed the next.
  const CheckpointRounds& rounds = history_.checkpoint_rounds;
  return rounds.owed() && history_.agreement.agreed() == committed() &&
         !rounds.is_written(committed());
}

// ---- Who writes it

bool Checkpoints::ask(bool last) {
  const auto may = [this](PeerId peer, StageId stage) {
    return !history_.agreement.left_out(peer, stage);
  };
  const auto able = [&, unkillable = failure_detector_.unkillable()](PeerId peer, StageId) {
    return !late_.hangs(peer, Task::storage) && !unkillable.contains(peer);
  };
  // For the last checkpoint a disk that is slow may do, where all are. Any other is not worth what
  // the other stages would write for nothing.
  const auto asked = [&](PeerId peer, StageId stage) {
    return may(peer, stage) && (last || able(peer, stage));
  };
  if (const auto stage = history_.checkpoint_rounds.lacks_writer(committed(), view_, asked)) {
    drop(*stage,
         fmt::format("{} it was tried{}", ending_words::kNobodyCanWrite, who_hangs(*stage)));
    return false;
  }
  return send(history_.checkpoint_rounds.begin(
      history_.commit_log.state(), history_.agreement.hashes(), view_, may, able, now_s_));
}

bool Checkpoints::send(const CheckpointRounds::Orders& orders) {
  for (const auto& [peer, order] : orders) outbox_.send(peer, order);
  return !orders.empty();
}

void Checkpoints::drop(StageId stage, const std::string& why) {
  const std::string what = fmt::format("stage {} cannot be written: {}; {}", stage.value, why,
                                       history_.commit_log.last_good_checkpoint());
  history_.checkpoint_rounds.give_up(committed(), what);
  record_.store_stage_event(EventKind::dropped, stage, 0, "no checkpoint: " + what);
}

std::string Checkpoints::who_hangs(StageId stage) const {
  const std::set<PeerId> unkillable = failure_detector_.unkillable();
  std::string text;
  for (const PeerId peer : view_.replicas(stage)) {
    std::string what = late_.what_hangs(peer, now_s_);
    if (unkillable.contains(peer)) {
      what = fmt::format("peer {} does not answer, and nobody can kill it", peer.value);
    } else if (what.empty() && history_.checkpoint_rounds.left_out(peer, committed())) {
      what = fmt::format("peer {} was asked, and has not written it", peer.value);
    }
    if (!what.empty()) text += (text.empty() ? ": " : "; ") + what;
  }
  return text;
}

// ---- What becomes of it

Status Checkpoints::stored(const StageStoredMessage& message, PeerId from) {
  const Result<std::optional<StoreManifest>> manifest =
      history_.checkpoint_rounds.stored(message, from);
  if (!manifest.ok()) return manifest.status();
  if (manifest.value()) outbox_.act(*manifest.value());
  return {};
}

void Checkpoints::durable(const CheckpointDurable& checkpoint) {
  const std::optional<double> took_s = history_.checkpoint_rounds.durable(checkpoint.step, now_s_);
  if (!took_s) return;  // of an incarnation that was left
  if (checkpoint.step == committed()) last_took_s_ = *took_s;
  record_.store_event(EventKind::checkpoint, checkpoint.step.value, *took_s,
                      interval_.measured(*took_s));
  history_.commit_log.written(history_.commit_log.rows_written(), checkpoint.step);
}

void Checkpoints::dropped(const CheckpointDropped& checkpoint) {
  const Step step = checkpoint.step;
  const std::string good = history_.commit_log.last_good_checkpoint();
  const auto lost =
      history_.checkpoint_rounds.dropped(step, checkpoint.part, checkpoint.why + "; " + good);
  if (!lost) return;  // of an incarnation that was left
  record_.store(
      EventRow{record_.run_time_s(), step.value, EventKind::dropped, lost->writer.value,
               lost->stage.value, 0,
               fmt::format("checkpoint not completed: the part that peer {} has written of stage "
                           "{} is not there: {}: do all hosts share this folder? {}",
                           lost->writer.value, lost->stage.value, checkpoint.why, good)});
}

void Checkpoints::damaged(const CheckpointDamaged& checkpoint) {
  record_.store(EventRow{record_.run_time_s(), checkpoint.step.value, EventKind::dropped, -1, -1, 0,
                         "checkpoint set aside, an older one is taken: " + checkpoint.why});
}

}  // namespace swarmpi
