// The bytes of every message, as commit db79bc35 sent them. Only a message that is new or has
// changed gets another hash here.

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>

#include "core/hash.hpp"
#include "transport/wire/samples_test.hpp"
#include "transport/wire/wire.hpp"

namespace swarmpi::test::golden_test {
namespace {

struct Golden {
  int number;
  std::uint64_t hash;
};

const std::map<std::string, Golden> kGolden = {
    {"ViewMessage", {0, 0xf44c80831423d3c6}},
    {"InquiryMessage", {1, 0xec6ef9bdb983aefc}},
    {"InquiryAnswer", {2, 0x8a7e5d5e3b1d02de}},
    {"IssueMessage", {3, 0x1a4d7145be87af52}},
    {"ForwardMessage", {4, 0x3172267b9a559d5d}},
    {"ResendMessage", {5, 0x6812a6c1775a6229}},
    {"RedirectMessage", {6, 0x8514e1aae86a9d53}},
    {"UnableMessage", {7, 0xc5312aa0682d6385}},
    {"ForwardDone", {8, 0x12f05993b3073344}},
    {"BackwardMessage", {9, 0x12b8df052b47de39}},
    {"ReportMessage", {10, 0x588da5c7aef76415}},
    {"SealMessage", {11, 0xa2aaa3b8e19cc97f}},
    {"ReopenMessage", {12, 0x8bb65512888e6d34}},
    {"SealRefused", {13, 0x65f8fc75def7076a}},
    {"ShareMessage", {14, 0x3cf450c3f0e25418}},
    {"ChunkMessage", {15, 0x296b6fa871ce8440}},
    {"ChunkRefused", {16, 0xaaf18d82bb88b1bb}},
    {"ReducedMessage", {17, 0x9d81c8d910a36a5e}},
    {"CommitMessage", {18, 0x391493837c6a9184}},
    {"TableMessage", {19, 0x14b82428921daba4}},
    {"FetchMessage", {20, 0xd47968c313faae42}},
    {"PieceMessage", {21, 0x23cff60cb5122e5d}},
    {"LearnedMessage", {22, 0xcbe302ee1efb888a}},
    {"JoinMessage", {23, 0xcf898042f18aa50e}},
    {"CheckpointMessage", {24, 0x426ca4a98ac0a333}},
    {"StageStoredMessage", {25, 0x7e49bad115b8f8af}},
    {"NoticeMessage", {26, 0xb1b54dfc0f9a3701}},
    {"FailureMessage", {27, 0x89f48375b74692b1}},
    {"LostMessage", {28, 0x4a035338caef8d75}},
    {"HeartbeatMessage", {29, 0x864e94eecb7617c7}},
    {"PingMessage", {30, 0xe4b29f056f8b82b9}},
    {"PongMessage", {31, 0x40a9dfd894c63a7e}},
    {"SuspectMessage", {32, 0x3d3a2e640d66949b}},
    {"FencedMessage", {33, 0xd9293b3c2094f726}},
    {"LateMessage", {34, 0x5f36aecb29ea55b1}},
    {"TryMessage", {35, 0xfb793c56e87cdefa}},
    {"TriedMessage", {36, 0x885b8b2b9894d0e9}},
    {"ResignMessage", {37, 0x470e8bfef770eacd}},
    {"AbstainMessage", {38, 0x3e1afc4d6b695e6d}},
    {"ReleaseMessage", {39, 0x2b60818fda2a3eef}},
    {"EndMessage", {40, 0x0ef3f3b14b8e1b63}},
    {"EndHeard", {41, 0x43df01172e73fbc4}},
    {"ExitMessage", {42, 0x1339b3a3deebf8a5}},
    {"AbleMessage", {43, 0x99ea85b2013b9b85}},
    {"RatiosMessage", {44, 0x802eaff704bf85d9}},
    {"NoRoomMessage", {45, 0x1dda47b25ca3af1b}},
    {"DamagedMessage", {46, 0x7961e31cb3281519}},
    {"WeightsMessage", {47, 0x8883a4bd7ad62015}},
    {"WeightsPlaced", {48, 0x6876a8a16306eab9}},
    {"WholeViewRequest", {49, 0x74507c0d2f9ea77d}},
    {"CollectiveIdMessage", {50, 0x2dd2d06de5b40293}},
    {"CollectiveWord", {51, 0xce27d0b92b5e3c52}},
    {"EnterMessage", {52, 0x65c886dde15babaa}},
};

std::uint64_t hash_of(const MessageBody& body) {
  const Packed packed = pack({Incarnation(-5), {Term(kMost), kLeast}, body});
  const std::uint64_t header = hash_bytes(packed.header.data(), packed.header.size());
  if (!packed.payload) return header;
  return hash_bytes(packed.payload->data(), packed.payload->size_bytes(), header);
}

TEST(WireGolden, EveryMessageHasItsNumberAndItsBytes) {
  std::map<std::string, Golden> now;
  for (const MessageBody& body : one_of_each()) {
    now[std::string(traits_of(body).name)] = {body.number(), hash_of(body)};
  }
  EXPECT_EQ(now.size(), kGolden.size());
  for (const auto& [name, golden] : kGolden) {
    EXPECT_EQ(now[name].number, golden.number) << name;
    EXPECT_EQ(now[name].hash, golden.hash) << name;
  }
}

}  // namespace
}  // namespace swarmpi::test::golden_test
