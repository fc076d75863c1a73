#include "transport/wire/wire.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "protocol/messages/checkpoints.hpp"
#include "protocol/messages/commit.hpp"
#include "protocol/messages/ending.hpp"
#include "protocol/messages/learning.hpp"
#include "protocol/messages/liveness.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/microbatches.hpp"
#include "protocol/messages/reduction.hpp"
#include "protocol/messages/reports.hpp"
#include "protocol/messages/seal.hpp"
#include "protocol/messages/tables.hpp"
#include "protocol/messages/views.hpp"
#include "protocol/step/commit_record.hpp"
#include "transport/wire/samples_test.hpp"

namespace swarmpi::test::wire_test {
namespace {

Message with(MessageBody body) { return {Incarnation(-5), {Term(kMost), kLeast}, std::move(body)}; }

// All fields are written (the compiler sees to it), so equal bytes are equal messages.
TEST(Wire, EveryMessageComesBack) {
  for (const MessageBody& body : one_of_everything()) {
    SCOPED_TRACE(traits_of(body).name);
    const Packed packed = pack(with(body));
    const Result<Message> back = unpack(packed.header, packed.payload);
    ASSERT_TRUE(back.ok()) << back.status().message();
    EXPECT_EQ(back.value().body.number(), body.number());
    EXPECT_EQ(payload_in(back.value()), packed.payload) << "the payload must not be copied";
    const Packed again = pack(back.value());
    EXPECT_EQ(again.header, packed.header);
    EXPECT_EQ(again.payload, packed.payload);
  }
}

Message round_trip(MessageBody body) {
  const Packed packed = pack(with(std::move(body)));
  return unpack(packed.header, packed.payload).value();
}

// And no two fields share bytes: these are looked at one by one.
TEST(Wire, FieldsComeBackEachByItself) {
  const Message envelope = round_trip(EndHeard{});
  EXPECT_EQ(envelope.incarnation, Incarnation(-5));
  EXPECT_EQ(envelope.view, (ViewNumber{Term(kMost), kLeast}));

  const ViewRef view = get<ViewMessage>(round_trip(odd_view()).body).view;
  EXPECT_EQ(view->number, odd_view().view->number);
  EXPECT_EQ(view->members(), odd_view().view->members());
  EXPECT_EQ(view->learners(), odd_view().view->learners());
  EXPECT_EQ(view->leaving(), odd_view().view->leaving());

  const Message forward = round_trip(ForwardMessage{kWork, payload_of(5), odd_path()});
  EXPECT_EQ(get<ForwardMessage>(forward.body).work, kWork);
  EXPECT_EQ(*get<ForwardMessage>(forward.body).path, *odd_path());

  const Message refused = round_trip(SealRefused{kSeal, Step(-4), StageId(2), odd_bitmap()});
  EXPECT_EQ(get<SealRefused>(refused.body).seal, kSeal);
  EXPECT_EQ(get<SealRefused>(refused.body).step, Step(-4));
  EXPECT_EQ(get<SealRefused>(refused.body).carried, odd_bitmap());

  const Message commit = round_trip(
      CommitMessage{std::make_shared<const CommitRecord>(odd_record()), Step(3), Step(2)});
  EXPECT_EQ(get<CommitMessage>(commit.body).written, Step(3));
  EXPECT_EQ(get<CommitMessage>(commit.body).checkpointed, Step(2));
  const CommitRecord& record = *get<CommitMessage>(commit.body).record;
  EXPECT_EQ(record.term, Term(kLeast));
  EXPECT_EQ(record.time_s, 1e-300);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(record.loss), std::bit_cast<std::uint64_t>(kOddNan));
  EXPECT_TRUE(std::signbit(record.grad_norm));
  EXPECT_EQ(std::bit_cast<std::uint32_t>(record.correction2), 0x7fc0'1234U);
  EXPECT_EQ(record.tokens, kLeast);
  EXPECT_EQ(record.next_exponents, odd_record().next_exponents);

  const Message report = round_trip(odd_report());
  const PeerRow& row = get<ReportMessage>(report.body).uses.at(0).row;
  EXPECT_EQ(row.communication_s, 6.5);
  EXPECT_EQ(row.bytes_sent, kMost);
  EXPECT_EQ(row.microbatches, 12);
  EXPECT_EQ(row.transfer_s, 13.5);
  const GoodputRow& goodput = get<ReportMessage>(report.body).goodput.at(0);
  EXPECT_EQ(goodput.step, kMost);
  EXPECT_EQ(goodput.idle_s, 10.5);
  EXPECT_EQ(goodput.incarnation, kLeast);
}

TEST(Wire, BesideADeltaAViewDoesNotTravel) {
  ViewMessage change = odd_view();
  ViewDelta delta;
  delta.base = {Term(9), 76};
  delta.number = change.view->number;
  delta.changed = {{PeerId(4), true, {StageId(0)}, {}, {StageId(-1)}, kLeast}, {PeerId(7)}};
  delta.move = StageMove{PeerId(4), StageId(0), StageId(1)};
  delta.order = LeadingOrder{{{PeerId(7), 3}}};
  delta.hash = ~0ULL;
  change.delta = std::make_shared<const ViewDelta>(delta);
  const auto came = get<ViewMessage>(round_trip(change).body);
  EXPECT_TRUE(came.view->members().empty());
  ASSERT_TRUE(came.delta);
  EXPECT_EQ(came.number(), change.view->number);
  EXPECT_EQ(came.delta->base, delta.base);
  EXPECT_EQ(came.delta->changed, delta.changed);
  EXPECT_EQ(came.delta->move, delta.move);
  EXPECT_EQ(came.delta->order, delta.order);
  EXPECT_EQ(came.delta->hash, delta.hash);
}

TEST(Wire, FieldsOfARepairComeBackEachByItself) {
  const Message sealed =
      round_trip(SealMessage{Step(4), {StageSeal{}, odd_stage_seal()}, true, odd_facts()});
  const auto& seal = get<SealMessage>(sealed.body);
  EXPECT_EQ(seal.step, Step(4));
  EXPECT_TRUE(seal.skipped);
  EXPECT_EQ(seal.facts->measured, odd_facts()->measured);
  EXPECT_EQ(seal.facts->flagged, odd_facts()->flagged);
  const StageSeal& stage = seal.stages.at(1);
  EXPECT_EQ(stage.seal, kSeal);
  EXPECT_EQ(stage.replicas, odd_stage_seal().replicas);
  EXPECT_EQ(stage.microbatches, odd_bitmap());
  EXPECT_EQ(stage.chunk_replicas, kMost);
  EXPECT_EQ(stage.finished_chunks, odd_stage_seal().finished_chunks);
  EXPECT_EQ(stage.to_send.at(0).chunk, -7);
  EXPECT_EQ(stage.to_send.at(0).to, odd_stage_seal().to_send[0].to);
  EXPECT_EQ(stage.senders, odd_stage_seal().senders);
  EXPECT_EQ(stage.learners, odd_stage_seal().learners);
  EXPECT_EQ(get<SealMessage>(round_trip(SealMessage{}).body).facts, nullptr);

  const Message sent = round_trip(odd_table());
  const auto& table = get<TableMessage>(sent.body);
  EXPECT_EQ(table.view, (ViewNumber{Term(-2), kLeast}));
  EXPECT_EQ(table.incarnation, Incarnation(kMost));
  EXPECT_EQ(table.commits.at(0)->applied_updates, 11);
  EXPECT_EQ(table.written, Step(-1));
  EXPECT_EQ(table.checkpointed, Step(kMost));
  EXPECT_EQ(table.facts.at(0).facts->flagged, odd_facts()->flagged);
  EXPECT_EQ(table.facts.at(1).facts, nullptr);
  EXPECT_EQ(table.stages.at(0).chunks, (std::vector<std::int32_t>{9, -9}));
  EXPECT_EQ(table.works.at(0).sent_to, PeerId(6));
  EXPECT_FALSE(table.works.at(0).planned_in);
  EXPECT_TRUE(table.works.at(0).path_broken);
  EXPECT_FALSE(table.works.at(0).keeps_output);
  EXPECT_TRUE(table.works.at(0).gives_gradient);
  EXPECT_EQ(table.works.at(1).phase, Phase::passed_on);
  EXPECT_EQ(table.works.at(1).planned_in, (ViewNumber{Term(3), -4}));
  EXPECT_EQ(table.works.at(1).sent_to, std::nullopt);
  EXPECT_EQ(table.works.at(3).phase, Phase::over);
  EXPECT_EQ(table.learned.at(0).stage, StageId(11));
  EXPECT_EQ(table.learned.at(0).tensors, (std::vector<std::uint64_t>{~0ULL, 0}));
  EXPECT_EQ(table.end->why, "why");
}

TEST(Wire, FieldsOfARestartComeBackEachByItself) {
  const Message sent = round_trip(odd_restart());
  const auto& message = get<ViewMessage>(sent.body);
  EXPECT_EQ(message.view->members(), odd_view().view->members());
  ASSERT_NE(message.restart, nullptr);
  const ResumeState& state = message.restart->state;
  EXPECT_EQ(state.step, kLeast);
  EXPECT_EQ(state.applied_updates, kMost);
  EXPECT_EQ(state.skips_in_a_row, -3);
  EXPECT_EQ(state.incarnation, 4);
  EXPECT_EQ(state.exponents, odd_checkpoint()->state.exponents);
  EXPECT_EQ(state.state_hash, ~0ULL);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(state.time_s), std::bit_cast<std::uint64_t>(kOddNan));
  ASSERT_EQ(message.restart->files.size(), 2U);
  EXPECT_EQ(message.restart->files[0].name, std::string("a\0b\xff", 4));
  EXPECT_EQ(message.restart->files[0].hash, ~0ULL);
  EXPECT_EQ(message.restart->files[0].size_bytes, kLeast);
  EXPECT_EQ(get<ViewMessage>(round_trip(odd_view()).body).restart, nullptr);
}

TEST(Wire, FieldsForALearnerComeBackEachByItself) {
  const Message asked = round_trip(FetchMessage{StageId(-7), {3, 9}, Step(kLeast)});
  EXPECT_EQ(get<FetchMessage>(asked.body).stage, StageId(-7));
  EXPECT_EQ(get<FetchMessage>(asked.body).blocks, (BlockRange{3, 9}));
  EXPECT_EQ(get<FetchMessage>(asked.body).at_least, Step(kLeast));
  const Message sent = round_trip(PieceMessage{StageId(8), {3, 4}, Step(kMost), 77, payload_of(9)});
  EXPECT_EQ(get<PieceMessage>(sent.body).stage, StageId(8));
  EXPECT_EQ(get<PieceMessage>(sent.body).blocks, (BlockRange{3, 4}));
  EXPECT_EQ(get<PieceMessage>(sent.body).step, Step(kMost));
  EXPECT_EQ(get<PieceMessage>(sent.body).hash, 77u);
  const Message told = round_trip(RatiosMessage{StageId(8), Step(3), {0.5f, 2}});
  EXPECT_EQ(get<RatiosMessage>(told.body).ratios, (std::vector<float>{0.5f, 2}));
  const Message done = round_trip(LearnedMessage{StageId(9), Step(-1), {1, ~0ULL}});
  EXPECT_EQ(get<LearnedMessage>(done.body).stage, StageId(9));
  EXPECT_EQ(get<LearnedMessage>(done.body).step, Step(-1));
  EXPECT_EQ(get<LearnedMessage>(done.body).tensors, (std::vector<std::uint64_t>{1, ~0ULL}));
  const Message come = round_trip(JoinMessage{PeerId(-6)});
  EXPECT_EQ(get<JoinMessage>(come.body).peer, PeerId(-6));
}

// The layout is little-endian whatever the machine: a run may mix them one day, a dump is readable.
TEST(Wire, BytesAreWhereTheyShouldBe) {
  const Packed packed =
      pack({Incarnation(0x0102), {Term(3), 4}, CheckpointMessage{Step(5), StageId(6)}});
  std::vector<std::byte> expected(8 + 8 + 8 + 1 + 8 + 4);
  expected[0] = std::byte{2};
  expected[1] = std::byte{1};
  expected[8] = std::byte{3};
  expected[16] = std::byte{4};
  expected[24] = std::byte{kNumberIn<MessageKinds, CheckpointMessage>};
  expected[25] = std::byte{5};
  expected[33] = std::byte{6};
  EXPECT_EQ(packed.header, expected);
}

TEST(Wire, AHeaderThatIsCutShortOrGoesOnIsRefused) {
  for (const MessageBody& body : one_of_everything()) {
    SCOPED_TRACE(traits_of(body).name);
    Packed packed = pack(with(body));
    const std::size_t whole = packed.header.size();
    const std::size_t stride = whole < 2000 ? 1 : whole / 500;
    for (std::size_t size = 0; size < whole; size += stride) {
      EXPECT_FALSE(unpack({packed.header.data(), size}, packed.payload).ok()) << size;
    }
    EXPECT_FALSE(unpack({packed.header.data(), whole - 1}, packed.payload).ok());
    packed.header.push_back(std::byte{0});
    EXPECT_FALSE(unpack(packed.header, packed.payload).ok());
  }
}

std::string error_of(std::span<const std::byte> header, PayloadRef payload) {
  const Result<Message> read = unpack(header, std::move(payload));
  return read.ok() ? "" : read.status().message();
}

TEST(Wire, APayloadThatIsMissingOrUnexpectedIsRefused) {
  const Packed with_one = pack(with(ShareMessage{kSeal, StageId(3), 1, {}, payload_of(17)}));
  EXPECT_EQ(error_of(with_one.header, nullptr), "missing payload in ShareMessage");
  const Packed with_none = pack(with(ShareMessage{kSeal, StageId(3), 1, {}, nullptr}));
  EXPECT_EQ(error_of(with_none.header, payload_of(17)), "unexpected payload in ShareMessage");
}

// The last bytes of a header whose end is at fault, replaced.
std::string error_with_end(MessageBody body, const std::vector<int>& end) {
  std::vector<std::byte> header = pack(with(std::move(body))).header;
  for (std::size_t i = 0; i < end.size(); ++i) {
    header[header.size() - end.size() + i] = std::byte(end[i]);
  }
  return error_of(header, nullptr);
}

TEST(Wire, AnUnknownKindIsNotTakenForAnotherMessage) {
  EXPECT_EQ(error_with_end(FencedMessage{}, {99}), "invalid kind (99) in Message");
  EXPECT_EQ(error_of({}, nullptr), "truncated data in Message");
}

TEST(Wire, AValueOutOfItsRangeIsRefused) {
  EXPECT_EQ(error_with_end(ResendMessage{kWork, nullptr}, {0}), "");
  EXPECT_EQ(error_with_end(ResendMessage{kWork, nullptr}, {1}),
            "truncated data in ResendMessage");  // a path must follow
  EXPECT_EQ(error_with_end(ResendMessage{kWork, nullptr}, {2}),
            "invalid bool (2) in ResendMessage");  // whether there is a path

  // Behind the works of a table follow the counts of two empty lists, no end, another empty list
  // and a number; a work's last bytes are its phase, whether it was sent on, no path and its last
  // stage, and three flags.
  TableMessage table;
  table.works = {{kWork, Phase::over, std::nullopt, std::nullopt, {}, false, false, false}};
  const auto error = [&](int phase, int sent, int flag) {
    std::vector<int> end{phase, sent, 0, 0, 0, 0, 0, flag, 0, 0};
    end.resize(end.size() + 4 * sizeof(std::uint64_t) + 1);
    return error_with_end(table, end);
  };
  EXPECT_EQ(error(3, 0, 1), "");
  EXPECT_EQ(error(4, 0, 1), "invalid enumerator (4) in TableMessage");
  EXPECT_EQ(error(3, 2, 1), "invalid bool (2) in TableMessage");
  EXPECT_EQ(error(3, 0, 2), "invalid bool (2) in TableMessage");
}

// Of a path's holders a key that comes twice, or before a lesser one, was not written by a map.
TEST(Wire, AMapOutOfOrderIsRefused) {
  Path path;
  path.holders = {{StageId(1), PeerId(5)}, {StageId(2), PeerId(6)}};
  const ResendMessage resend{kWork, std::make_shared<const Path>(path)};
  const auto error = [&](int first, int second) {
    return error_with_end(resend, {first,  0, 0, 0, 5, 0, 0, 0,  // stage, peer
                                   second, 0, 0, 0, 6, 0, 0, 0,  // stage, peer
                                   0,      0, 0, 0});            // the last stage
  };
  const std::string unordered = "keys out of order in a set or map in ResendMessage";
  EXPECT_EQ(error(1, 2), "");
  EXPECT_EQ(error(1, 3), "");
  EXPECT_EQ(error(1, 1), unordered);
  EXPECT_EQ(error(2, 1), unordered);
}

// Whatever the bytes, reading them does not crash: it ends with an error, or with a message that
// they happen to be.
TEST(Wire, DamagedHeadersAreHarmless) {
  std::uint64_t draw = 1;
  for (const MessageBody& body : one_of_everything()) {
    const Packed packed = pack(with(body));
    if (packed.header.size() > 2000) continue;
    for (std::size_t at = 0; at < packed.header.size(); ++at) {
      for (int times = 0; times < 8; ++times) {
        draw = draw * 6364136223846793005ULL + 1442695040888963407ULL;
        std::vector<std::byte> damaged = packed.header;
        damaged[at] = std::byte(draw >> 56);
        const Result<Message> read = unpack(damaged, packed.payload);
        if (read.ok()) (void)pack(read.value());
      }
    }
  }
}

}  // namespace
}  // namespace swarmpi::test::wire_test
