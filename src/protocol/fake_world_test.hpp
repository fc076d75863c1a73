#pragma once
// One peer alone: compute, storage and delivery answer in an order drawn from a seed. Losses and
// exponents are functions of the microbatch, so that counting one twice, or not at all, shows.

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "core/random.hpp"
#include "protocol/messages/all_jobs.hpp"
#include "protocol/messages/all_ports.hpp"
#include "protocol/messages/commit.hpp"
#include "protocol/messages/message_traits.hpp"
#include "protocol/messages/microbatches.hpp"
#include "protocol/peer.hpp"
#include "protocol/step/commit_record.hpp"
#include "protocol/tiny_plan_test.hpp"

namespace swarmpi::testing {

class FakeWorld {
 public:
  FakeWorld(RunPlan plan, std::uint64_t seed, ResumeState resume = {})
      : plan_(plan), seed_(seed), peer_(PeerId(0), plan, {{PeerId(0)}, {}, Term(1)}, resume) {
    for (std::int32_t s = 0; s < plan.stages(); ++s) applied_[s] = resume.step;
  }

  /// What to do to a contribution before it is reported; for raising flags.
  std::function<void(const WorkId&, kernels::Contribution&)> spoil;
  /// Every message may arrive twice, as repairs send it.
  bool duplicate_messages = false;
  /// Storage answers only now and then while anything else can happen.
  bool slow_storage = false;
  /// Share of the time in which something is on its way to or from the peer.
  double carrying = 0;
  /// Asked before every event; an event returned goes first.
  std::function<std::optional<Event>()> interrupt;

  /// Runs until the peer is done or nothing can happen any more. Returns false if it stalled.
  bool run() {
    act(peer_.handle(Started{}, now_s_));
    while (!peer_.done()) {
      now_s_ += 0.001;
      peer_.set_carried(carrying * now_s_);
      if (interrupt) {
        if (auto event = interrupt()) {
          act(peer_.handle(*event, now_s_));
          continue;
        }
      }
      // Each source keeps its order; which source's event comes next is drawn.
      std::vector<std::deque<Event>*> ready;
      for (auto* queue : {&messages_, &jobs_}) {
        if (!queue->empty()) ready.push_back(queue);
      }
      const bool stored_may_wait =
          slow_storage && !ready.empty() && random_bits(seed_, Stream::test, 1, draws_) % 30 != 0;
      if (!stored_.empty() && !stored_may_wait) ready.push_back(&stored_);
      if (ready.empty()) return false;
      auto* queue = ready[random_bits(seed_, Stream::test, 0, draws_++) % ready.size()];
      const Event event = std::move(queue->front());
      queue->pop_front();
      if (holds_alternative<StageStored>(event)) storing_.erase(0);
      const auto* job = get_if<JobFinished>(&event);
      if (job && holds_alternative<ApplyResult>(job->result)) applied_s = now_s_;
      act(peer_.handle(event, now_s_));
    }
    return true;
  }

  static double loss_of(const MicrobatchId& id) {
    const std::int64_t content =
        id.step.value == 0 && id.purpose == Purpose::train ? 1 : id.step.value;
    return 1.0 + 1e-3 * static_cast<double>(id.index) + 1e-6 * static_cast<double>(content);
  }

  const Peer& peer() const { return peer_; }
  std::vector<StepRow> rows;
  std::vector<ValidationRow> validation;
  std::vector<EventRow> events;
  std::vector<PeerRow> uses;
  double applied_s = 0;  // when the peer heard of the last update
  std::map<WorkId, int> forward_count, backward_count;
  std::vector<ResumeState> checkpoints;
  std::vector<CommitRecord> commits;
  std::int64_t most_in_flight = 0;
  bool completed = false;
  std::vector<std::string> violations;

 private:
  void act(Actions actions) {
    for (Action& action : actions) {
      visit([this](auto& a) { take(a); }, action);
    }
  }

  void take(Send& send) {
    if (const auto* commit = get_if<CommitMessage>(&send.message.body)) {
      commits.push_back(*commit->record);
    }
    if (const auto* issue = get_if<IssueMessage>(&send.message.body)) {
      in_flight_.insert(issue->microbatch);
      most_in_flight = std::max<std::int64_t>(most_in_flight, in_flight_.size());
    }
    messages_.push_back(MessageArrived{PeerId(0), send.message});
    if (duplicate_messages && random_bits(seed_, Stream::test, 2, draws_++) % 2 == 0) {
      messages_.push_back(MessageArrived{PeerId(0), send.message});
    }
  }
  void take(StartJob& start) {
    if (!jobs_.empty()) violations.push_back("two jobs at a time");
    visit([this](const auto& job) { jobs_.push_back(JobFinished{run(job), 0.001}); }, start.job);
  }
  void take(CreateTerm& create) { stored_.push_back(TermCreated{create.term, true}); }
  void take(StoreRecord& record) {
    if (auto* row = std::get_if<StepRow>(&record.row)) rows.push_back(*row);
    if (auto* row = std::get_if<ValidationRow>(&record.row)) validation.push_back(*row);
    if (auto* row = std::get_if<EventRow>(&record.row)) events.push_back(*row);
    if (auto* row = std::get_if<PeerRow>(&record.row)) uses.push_back(*row);
    stored_.push_back(RecordDurable{record.number});
  }
  void take(StoreStage& store) {
    storing_.insert(0);
    if (applied_[store.stage.value] != store.step.value)
      violations.push_back("stored a later state");
    stored_.push_back(StageStored{store.step,
                                  store.stage,
                                  {"file", 1, 1},
                                  {static_cast<std::uint64_t>(store.step.value * 1000)}});
  }
  void take(StoreManifest& store) {
    checkpoints.push_back(store.state);
    stored_.push_back(CheckpointDurable{Step(store.state.step)});
  }
  void take(KillPeer&) { violations.push_back("had somebody killed"); }
  void take(SpawnPeer&) { violations.push_back("had a process started"); }
  void take(LoadManifest&) { violations.push_back("went back"); }
  void take(LoadStage&) { violations.push_back("went back"); }
  void take(StoreEnd& end) {
    completed = end.code == ExitStatus::good;
    stored_.push_back(EndDurable{});
  }
  void take(SetTimer&) {}
  void take(Finish&) {}
  void take(StoreProbe&) { violations.push_back("probed the storage"); }
  void take(AbandonLane&) { violations.push_back("gave up its storage"); }
  void take(ProbeWork&) {}
  void take(MakeCollectiveId&) { violations.push_back("made a collective"); }
  void take(MakeCollective&) { violations.push_back("made a collective"); }
  void take(EnterCollective&) { violations.push_back("entered a collective"); }
  void take(AbortCollective&) { violations.push_back("aborted a collective"); }

