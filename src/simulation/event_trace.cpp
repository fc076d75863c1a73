#include "simulation/event_trace.hpp"

#include "core/overloaded.hpp"
#include "core/text.hpp"

namespace swarmpi {
namespace {

std::string name(const MicrobatchId& id) {
  return format("%s %d of step %lld", id.purpose == Purpose::train ? "microbatch" : "validation",
                id.index, static_cast<long long>(id.step.value));
}

std::string name(const WorkId& work) {
  return name(work.microbatch) + format(", stage %d", work.stage.value);
}

std::string name(Step step) { return format("step %lld", static_cast<long long>(step.value)); }

std::string name(Step step, StageId stage) {
  return name(step) + format(", stage %d", stage.value);
}

std::string name(const Status& status) {
  return format("status %d: ", static_cast<int>(status.code())) + status.message();
}

std::string name(const ViewNumber& number) {
  return format("%lld.%lld", static_cast<long long>(number.term.value),
                static_cast<long long>(number.number));
}

std::string name(const SealId& seal) {
  return format("seal %lld.%lld", static_cast<long long>(seal.term.value),
                static_cast<long long>(seal.number));
}

std::string name(const SealId& seal, StageId stage, std::int32_t chunk) {
  return name(seal) + format(", stage %d, chunk %d", stage.value, chunk);
}

std::string row(const StoreRecord& record) {
  if (const auto* step = std::get_if<StepRow>(&record.row))
    return ", row of " + name(Step(step->step));
  if (const auto* loss = std::get_if<ValidationRow>(&record.row)) {
    return ", validation of " + name(Step(loss->step));
  }
  if (const auto* event = std::get_if<EventRow>(&record.row)) return ", event " + event->kind;
  return "";
}

std::string along(const PathRef& path) {
  if (!path) return "";
  std::string text = "; path";
  for (const auto& [stage, peer] : path->holders) text += format(" %d:%d", stage.value, peer.value);
  return text + format(", last stage %d", path->last.value);
}

std::string members(const View& view) {
  std::string text;
  for (const auto& [peer, stages] : view.members()) {
    text += format("; peer %d:", peer.value);
    for (const StageId stage : stages) text += format(" %d", stage.value);
  }
  for (const auto& [peer, stages] : view.learners()) {
    text += format("; peer %d learns", peer.value);
    for (const StageId stage : stages) text += format(" %d", stage.value);
  }
  return text;
}

std::string stages(const SealMessage& seal) {
  std::string text = seal.skipped ? "; skipped" : "";
  for (const StageSeal& stage : seal.stages) {
    text += format("; stage %d ", stage.stage.value) + name(stage.seal);
    for (const SealShare& share : stage.shares) {
      text += format(" peer %d: ", share.peer.value) + share.microbatches.text();
    }
    if (!stage.finished_chunks.empty()) text += format(" %zu facts", stage.finished_chunks.size());
  }
  return text;
}

std::string rows(const TableMessage& table) {
  std::string text = "of view " + name(table.view);
  for (const CommitRef& commit : table.commits) text += "; committed " + name(commit->step);
  for (const StageRow& row : table.stages) {
    text += "; " + name(row.step, row.stage) + ": " + row.contributed.text();
    if (row.frozen) text += " frozen for " + name(*row.frozen);
    if (!row.chunks.empty()) text += format(" %zu chunks", row.chunks.size());
  }
  for (const WorkRow& row : table.works) {
    const char* phases[] = {"to forward", "passed on", "to backward", "over"};
    text += "; " + name(row.work) + " " + phases[static_cast<int>(row.phase)];
    if (row.sent_to) text += format(" to %d", row.sent_to->value);
    if (row.path_broken) text += " path broken";
  }
  return text;
}

std::string facts(const ReportMessage& report) {
  std::string text;
  for (const auto& c : report.contributions) text += "; " + name(c.work);
  for (const auto& l : report.losses) text += "; loss of " + name(l.microbatch);
  for (const auto& h : report.hashes) text += "; state after " + name(h.step, h.stage);
  return text.empty() ? "use" : text.substr(2);
}

std::string describe(const JobResult& result) {
  return std::visit(
      Overloaded{
          [](const ForwardResult& r) { return "forward: " + name(r.work); },
          [](const BackwardResult& r) { return "backward: " + name(r.work); },
          [](const ShareResult& r) { return "share: " + name(r.seal, r.stage, r.chunk); },
          [](const ReduceResult& r) { return "reduce: " + name(r.seal, r.stage, r.chunk); },
          [](const PlaceResult& r) { return "place: " + name(r.seal, r.stage, r.chunk); },
          [](const GatherResult& r) { return "gather: " + name(r.seal, r.stage, r.chunk); },
          [](const ApplyResult& r) { return "apply: " + name(r.step, r.stage); },
          [](const PrepareResult& r) { return format("prepare: stage %d", r.stage.value); },
          [](const ReadResult& r) {
            return format("read: stage %d, tensor %d", r.stage.value, r.tensor);
          },
          [](const WriteResult& r) {
            return format("write: stage %d, tensor %d", r.stage.value, r.tensor);
          },
          [](const DropResult& r) { return format("drop: stage %d", r.stage.value); },
      },
      result);
}

// Heartbeats and timers, which would hide all else.
bool is_sign_of_life(const Event& event) {
  const auto* arrived = std::get_if<MessageArrived>(&event);
  return std::holds_alternative<TimerDue>(event) ||
         (arrived != nullptr && std::holds_alternative<HeartbeatMessage>(arrived->message.body));
}

bool is_sign_of_life(const Action& action) {
  const auto* send = std::get_if<Send>(&action);
  return std::holds_alternative<SetTimer>(action) ||
         (send != nullptr && std::holds_alternative<HeartbeatMessage>(send->message.body));
}

}  // namespace

std::string describe(const Message& message) {
  return std::visit(
      Overloaded{
          [](const ViewMessage& m) { return "view " + name(m.view->number) + members(*m.view); },
          [](const InquiryMessage& m) {
            return format("inquiry: term %lld", static_cast<long long>(m.term.value));
          },
          [](const InquiryAnswer& m) { return "answer: view " + name(m.view->number); },
          [](const IssueMessage& m) { return "issue: " + name(m.microbatch) + along(m.path); },
          [](const ForwardMessage& m) { return "forward: " + name(m.work) + along(m.path); },
          [](const ResendMessage& m) { return "resend: " + name(m.work) + along(m.path); },
          [](const UnableMessage& m) { return "unable: " + name(m.work); },
          [](const RedirectMessage& m) { return "redirect: " + name(m.work); },
          [](const ForwardDone& m) { return "forward done: " + name(m.work); },
          [](const BackwardMessage& m) { return "backward: " + name(m.work); },
          [](const ReportMessage& m) { return "report: " + facts(m); },
          [](const SealMessage& m) { return "seal: " + name(m.step) + stages(m); },
          [](const ReopenMessage& m) { return "reopen: " + name(m.step, m.stage); },
          [](const SealRefused& m) {
            return "refused: " + name(m.seal) + ", " + name(m.step, m.stage) + " carries " +
                   m.carried.text();
          },
          [](const ShareMessage& m) { return "share: " + name(m.seal, m.stage, m.chunk); },
          [](const ChunkMessage& m) { return "chunk: " + name(m.seal, m.stage, m.chunk); },
          [](const ReducedMessage& m) { return "reduced: " + name(m.step, m.stage); },
          [](const CommitMessage& m) {
            return "commit: " + name(m.record->step) + "; written: " + name(m.written);
          },
          [](const TableMessage& m) { return "table: " + rows(m); },
          [](const FetchMessage& m) {
            return format("fetch: stage %d, tensor %d", m.stage.value, m.tensor);
          },
          [](const TensorMessage& m) {
            return "tensor: " + name(m.step, m.stage) + format(", tensor %d", m.tensor);
          },
          [](const LearnedMessage& m) { return "learned: " + name(m.step, m.stage); },
          [](const JoinMessage& m) { return format("join: peer %d", m.peer.value); },
          [](const CheckpointMessage& m) { return "checkpoint: " + name(m.step, m.stage); },
          [](const StageStoredMessage& m) {
            return (m.stored ? "stored: " : "not stored: ") + name(m.step, m.stage);
          },
          [](const NoticeMessage& m) { return "notice: " + m.why; },
          [](const FailureMessage& m) { return "failure: " + m.why; },
          [](const LostMessage& m) {
            return format("%s: peer %d", m.left ? "left" : "lost", m.peer.value);
          },
          [](const HeartbeatMessage&) { return std::string("heartbeat"); },
          [](const PingMessage& m) { return format("ping: sent at %.6f s", m.sent_s); },
          [](const PongMessage& m) { return format("pong: to the ping of %.6f s", m.sent_s); },
          [](const SuspectMessage& m) { return format("suspect: peer %d", m.peer.value); },
          [](const ReleaseMessage&) { return std::string("release"); },
          [](const FencedMessage&) { return std::string("fenced"); },
          [](const EndMessage& m) {
            return format("end: status %d %s", static_cast<int>(m.code), m.why.c_str());
          },
          [](const EndHeard&) { return std::string("end heard"); },
          [](const ExitMessage&) { return std::string("exit"); },
      },
      message.body);
}

std::string describe(const Job& job) {
  return std::visit(
      Overloaded{
          [](const ForwardJob& j) { return "forward: " + name(j.work); },
          [](const BackwardJob& j) {
            return "backward: " + name(j.work) + (j.add ? "" : ", adds nothing");
          },
          [](const ShareJob& j) { return "share: " + name(j.seal, j.stage, j.chunk); },
          [](const ReduceJob& j) { return "reduce: " + name(j.seal, j.stage, j.chunk); },
          [](const PlaceJob& j) { return "place: " + name(j.seal, j.stage, j.chunk); },
          [](const GatherJob& j) { return "gather: " + name(j.seal, j.stage, j.chunk); },
          [](const ApplyJob& j) { return "apply: " + name(j.record->step, j.stage); },
          [](const PrepareJob& j) { return "prepare: " + name(j.step, j.stage); },
          [](const ReadJob& j) {
            return format("read: stage %d, tensor %d", j.stage.value, j.tensor);
          },
          [](const WriteJob& j) {
            return "write: " + name(j.step, j.stage) + format(", tensor %d", j.tensor);
          },
          [](const DropJob& j) { return format("drop: stage %d", j.stage.value); },
      },
      job);
}

void EventTrace::line(double now_s, PeerId peer, const char* sign, const char* what,
                      const std::string& about) {
  std::fprintf(out_, "%14.9f  peer %3d %s %-12s %s\n", now_s, peer.value, sign, what,
               about.c_str());
}

void EventTrace::happened(double now_s, PeerId peer, const Event& event) {
  if (is_sign_of_life(event)) return;
  const auto say = [&](const char* what, const std::string& about) {
    line(now_s, peer, "<", what, about);
  };
  std::visit(Overloaded{
                 [&](const Started&) { say("started", ""); },
                 [&](const MessageArrived& e) {
                   say(format("from %d", e.from.value).c_str(), describe(e.message));
                 },
                 [&](const JobFinished& e) { say("finished", describe(e.result)); },
                 [&](const PeerLost& e) { say("lost", format("peer %d", e.peer.value)); },
                 [&](const PeerSpawned& e) { say("spawned", format("peer %d", e.peer.value)); },
                 [&](const SpawnFailed& e) { say("not spawned", e.why); },
                 [&](const KillFailed& e) { say("not killed", format("peer %d", e.peer.value)); },
                 [&](const TermCreated& e) {
                   say("term", format("%lld", static_cast<long long>(e.term.value)) +
                                   (e.created ? " created" : " exists"));
                 },
                 [&](const RecordDurable& e) {
                   say("durable", format("record %lld", static_cast<long long>(e.number)));
                 },
                 [&](const StageStored& e) { say("stored", name(e.step, e.stage)); },
                 [&](const CheckpointDurable& e) { say("checkpoint", name(e.step)); },
                 [&](const ManifestLoaded& e) {
                   say("manifest", e.checkpoint ? name(Step(e.checkpoint->state.step)) : "none");
                 },
                 [&](const StageLoaded& e) { say("loaded", format("stage %d", e.stage.value)); },
                 [&](const StorageFailed& e) { say("no storage", name(e.status)); },
                 [&](const EndDurable&) { say("ended", ""); },
                 [&](const TermOver& e) {
                   say("term over",
                       format("%lld, the newest is %lld", static_cast<long long>(e.term.value),
                              static_cast<long long>(e.newest.value)));
                 },
                 [&](const StopRequested& e) { say("stop", e.why); },
                 [&](const TimerDue&) { say("timer", ""); },
             },
             event);
}

void EventTrace::died(double now_s, PeerId peer) { line(now_s, peer, "x", "dies", ""); }

void EventTrace::asked(double now_s, PeerId peer, const Action& action) {
  if (is_sign_of_life(action)) return;
  const auto say = [&](const char* what, const std::string& about) {
    line(now_s, peer, ">", what, about);
  };
  std::visit(
      Overloaded{
          [&](const Send& a) { say(format("to %d", a.to.value).c_str(), describe(a.message)); },
          [&](const StartJob& a) { say("start", describe(a.job)); },
          [&](const KillPeer& a) { say("kill", format("peer %d", a.peer.value)); },
          [&](const SpawnPeer&) { say("spawn", ""); },
          [&](const CreateTerm& a) {
            say("create term", format("%lld", static_cast<long long>(a.term.value)));
          },
          [&](const StoreRecord& a) {
            say("store", format("record %lld", static_cast<long long>(a.number)) + row(a));
          },
          [&](const StoreStage& a) { say("store", name(a.step, a.stage)); },
          [&](const StoreManifest& a) { say("store", "manifest of " + name(Step(a.state.step))); },
          [&](const LoadManifest&) { say("load", "manifest"); },
          [&](const LoadStage& a) { say("load", name(a.step, a.stage)); },
          [&](const StoreEnd& a) {
            say("store", format("end with status %d", static_cast<int>(a.code)));
          },
          [&](const SetTimer& a) { say("timer", format("%.9f", a.due_s)); },
          [&](const Finish& a) { say("finish", name(a.status)); },
      },
      action);
}

}  // namespace swarmpi
