#pragma once
// All messages, for the few sources that handle any of them. The protocol never looks into
// payloads. docs/protocol.md tells in which order messages come.

#include "protocol/messages/checkpoints.hpp"
#include "protocol/messages/collectives.hpp"
#include "protocol/messages/commit.hpp"
#include "protocol/messages/ending.hpp"
#include "protocol/messages/learning.hpp"
#include "protocol/messages/liveness.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/message_traits.hpp"
#include "protocol/messages/microbatches.hpp"
#include "protocol/messages/reduction.hpp"
#include "protocol/messages/reports.hpp"
#include "protocol/messages/seal.hpp"
#include "protocol/messages/stalls.hpp"
#include "protocol/messages/tables.hpp"
#include "protocol/messages/views.hpp"

namespace swarmpi {

/// One row for each kind of message: its class, who handles it, when it is heard, how often it
/// comes, and whether soon after a death.
inline constexpr auto kMessageTable = [] {
  using enum MessageClass;
  using enum Audience;
  using enum Hearing;
  using enum Frequency;
  constexpr bool kAfterDeaths = true;
  return MessageTable(
      MessageRow<ViewMessage>(other, peer, in_any_view, rare, kAfterDeaths),
      MessageRow<InquiryMessage>(other, peer, in_any_view, rare),
      MessageRow<InquiryAnswer>(other, peer, in_any_view, rare),
      MessageRow<IssueMessage>(wiring, host, of_its_term, by_microbatch, kAfterDeaths),
      MessageRow<ForwardMessage>(boundary, host, in_its_view, by_microbatch, kAfterDeaths),
      MessageRow<ResendMessage>(other, host, of_its_term, rare, kAfterDeaths),
      MessageRow<RedirectMessage>(other, host, in_its_view, rare, kAfterDeaths),
      MessageRow<UnableMessage>(other, leader, in_its_view, rare, kAfterDeaths),
      MessageRow<ForwardDone>(wiring, peer, in_its_view, by_microbatch),
      MessageRow<BackwardMessage>(boundary, host, in_its_view, by_microbatch, kAfterDeaths),
      MessageRow<ReportMessage>(report, leader, in_its_view, by_microbatch, kAfterDeaths),
      MessageRow<SealMessage>(commit, host, of_its_term, by_step, kAfterDeaths),
      MessageRow<ReopenMessage>(commit, host, of_its_term, rare, kAfterDeaths),
      MessageRow<SealRefused>(commit, leader, in_its_view, never),
      MessageRow<ShareMessage>(reduction, host, in_its_view, by_step, kAfterDeaths),
      MessageRow<ChunkMessage>(reduction, host, in_its_view, by_step, kAfterDeaths),
      MessageRow<ChunkRefused>(reduction, leader, in_its_view, never),
      MessageRow<ReducedMessage>(commit, leader, in_its_view, by_step, kAfterDeaths),
      MessageRow<CommitMessage>(commit, host, of_its_term, by_step, kAfterDeaths),
      MessageRow<TableMessage>(other, leader, in_any_view, rare, kAfterDeaths),
      MessageRow<FetchMessage>(other, host, in_its_view, rare),
      MessageRow<PieceMessage>(other, host, in_its_view, rare),
      MessageRow<LearnedMessage>(other, leader, in_its_view, rare),
      MessageRow<JoinMessage>(other, peer, in_any_view, rare),
      MessageRow<CheckpointMessage>(other, host, of_its_term, rare),
      MessageRow<StageStoredMessage>(other, leader, in_its_view, rare),
      MessageRow<NoticeMessage>(other, leader, in_its_view, rare),
      MessageRow<FailureMessage>(other, leader, in_its_view, rare),
      MessageRow<LostMessage>(other, peer, in_any_view, rare, kAfterDeaths),
      MessageRow<HeartbeatMessage>(heartbeat, peer, in_its_view, rare),
      MessageRow<PingMessage>(heartbeat, peer, even_suspended, rare, kAfterDeaths),
      MessageRow<PongMessage>(heartbeat, peer, even_suspended, rare, kAfterDeaths),
      MessageRow<SuspectMessage>(other, peer, in_its_view, rare, kAfterDeaths),
      MessageRow<FencedMessage>(other, peer, even_suspended, rare, kAfterDeaths),
      MessageRow<LateMessage>(other, leader, in_its_view, rare),
      MessageRow<TryMessage>(other, peer, of_its_term, rare),
      MessageRow<TriedMessage>(other, leader, in_its_view, rare),
      MessageRow<ResignMessage>(other, peer, of_its_term, rare),
      MessageRow<AbstainMessage>(other, peer, in_any_view, rare, kAfterDeaths),
      MessageRow<ReleaseMessage>(other, peer, in_any_view, rare),
      MessageRow<EndMessage>(other, peer, in_any_view, rare),
      MessageRow<EndHeard>(other, leader, in_its_view, rare),
      MessageRow<ExitMessage>(other, peer, in_any_view, rare),
      MessageRow<AbleMessage>(other, leader, in_any_view, rare),
      MessageRow<RatiosMessage>(other, host, in_its_view, rare),
      MessageRow<NoRoomMessage>(other, leader, in_its_view, never),
      MessageRow<DamagedMessage>(other, leader, in_its_view, never),
      MessageRow<WeightsMessage>(reduction, host, in_its_view, by_step),
      MessageRow<WeightsPlaced>(reduction, host, in_its_view, by_step),
      MessageRow<WholeViewRequest>(other, leader, in_any_view, never),
      MessageRow<CollectiveIdMessage>(reduction, host, in_its_view, rare),
      MessageRow<CollectiveWord>(reduction, leader, in_its_view, by_step),
      MessageRow<EnterMessage>(reduction, host, of_its_term, by_step));
}();

}  // namespace swarmpi