  JobResult run(const ForwardJob& job) {
    ++forward_count[job.work];
    check_weights(job.work);
    const bool last = job.work.stage.value + 1 == plan_.stages();
    if (last) in_flight_.erase(job.work.microbatch);
    return ForwardResult{job.work, nullptr, last ? loss_of(job.work.microbatch) : 0};
  }
  JobResult run(const BackwardJob& job) {
    ++backward_count[job.work];
    check_weights(job.work);
    if (job.work.stage.value == 0) in_flight_.erase(job.work.microbatch);
    kernels::Contribution contribution;
    contribution.exponent = static_cast<std::int16_t>(job.work.microbatch.index - 20);
    const std::int16_t limit = job.exponents->at(job.work.stage.value);
    contribution.overflow = limit == kernels::kNoExponent;
    if (spoil) spoil(job.work, contribution);
    const bool last = job.work.stage.value + 1 == plan_.stages();
    return BackwardResult{
        job.work, nullptr, last ? loss_of(job.work.microbatch) : 0, {contribution}};
  }
  JobResult run(const ReduceJob& job) {
    // There is memory for one reduced gradient: the one before must have been applied.
    if (applied_[job.stage.value] + 1 != job.step.value) {
      violations.push_back("reduced over a gradient that was not applied yet");
    }
    return ReduceResult{job.seal,
                        job.stage,
                        job.chunk,
                        Cover::of_step(job.step, plan_.train_microbatches(job.step)),
                        {4.0 + job.stage.value},
                        nullptr,
                        0};
  }
  JobResult run(const ApplyJob& job) {
    const std::int64_t step = job.record->step.value;
    if (!storing_.empty() && plan_.stages() == 1) violations.push_back("applied while storing");
    if (applied_[job.stage.value] + 1 != step) violations.push_back("applied out of order");
    applied_[job.stage.value] = step;
    return ApplyResult{
        job.record->step, job.stage, {{static_cast<std::uint64_t>(step * 1000)}, {}}, {}, {}};
  }
  JobResult run(const UpdateJob& job) {
    violations.push_back("updated a chunk");
    return WeightsResult{job.record->step, job.stage, job.chunk, nullptr, 0};
  }
  JobResult run(const PlaceWeightsJob& job) {
    violations.push_back("placed weights that nobody sent");
    return PlaceWeightsResult{job.step, job.stage, job.chunk, 0};
  }
  JobResult run(const CopyWeightsJob& job) {
    violations.push_back("copied weights that nobody lacks");
    return WeightsResult{job.step, job.stage, job.chunk, nullptr, 0};
  }
  // A peer that is alone has nobody to send shares to.
  JobResult run(const ShareJob& job) {
    violations.push_back("shared with nobody");
    return ShareResult{job.seal, job.stage, job.chunk, {}};
  }
  JobResult run(const GatherJob& job) {
    violations.push_back("gathered what nobody lacks");
    return GatherResult{job.seal, job.stage, job.chunk, nullptr, 0};
  }
  JobResult run(const PlaceJob& job) {
    violations.push_back("placed what nobody sent");
    return PlaceResult{job.seal, job.stage, job.chunk, 0};
  }
  JobResult run(const PrepareJob& job) {
    violations.push_back("learned from itself");
    return PrepareResult{job.stage};
  }
  JobResult run(const ReadJob& job) { return ReadResult{job.stage, job.blocks, 0, nullptr}; }
  JobResult run(const WriteJob& job) {
    violations.push_back("learned from itself");
    return WriteResult{job.stage, job.blocks, true, {}, {}};
  }
  JobResult run(const DropJob& job) { return DropResult{job.stage}; }
  JobResult run(const TryJob& job) { return TryResult{job.stage}; }
  void check_weights(const WorkId& work) {
    const std::int64_t step = work.microbatch.step.value;
    const std::int64_t applied = applied_[work.stage.value];
    if (applied < plan_.starts_after(Step(step))) violations.push_back("computed too early");
    if (applied >= step && step <= plan_.train.steps) violations.push_back("computed too late");
  }

  RunPlan plan_;
  std::uint64_t seed_;
  std::uint64_t draws_ = 0;
  double now_s_ = 0;
  Peer peer_;
  std::deque<Event> messages_, jobs_, stored_;
  std::map<std::int32_t, std::int64_t> applied_;
  std::set<MicrobatchId> in_flight_;
  std::set<int> storing_;
};

}  // namespace swarmpi::testing
