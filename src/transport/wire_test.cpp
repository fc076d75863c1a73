#include "transport/wire.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace swarmpi {
namespace {

// Bits of a NaN that no computation makes.
const double kOddNan = std::bit_cast<double>(0x7ff8'0000'dead'beefULL);
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

PayloadRef payload_of(std::size_t size_bytes) {
  auto payload = std::make_shared<Payload>(size_bytes);
  for (std::size_t i = 0; i < size_bytes; ++i) payload->data()[i] = std::byte(i * 7 + 1);
  return payload;
}

const MicrobatchId kMicrobatch{Step(kMost), Purpose::validate, -3};
const WorkId kWork{kMicrobatch, StageId(7)};
const SealId kSeal{Incarnation(kLeast), Term(5), kMost};

Bitmap odd_bitmap() {
  Bitmap bitmap(131);
  for (const int index : {0, 7, 8, 63, 64, 130}) bitmap.insert(index);
  return bitmap;
}

CommitRecord odd_record() {
  CommitRecord record;
  record.step = Step(-1);
  record.seal = kSeal;
  record.loss = kOddNan;
  record.tokens = kLeast;
  record.grad_norm = -0.0;
  record.clip = 1e-45F;
  record.lr = std::numeric_limits<float>::infinity();
  record.correction1 = -3.25F;
  record.correction2 = std::bit_cast<float>(0x7fc0'1234U);
  record.skipped = true;
  record.applied_updates = 11;
  record.skips_in_a_row = 2;
  record.next_exponents = {kernels::kNoExponent, -1, 0, 32767};
  record.flagged = {3, -4};
  return record;
}

ReportMessage odd_report() {
  ReportMessage report;
  report.contributions.push_back({kWork, {{-7, true, false}, {kernels::kNoExponent, false, true}}});
  report.contributions.push_back({{}, {}});
  report.losses.push_back({kMicrobatch, 5e-324});
  report.hashes.push_back({Step(3), StageId(-1), std::vector<std::uint64_t>(100'000, ~0ULL)});
  PeerRow row;
  row.step = 1;
  row.peer = 2;
  row.stage = 3;
  row.compute_s = 4.5;
  row.idle_s = -5.5;
  row.communication_s = 6.5;
  row.recovery_s = kOddNan;
  row.repeated = 8;
  row.queue = 9.5;
  row.bytes_sent = kMost;
  row.bytes_received = kLeast;
  row.microbatches = 12;
  report.uses.push_back({row});
  return report;
}

ViewMessage odd_view() {
  View view;
  view.number = {Term(9), 77};
  view.members[PeerId(0)] = {};
  view.members[PeerId(4)] = {StageId(0), StageId(3)};
  view.members[PeerId(2147483647)] = {StageId(-2147483647)};
  return {view};
}

// One of every kind, every field unlike its default, lists empty and long, payloads null, empty and
// large.
std::vector<MessageBody> one_of_everything() {
  return {
      odd_view(),
      ViewMessage{},
      IssueMessage{kMicrobatch, -0.0},
      ForwardMessage{kWork, payload_of(100'000), kOddNan},
      ForwardMessage{kWork, nullptr, 1.5},
      ForwardDone{kWork, 1.25, kOddNan, -2.5},
      BackwardMessage{kWork, payload_of(0)},
      BackwardMessage{kWork, nullptr},
      odd_report(),
      ReportMessage{},
      SealMessage{kSeal,
                  Step(4),
                  {{StageId(1), PeerId(2), odd_bitmap()}, {StageId(3), PeerId(4), Bitmap()}},
                  true},
      SealAnswer{kSeal, StageId(2), true, odd_bitmap()},
      ShareMessage{kSeal, StageId(3), -12, payload_of(17)},
      ChunkMessage{kSeal, StageId(4), 13, {kOddNan, 0, 1e300}, payload_of(4096)},
      ReducedMessage{kSeal, StageId(5), {0.1, 0.2}},
      CommitMessage{std::make_shared<const CommitRecord>(odd_record())},
      CheckpointMessage{Step(6), StageId(7)},
      StageStoredMessage{Step(8), StageId(9), {std::string("a\0b\xff", 4), ~0ULL, 10}, {0, ~0ULL}},
      NoticeMessage{"SIGUSR1"},
      FailureMessage{ExitStatus::stopped, "no space left"},
      HeartbeatMessage{},
      EndMessage{ExitStatus::no, std::string(100'000, 'x')},
      EndHeard{},
  };
}

Message with(MessageBody body) { return {Incarnation(-5), {Term(kMost), kLeast}, std::move(body)}; }

const Payload* payload_of(const Message& message) {
  if (const auto* m = std::get_if<ForwardMessage>(&message.body)) return m->activations.get();
  if (const auto* m = std::get_if<BackwardMessage>(&message.body)) return m->gradient.get();
  if (const auto* m = std::get_if<ShareMessage>(&message.body)) return m->sums.get();
  if (const auto* m = std::get_if<ChunkMessage>(&message.body)) return m->gradient.get();
  return nullptr;
}

TEST(Wire, TheSampleHasEveryKindOfMessage) {
  std::vector<bool> seen(std::variant_size_v<MessageBody>);
  for (const MessageBody& body : one_of_everything()) seen[body.index()] = true;
  EXPECT_EQ(std::count(seen.begin(), seen.end(), false), 0);
}

// Packing names every field (the compiler sees to it), so equal bytes are equal messages.
TEST(Wire, EveryMessageComesBack) {
  for (const MessageBody& body : one_of_everything()) {
    SCOPED_TRACE(body.index());
    const Packed packed = pack(with(body));
    const Result<Message> back = unpack(packed.header, packed.payload);
    ASSERT_TRUE(back.ok()) << back.status().message();
    EXPECT_EQ(back.value().body.index(), body.index());
    EXPECT_EQ(payload_of(back.value()), packed.payload.get()) << "the payload must not be copied";
    const Packed again = pack(back.value());
    EXPECT_EQ(again.header, packed.header);
    EXPECT_EQ(again.payload, packed.payload);
  }
}

// And no two fields share bytes: these are looked at one by one.
TEST(Wire, FieldsComeBackInTheirPlaces) {
  const auto round_trip = [](MessageBody body) {
    const Packed packed = pack(with(std::move(body)));
    return unpack(packed.header, packed.payload).value();
  };
  const Message envelope = round_trip(EndHeard{});
  EXPECT_EQ(envelope.incarnation, Incarnation(-5));
  EXPECT_EQ(envelope.view, (ViewNumber{Term(kMost), kLeast}));

  const View view = std::get<ViewMessage>(round_trip(odd_view()).body).view;
  EXPECT_EQ(view.number, odd_view().view.number);
  EXPECT_EQ(view.members, odd_view().view.members);

  const Message forward = round_trip(ForwardMessage{kWork, payload_of(5), kOddNan});
  EXPECT_EQ(std::get<ForwardMessage>(forward.body).work, kWork);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(std::get<ForwardMessage>(forward.body).sent_s),
            std::bit_cast<std::uint64_t>(kOddNan));

  const Message answer = round_trip(SealAnswer{kSeal, StageId(2), true, odd_bitmap()});
  EXPECT_EQ(std::get<SealAnswer>(answer.body).seal, kSeal);
  EXPECT_TRUE(std::get<SealAnswer>(answer.body).frozen);
  EXPECT_EQ(std::get<SealAnswer>(answer.body).carried, odd_bitmap());

  const Message commit =
      round_trip(CommitMessage{std::make_shared<const CommitRecord>(odd_record())});
  const CommitRecord& record = *std::get<CommitMessage>(commit.body).record;
  EXPECT_EQ(std::bit_cast<std::uint64_t>(record.loss), std::bit_cast<std::uint64_t>(kOddNan));
  EXPECT_TRUE(std::signbit(record.grad_norm));
  EXPECT_EQ(std::bit_cast<std::uint32_t>(record.correction2), 0x7fc0'1234U);
  EXPECT_EQ(record.tokens, kLeast);
  EXPECT_EQ(record.next_exponents, odd_record().next_exponents);
  EXPECT_EQ(record.flagged, odd_record().flagged);

  const Message report = round_trip(odd_report());
  const PeerRow& row = std::get<ReportMessage>(report.body).uses.at(0).row;
  EXPECT_EQ(row.communication_s, 6.5);
  EXPECT_EQ(row.bytes_sent, kMost);
  EXPECT_EQ(row.microbatches, 12);
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
  expected[24] = std::byte(MessageBody(CheckpointMessage{}).index());
  expected[25] = std::byte{5};
  expected[33] = std::byte{6};
  EXPECT_EQ(packed.header, expected);
}

TEST(Wire, AHeaderThatIsCutShortOrGoesOnIsRefused) {
  for (const MessageBody& body : one_of_everything()) {
    SCOPED_TRACE(body.index());
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

TEST(Wire, APayloadThatIsMissingOrTooManyIsRefused) {
  const Packed with_one = pack(with(ShareMessage{kSeal, StageId(3), 1, payload_of(17)}));
  EXPECT_FALSE(unpack(with_one.header, nullptr).ok());
  const Packed with_none = pack(with(ShareMessage{kSeal, StageId(3), 1, nullptr}));
  EXPECT_FALSE(unpack(with_none.header, payload_of(17)).ok());
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
}  // namespace swarmpi
