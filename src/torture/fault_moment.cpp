#include "torture/fault_moment.hpp"

#include <algorithm>
#include <type_traits>
#include <variant>

#include "core/check.hpp"

namespace swarmpi {
namespace {

using Of = MomentKind::Of;

template <class Variant, class T, std::size_t kIndex = 0>
constexpr std::size_t index_in() {
  if constexpr (std::is_same_v<std::variant_alternative_t<kIndex, Variant>, T>) {
    return kIndex;
  } else {
    return index_in<Variant, T, kIndex + 1>();
  }
}

struct MomentTable {
  template <class Body>
  void message(const std::string& name, HowOften how_often, bool of_recovery = false) {
    constexpr std::size_t kBody = index_in<MessageBody, Body>();
    constexpr MomentKind kCame{Of::event, index_in<Event, MessageArrived>(), kBody};
    constexpr MomentKind kSent{Of::action, index_in<Action, Send>(), kBody};
    rows.push_back({kCame, "receives `" + name + "`", how_often, of_recovery});
    rows.push_back({kSent, "sends `" + name + "`", how_often, of_recovery});
  }
  template <class Begun, class Result>
  void job(const std::string& name, HowOften how_often, bool of_recovery = false) {
    constexpr MomentKind kStart{Of::action, index_in<Action, StartJob>(), index_in<Job, Begun>()};
    constexpr MomentKind kEnd{Of::event, index_in<Event, JobFinished>(),
                              index_in<JobResult, Result>()};
    rows.push_back({kStart, "starts `" + name + "`", how_often, of_recovery});
    rows.push_back({kEnd, "finishes `" + name + "`", how_often, of_recovery});
  }
  template <class E>
  void event(const std::string& name, HowOften how_often, bool of_recovery = false) {
    rows.push_back({{Of::event, index_in<Event, E>(), 0}, name, how_often, of_recovery});
  }
  template <class A>
  void action(const std::string& name, HowOften how_often, bool of_recovery = false) {
    rows.push_back({{Of::action, index_in<Action, A>(), 0}, name, how_often, of_recovery});
  }
  std::vector<NamedMoment> rows;
};

}  // namespace

MomentKind kind_of(const Event& event) {
  MomentKind kind{Of::event, event.index(), 0};
  if (const auto* arrived = std::get_if<MessageArrived>(&event)) {
    kind.part = arrived->message.body.index();
  } else if (const auto* job = std::get_if<JobFinished>(&event)) {
    kind.part = job->result.index();
  }
  return kind;
}

MomentKind kind_of(const Action& action) {
  MomentKind kind{Of::action, action.index(), 0};
  if (const auto* send = std::get_if<Send>(&action)) {
    kind.part = send->message.body.index();
  } else if (const auto* start = std::get_if<StartJob>(&action)) {
    kind.part = start->job.index();
  }
  return kind;
}

const std::vector<NamedMoment>& message_moments() {
  static const std::vector<NamedMoment> kMoments = [] {
    constexpr auto kMany = HowOften::by_microbatch;
    constexpr auto kSome = HowOften::by_step;
    constexpr auto kRare = HowOften::rare;
    MomentTable table;
    table.message<ViewMessage>("view", kRare, true);
    table.message<InquiryMessage>("inquiry", kRare);
    table.message<InquiryAnswer>("inquiry answer", kRare);
    table.message<IssueMessage>("issue", kMany, true);
    table.message<ForwardMessage>("forward", kMany, true);
    table.message<ResendMessage>("resend", kRare, true);
    table.message<RedirectMessage>("redirect", kRare, true);
    table.message<UnableMessage>("unable", kRare, true);
    table.message<ForwardDone>("forward done", kMany);
    table.message<BackwardMessage>("backward", kMany, true);
    table.message<ReportMessage>("report", kMany, true);
    table.message<SealMessage>("seal", kSome, true);
    table.message<ReopenMessage>("reopen", kRare, true);
    table.message<SealRefused>("refused", HowOften::never);
    table.message<ShareMessage>("share", kSome, true);
    table.message<ChunkMessage>("chunk", kSome, true);
    table.message<ReducedMessage>("reduced", kSome, true);
    table.message<CommitMessage>("commit", kSome, true);
    table.message<TableMessage>("table", kRare, true);
    table.message<FetchMessage>("fetch", kRare);
    table.message<TensorMessage>("tensor", kRare);
    table.message<LearnedMessage>("learned", kRare);
    table.message<JoinMessage>("join", kRare);
    table.message<CheckpointMessage>("checkpoint", kRare);
    table.message<StageStoredMessage>("stored", kRare);
    table.message<NoticeMessage>("notice", kRare);
    table.message<FailureMessage>("failure", kRare);
    table.message<LostMessage>("lost", kRare, true);
    table.message<HeartbeatMessage>("alive", kRare);
    table.message<PingMessage>("ping", kRare, true);
    table.message<PongMessage>("pong", kRare, true);
    table.message<SuspectMessage>("suspect", kRare, true);
    table.message<ReleaseMessage>("release", kRare);
    table.message<FencedMessage>("fenced", kRare, true);
    table.message<EndMessage>("end", kRare);
    table.message<EndHeard>("end heard", kRare);
    table.message<ExitMessage>("exit", kRare);
    return table.rows;
  }();
  return kMoments;
}

const std::vector<NamedMoment>& job_moments() {
  static const std::vector<NamedMoment> kMoments = [] {
    MomentTable table;
    table.job<ForwardJob, ForwardResult>("forward", HowOften::by_microbatch, true);
    table.job<BackwardJob, BackwardResult>("backward", HowOften::by_microbatch, true);
    table.job<ShareJob, ShareResult>("share", HowOften::by_step, true);
    table.job<ReduceJob, ReduceResult>("reduce", HowOften::by_step, true);
    table.job<PlaceJob, PlaceResult>("place", HowOften::by_step, true);
    table.job<GatherJob, GatherResult>("gather", HowOften::rare, true);
    table.job<ApplyJob, ApplyResult>("apply", HowOften::by_step);
    table.job<PrepareJob, PrepareResult>("prepare", HowOften::rare);
    table.job<ReadJob, ReadResult>("read", HowOften::rare);
    table.job<WriteJob, WriteResult>("write", HowOften::rare);
    table.job<DropJob, DropResult>("drop", HowOften::rare);
    return table.rows;
  }();
  return kMoments;
}

const std::vector<NamedMoment>& other_moments() {
  static const std::vector<NamedMoment> kMoments = [] {
    MomentTable table;
    table.action<KillPeer>("has a peer killed", HowOften::rare, true);
    table.event<KillFailed>("hears that a peer cannot be killed", HowOften::rare, true);
    table.action<CreateTerm>("asks for a term", HowOften::rare, true);
    table.event<TermCreated>("hears of its term", HowOften::rare, true);
    table.action<StoreRecord>("writes a record", HowOften::by_step);
    table.event<RecordDurable>("hears of a durable record", HowOften::by_step);
    table.action<StoreStage>("writes a stage", HowOften::rare);
    table.event<StageStored>("hears of a written stage", HowOften::rare);
    table.action<StoreManifest>("writes a manifest", HowOften::rare);
    table.event<CheckpointDurable>("hears of a durable checkpoint", HowOften::rare);
    table.action<LoadManifest>("reads a manifest", HowOften::rare, true);
    table.event<ManifestLoaded>("hears of a manifest", HowOften::rare, true);
    table.action<LoadStage>("loads a stage", HowOften::rare, true);
    table.event<StageLoaded>("hears of a loaded stage", HowOften::rare, true);
    table.action<StoreEnd>("writes the mark of the end", HowOften::rare);
    table.event<EndDurable>("hears of the mark of the end", HowOften::rare);
    table.action<Finish>("finishes", HowOften::rare);
    table.event<Started>("starts", HowOften::rare);
    table.event<PeerLost>("hears of a death", HowOften::rare, true);
    table.event<StopRequested>("is asked to stop", HowOften::rare);
    return table.rows;
  }();
  return kMoments;
}

const std::vector<NamedMoment>& all_moments() {
  static const std::vector<NamedMoment> kMoments = [] {
    std::vector<NamedMoment> all;
    for (const auto* part : {&message_moments(), &job_moments(), &other_moments()}) {
      all.insert(all.end(), part->begin(), part->end());
    }
    SWARMPI_CHECK(all.size() <= kMostMoments, "there is room to count all moments");
    return all;
  }();
  return kMoments;
}

std::size_t moment_index(const MomentKind& kind) {
  const auto& all = all_moments();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& named) { return named.kind == kind; });
  SWARMPI_CHECK(found != all.end(), "a moment that has a name");
  return static_cast<std::size_t>(found - all.begin());
}

}  // namespace swarmpi
