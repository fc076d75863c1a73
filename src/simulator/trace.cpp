#include "simulator/trace.hpp"

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

std::string name(const SealId& seal, StageId stage, std::int32_t chunk) {
  return format("seal %lld.%lld, stage %d, chunk %d", static_cast<long long>(seal.term.value),
                static_cast<long long>(seal.number), stage.value, chunk);
}

std::string name(const Status& status) {
  return format("status %d: ", static_cast<int>(status.code())) + status.message();
}

std::string shares(const SealMessage& seal) {
  std::string text;
  for (const SealShare& share : seal.shares) {
    text += format("; stage %d peer %d: ", share.stage.value, share.peer.value) +
            share.microbatches.text();
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
          [](const ApplyResult& r) { return "apply: " + name(r.step, r.stage); },
      },
      result);
}

}  // namespace

std::string describe(const Message& message) {
  return std::visit(
      Overloaded{
          [](const ViewMessage& m) {
            return format("view %lld.%lld", static_cast<long long>(m.view.number.term.value),
                          static_cast<long long>(m.view.number.number));
          },
          [](const IssueMessage& m) { return "issue: " + name(m.microbatch); },
          [](const ForwardMessage& m) { return "forward: " + name(m.work); },
          [](const ForwardDone& m) { return "forward done: " + name(m.work); },
          [](const BackwardMessage& m) { return "backward: " + name(m.work); },
          [](const ReportMessage& m) { return "report: " + facts(m); },
          [](const SealMessage& m) { return "seal: " + name(m.step) + shares(m); },
          [](const SealAnswer& m) {
            return format("%s: stage %d", m.frozen ? "frozen" : "refused", m.stage.value);
          },
          [](const ShareMessage& m) { return "share: " + name(m.seal, m.stage, m.chunk); },
          [](const ChunkMessage& m) { return "chunk: " + name(m.seal, m.stage, m.chunk); },
          [](const ReducedMessage& m) { return format("reduced: stage %d", m.stage.value); },
          [](const CommitMessage& m) { return "commit: " + name(m.record->step); },
          [](const CheckpointMessage& m) { return "checkpoint: " + name(m.step, m.stage); },
          [](const StageStoredMessage& m) { return "stored: " + name(m.step, m.stage); },
          [](const NoticeMessage& m) { return "notice: " + m.why; },
          [](const FailureMessage& m) { return "failure: " + m.why; },
          [](const HeartbeatMessage&) { return std::string("alive"); },
          [](const EndMessage& m) {
            return format("end: status %d %s", static_cast<int>(m.code), m.why.c_str());
          },
          [](const EndHeard&) { return std::string("end heard"); },
      },
      message.body);
}

std::string describe(const Job& job) {
  return std::visit(
      Overloaded{
          [](const ForwardJob& j) { return "forward: " + name(j.work); },
          [](const BackwardJob& j) { return "backward: " + name(j.work); },
          [](const ShareJob& j) { return "share: " + name(j.seal, j.stage, j.chunk); },
          [](const ReduceJob& j) { return "reduce: " + name(j.seal, j.stage, j.chunk); },
          [](const PlaceJob& j) { return "place: " + name(j.seal, j.stage, j.chunk); },
          [](const ApplyJob& j) { return "apply: " + name(j.record->step, j.stage); },
      },
      job);
}

void Trace::line(double now_s, PeerId peer, const char* sign, const char* what,
                 const std::string& about) {
  std::fprintf(out_, "%14.9f  peer %3d %s %-12s %s\n", now_s, peer.value, sign, what,
               about.c_str());
}

void Trace::happened(double now_s, PeerId peer, const Event& event) {
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
                 [&](const TermCreated& e) { say("term", e.created ? "created" : "exists"); },
                 [&](const RecordDurable& e) {
                   say("durable", format("record %lld", static_cast<long long>(e.number)));
                 },
                 [&](const StageStored& e) { say("stored", name(e.step, e.stage)); },
                 [&](const CheckpointDurable& e) { say("checkpoint", name(e.step)); },
                 [&](const StorageFailed& e) { say("no storage", name(e.status)); },
                 [&](const CompletionDurable&) { say("complete", ""); },
                 [&](const StopRequested& e) { say("stop", e.why); },
                 [&](const TimerDue&) { say("timer", ""); },
             },
             event);
}

void Trace::asked(double now_s, PeerId peer, const Action& action) {
  const auto say = [&](const char* what, const std::string& about) {
    line(now_s, peer, ">", what, about);
  };
  std::visit(
      Overloaded{
          [&](const Send& a) { say(format("to %d", a.to.value).c_str(), describe(a.message)); },
          [&](const StartJob& a) { say("start", describe(a.job)); },
          [&](const CreateTerm&) { say("create term", ""); },
          [&](const StoreRecord& a) {
            say("store", format("record %lld", static_cast<long long>(a.number)));
          },
          [&](const StoreStage& a) { say("store", name(a.step, a.stage)); },
          [&](const StoreManifest& a) { say("store", "manifest of " + name(Step(a.state.step))); },
          [&](const StoreCompletion&) { say("store", "completion"); },
          [&](const SetTimer& a) { say("timer", format("%.9f", a.due_s)); },
          [&](const Finish& a) { say("finish", name(a.status)); },
      },
      action);
}

}  // namespace swarmpi
