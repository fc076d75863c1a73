#include "torture/fault_moment.hpp"

#include <algorithm>
#include <type_traits>
#include <variant>

#include "core/check.hpp"
#include "protocol/messages/all_jobs.hpp"
#include "protocol/messages/all_ports.hpp"
#include "protocol/messages/message_table.hpp"

namespace swarmpi {
namespace {

using Of = MomentKind::Of;
using enum Frequency;

template <class E>
NamedMoment hears(Frequency frequency, bool after_deaths = false) {
  const MomentKind kind{Of::event, kNumberIn<EventKinds, E>, 0};
  return {kind, "hears " + std::string(kTypeName<E>), frequency, after_deaths};
}
template <class A>
NamedMoment asks(Frequency frequency, bool after_deaths = false) {
  const MomentKind kind{Of::action, kNumberIn<ActionKinds, A>, 0};
  return {kind, "asks for " + std::string(kTypeName<A>), frequency, after_deaths};
}

template <class J>
void add_job(std::vector<NamedMoment>& all, Frequency frequency, bool after_deaths = false) {
  // A result has the number of its job.
  constexpr std::size_t kJob = kNumberIn<JobKinds, J>;
  const std::string name(kTypeName<J>);
  const MomentKind start{Of::action, kNumberIn<ActionKinds, StartJob>, kJob};
  const MomentKind end{Of::event, kNumberIn<EventKinds, JobFinished>, kJob};
  all.push_back({start, "starts " + name, frequency, after_deaths});
  all.push_back({end, "finishes " + name, frequency, after_deaths});
}

void add_message(std::vector<NamedMoment>& all, std::size_t body) {
  const MessageTraits& traits = kMessageTable.rows[body];
  const std::string name(traits.name);
  const MomentKind came{Of::event, kNumberIn<EventKinds, MessageArrived>, body};
  const MomentKind sent{Of::action, kNumberIn<ActionKinds, Send>, body};
  all.push_back({came, "receives " + name, traits.frequency, traits.after_deaths});
  all.push_back({sent, "sends " + name, traits.frequency, traits.after_deaths});
}

}  // namespace

MomentKind kind_of(const Event& event) {
  MomentKind kind{Of::event, event.number(), 0};
  if (const auto* arrived = get_if<MessageArrived>(&event)) {
    kind.part = arrived->message.body.number();
  } else if (const auto* job = get_if<JobFinished>(&event)) {
    kind.part = job->result.number();
  }
  return kind;
}

MomentKind kind_of(const Action& action) {
  MomentKind kind{Of::action, action.number(), 0};
  if (const auto* send = get_if<Send>(&action)) {
    kind.part = send->message.body.number();
  } else if (const auto* start = get_if<StartJob>(&action)) {
    kind.part = start->job.number();
  }
  return kind;
}

const std::vector<NamedMoment>& message_moments() {
  static const std::vector<NamedMoment> kMoments = [] {
    std::vector<NamedMoment> all;
    for (std::size_t body = 0; body < MessageKinds::kEnd; ++body) {
      if (MessageKinds::has_number(body)) add_message(all, body);
    }
    // A seed draws the faults that it has always drawn: releases stand before fences here.
    const auto fences = all.begin() + 2 * kNumberIn<MessageKinds, FencedMessage>;
    std::swap_ranges(fences, fences + 2, fences + 2);
    return all;
  }();
  return kMoments;
}

const std::vector<NamedMoment>& job_moments() {
  static const std::vector<NamedMoment> kMoments = [] {
    std::vector<NamedMoment> all;
    add_job<ForwardJob>(all, by_microbatch, true);
    add_job<BackwardJob>(all, by_microbatch, true);
    add_job<ShareJob>(all, by_step, true);
    add_job<ReduceJob>(all, by_step, true);
    add_job<PlaceJob>(all, by_step, true);
    add_job<GatherJob>(all, rare, true);
    add_job<ApplyJob>(all, by_step);
    add_job<PrepareJob>(all, rare);
    add_job<ReadJob>(all, rare);
    add_job<WriteJob>(all, rare);
    add_job<DropJob>(all, rare);
    add_job<TryJob>(all, rare);
    add_job<UpdateJob>(all, by_step);
    add_job<PlaceWeightsJob>(all, by_step);
    add_job<CopyWeightsJob>(all, rare);
    return all;
  }();
  return kMoments;
}

const std::vector<NamedMoment>& other_moments() {
  static const std::vector<NamedMoment> kMoments = {asks<KillPeer>(rare, true),
                                                    hears<KillFailed>(rare, true),
                                                    asks<CreateTerm>(rare, true),
                                                    hears<TermCreated>(rare, true),
                                                    asks<StoreRecord>(by_step),
                                                    hears<RecordDurable>(by_step),
                                                    asks<StoreStage>(rare),
                                                    hears<StageStored>(rare),
                                                    asks<StoreManifest>(rare),
                                                    hears<CheckpointDurable>(rare),
                                                    asks<LoadManifest>(rare, true),
                                                    hears<ManifestLoaded>(rare, true),
                                                    asks<LoadStage>(rare, true),
                                                    hears<StageLoaded>(rare, true),
                                                    asks<StoreEnd>(rare),
                                                    hears<EndDurable>(rare),
                                                    asks<Finish>(rare),
                                                    hears<Started>(rare),
                                                    hears<PeerLost>(rare, true),
                                                    hears<StopRequested>(rare)};
  return kMoments;
}

namespace {

const std::vector<NamedMoment>& moments_only_of_collectives() {
  static const std::vector<NamedMoment> kMoments = {
      asks<MakeCollectiveId>(rare),  hears<CollectiveIdMade>(rare),  asks<MakeCollective>(rare),
      hears<CollectiveReady>(rare),  asks<EnterCollective>(by_step), hears<CollectiveDone>(by_step),
      hears<CollectiveFailed>(rare), asks<AbortCollective>(rare)};
  return kMoments;
}

}  // namespace

std::vector<NamedMoment> collective_moments() {
  std::vector<NamedMoment> all = moments_only_of_collectives();
  add_message(all, kNumberIn<MessageKinds, CollectiveIdMessage>);
  add_message(all, kNumberIn<MessageKinds, CollectiveWord>);
  add_message(all, kNumberIn<MessageKinds, EnterMessage>);
  // Where what they lead to is seen to.
  for (const NamedMoment& moment : message_moments()) {
    const bool follows = moment.name == "receives ReducedMessage" ||
                         moment.name == "sends ReducedMessage" ||
                         moment.name == "receives SealMessage";
    if (follows) all.push_back(moment);
  }
  return all;
}

const std::vector<NamedMoment>& all_moments() {
  static const std::vector<NamedMoment> kMoments = [] {
    std::vector<NamedMoment> all;
    for (const auto* part :
         {&message_moments(), &job_moments(), &other_moments(), &moments_only_of_collectives()}) {
      all.insert(all.end(), part->begin(), part->end());
    }
    SWARMPI_CHECK(all.size() == std::tuple_size_v<MomentCounts>, "every moment is counted");
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
