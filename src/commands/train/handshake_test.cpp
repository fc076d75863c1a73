#include "commands/train/handshake.hpp"

#include <gtest/gtest.h>

#include "commands/train/newcomer.hpp"
#include "core/archive.hpp"
#include "core/hash.hpp"
#include "transport/mpi/process.hpp"
#include "transport/wire/samples_test.hpp"
#include "transport/wire/wire.hpp"

namespace swarmpi::handshake_test {
namespace {

std::vector<StartInfo> start_infos(std::size_t ranks) {
  std::vector<StartInfo> start_infos(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    start_infos[r].host = "node" + std::to_string(r);
    start_infos[r].build = "1.0";
    start_infos[r].deck = "[train]\nlr = 0.25\n[data]\npaths = [\"12:34\"]\n";
    start_infos[r].data_hash = "da7a";
    start_infos[r].fingerprint = "f00d";
    start_infos[r].step = 40;
    start_infos[r].stage_hashes[StageId(static_cast<std::int32_t>(r % 2))] = 1000 + r % 2;
  }
  return start_infos;
}

TEST(StartInfo, IsReadAsItWasPacked) {
  StartInfo rank = start_infos(1)[0];
  rank.status = Status::bad_input("no such file: \"x:y\"\n");
  const Result<StartInfo> read = unpack_start_info(rank.packed());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read.value().packed(), rank.packed());
  EXPECT_EQ(read.value().status.message(), rank.status.message());
  EXPECT_EQ(read.value().stage_hashes, rank.stage_hashes);
}

// Each rank of a host reads a share of a checkpoint.
TEST(StartInfo, WhatOneRankFindsDamagedAllPassOver) {
  std::vector<StartInfo> ranks = start_infos(3);
  EXPECT_TRUE(damaged_unknown_to_some(ranks).empty());
  const DamagedCheckpoint eight{"run/step-8", 8, "stage-1 is damaged"};
  const DamagedCheckpoint six{"run/step-6", 6, "stage-0 is damaged"};
  ranks[1].damaged = {eight};
  ranks[2].damaged = {six};
  const std::vector<DamagedCheckpoint> found = damaged_unknown_to_some(ranks);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].path, six.path);
  EXPECT_EQ(found[1].why, eight.why);
  for (StartInfo& rank : ranks) rank.damaged = {eight, six};
  EXPECT_TRUE(damaged_unknown_to_some(ranks).empty()) << "all have found their start anew";
  ranks[0].damaged.clear();
  ranks[1].status = Status::bad_input("no such file");
  EXPECT_TRUE(damaged_unknown_to_some(ranks).empty()) << "they cannot start anyway";
}

TEST(StartInfo, OneRankOfAHostReadsTheDataForAllThatSeeTheSameFiles) {
  std::vector<StartInfo> ranks = start_infos(4);
  for (std::size_t r = 0; r < 4; ++r) {
    ranks[r].host = r < 2 ? "node0" : "node1";
    ranks[r].data_files = "8:1234";
    if (r % 2 == 1) ranks[r].data_hash.clear();
  }
  EXPECT_EQ(data_hashes(ranks), std::vector<std::string>(4, "da7a"));
  EXPECT_FALSE(has_unread_data(ranks));
  EXPECT_TRUE(check_compatible(ranks).ok());
  ranks[2].data_files = ranks[3].data_files = "";  // neither could look
  EXPECT_EQ(data_hashes(ranks)[3], "");
  ranks[2].data_files = "8:1234";
  ranks[3].data_files = "9:1";  // a mount of its own
  EXPECT_EQ(data_hashes(ranks)[3], "");
  EXPECT_TRUE(has_unread_data(ranks));
  ranks[3].data_hash = "beef";
  EXPECT_FALSE(has_unread_data(ranks));
  const std::string why = check_compatible(ranks).message();
  EXPECT_NE(
      why.find("data mismatch: that of rank 0 on node0 has hash da7a, that of rank 3 on node1 "
               "has beef"),
      std::string::npos)
      << why;
  ranks[3].data_hash.clear();
  ranks[2].deck += "[swarm]\n";
  EXPECT_FALSE(has_unread_data(ranks)) << "they are refused for their decks";
  ranks[2].deck = ranks[0].deck;
  EXPECT_TRUE(has_unread_data(ranks));
  ranks[2].status = Status::bad_input("no such file");
  EXPECT_FALSE(has_unread_data(ranks)) << "they cannot start anyway";
}

TEST(StartInfo, OfAnotherBuildIsRefused) {
  const std::string good = start_infos(1)[0].packed();
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(unpack_start_info(good.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(unpack_start_info(good + "1:x").ok());
  EXPECT_FALSE(unpack_start_info("99999999999999999999:x").ok());
  EXPECT_FALSE(unpack_start_info("wire version 3").ok());
}

std::string spoken() { return "wire version " + std::to_string(kWireVersion); }

TEST(StartInfo, OfAnotherWireVersionIsRefusedByName) {
  const auto refusal = [](const std::string& text) {
    const Status status = unpack_start_info(text).status();
    EXPECT_EQ(status.code(), ExitStatus::no);
    EXPECT_NE(status.message().find("this rank " + spoken() + " "), std::string::npos)
        << status.message();
    return status.message();
  };
  const std::string next = "wire version " + std::to_string(kWireVersion + 1);
  std::string later = start_infos(1)[0].packed();
  later.replace(later.find(spoken()), spoken().size(), next);
  EXPECT_NE(refusal(later).find("it speaks " + next + ","), std::string::npos);
  // How commits began before the wire had a version: status and message.
  EXPECT_NE(refusal("1:00:5:node0").find("it speaks no wire version,"), std::string::npos);
}

template <HasFields T>
std::string filled_bytes() {
  T object;
  test::Filler().fill(object);
  return to_bytes(object);
}

TEST(WireVersion, GrowsWithTheBytesThatRanksExchange) {
  std::uint64_t hash = 0;
  const auto add = [&hash](const void* data, std::size_t size_bytes) {
    hash = hash_bytes(data, size_bytes, hash);
  };
  for (const MessageBody& body : test::one_of_everything()) {
    const Packed packed = pack({Incarnation(-5), {Term(3), 4}, body});
    add(packed.header.data(), packed.header.size());
    if (packed.payload) add(packed.payload->data(), packed.payload->size_bytes());
  }
  for (const std::string& bytes :
       {filled_bytes<StartInfo>(), filled_bytes<RunningSwarm>(), filled_bytes<Process>()}) {
    add(bytes.data(), bytes.size());
  }
  EXPECT_EQ(hash, kWireHash) << "raise kWireVersion, then let kWireHash be 0x" << hex(hash);
}

// A host may list the folder of the journal as it was a minute ago.
TEST(FirstTerm, IsThatOfTheNewestListing) {
  auto ranks = start_infos(3);
  EXPECT_EQ(first_term(ranks), 1);
  ranks[1].first_term = 4;
  ranks[2].first_term = 3;
  EXPECT_EQ(first_term(ranks), 4);
}

TEST(CheckCompatible, EqualRanksAre) { EXPECT_TRUE(check_compatible(start_infos(4)).ok()); }

TEST(CheckCompatible, TheFirstRankThatFailedIsNamed) {
  auto ranks = start_infos(4);
  ranks[2].status = Status::bad_input("cannot read data.bin");
  const Status status = check_compatible(ranks);
  EXPECT_EQ(status.code(), ExitStatus::bad_input);
  EXPECT_EQ(status.message(), "rank 2 on node2: cannot read data.bin");
}

TEST(CheckCompatible, WhatFailedOnAllRanksNamesNone) {
  auto ranks = start_infos(3);
  for (StartInfo& rank : ranks) rank.status = Status::bad_input("RUN.h5 exists");
  EXPECT_EQ(check_compatible(ranks).message(), "RUN.h5 exists");
}

TEST(CheckCompatible, NamesWhatDiffersAndWhere) {
  const auto message = [](auto change) {
    auto ranks = start_infos(4);
    change(ranks[3]);
    const Status status = check_compatible(ranks);
    EXPECT_EQ(status.code(), ExitStatus::bad_input);
    EXPECT_NE(status.message().find("rank 3 on node3"), std::string::npos) << status.message();
    return status.message();
  };
  EXPECT_NE(message([](auto& r) {
              r.build = "1.1";
            }).find("build mismatch: rank 0 on node0 has 1.0, rank 3 on node3 has 1.1: "),
            std::string::npos);
  EXPECT_NE(
      message([](auto& r) { r.deck = "[train]\nlr = 0.5\n"; }).find("train.lr is 0.25 and 0.5"),
      std::string::npos);
  EXPECT_NE(message([](auto& r) { r.deck = "?"; }).find("deck mismatch"), std::string::npos);
  EXPECT_NE(message([](auto& r) { r.fingerprint = "beef"; }).find("fingerprint mismatch"),
            std::string::npos);
  EXPECT_NE(message([](auto& r) { r.step = 20; }).find("step 20"), std::string::npos);
}

TEST(CheckCompatible, FingerprintsMayDifferWhereTheDeckSaysSo) {
  auto ranks = start_infos(4);
  const std::string equal = mixed_fingerprint(ranks, "");
  EXPECT_EQ(equal.find("mixed "), 0u) << "a newcomer may have another: " << equal;
  ranks[3].fingerprint = "beef";
  EXPECT_FALSE(check_compatible(ranks).ok());
  EXPECT_TRUE(check_compatible(ranks, true).ok());
  const std::string mixed = mixed_fingerprint(ranks, "");
  EXPECT_NE(mixed, equal);
  std::swap(ranks[0].fingerprint, ranks[3].fingerprint);
  EXPECT_EQ(mixed_fingerprint(ranks, ""), mixed) << "whoever has which";
  EXPECT_NE(mixed_fingerprint(ranks, "cafe"), mixed) << "resumed from what others have made";
}

TEST(CheckCompatible, AnotherBuildMayFailForThatAlone) {
  auto ranks = start_infos(2);
  ranks[1].build = "1.1";
  ranks[1].status = Status::bad_input("unknown key");
  EXPECT_EQ(check_compatible(ranks).message().find("build mismatch"), 0u);
}

TEST(CheckLoaded, TheWholeStateMustBeTheCheckpoints) {
  EXPECT_TRUE(check_loaded(start_infos(4), "step-40", 2001).ok());
  const Status damaged = check_loaded(start_infos(4), "step-40", 2002);
  EXPECT_EQ(damaged.code(), ExitStatus::bad_input);
  EXPECT_EQ(damaged.message().find("step-40 is damaged"), 0u) << damaged.message();
}

TEST(CheckLoaded, ReplicasMustHaveLoadedTheSame) {
  auto ranks = start_infos(4);
  ++ranks[3].stage_hashes[StageId(1)];
  const std::string message = check_loaded(ranks, "step-40", 2001).message();
  EXPECT_NE(message.find("rank 1 on node1 and rank 3 on node3"), std::string::npos) << message;
  EXPECT_NE(message.find("stage 1"), std::string::npos) << message;
}

TEST(CheckLoaded, WhatOwnersHaveLoadedAddsUpAndTheirWeightsAreTheSame) {
  std::vector<StartInfo> ranks(3);
  for (std::size_t r = 0; r < 3; ++r) {
    ranks[r].stage_hashes[StageId(0)] = r + 1;
    ranks[r].weight_hashes[StageId(0)] = 77;
  }
  EXPECT_TRUE(check_loaded(ranks, "step-40", 6).ok());
  EXPECT_EQ(check_loaded(ranks, "step-40", 7).code(), ExitStatus::bad_input);
  ++ranks[2].weight_hashes[StageId(0)];
  const std::string message = check_loaded(ranks, "step-40", 6).message();
  EXPECT_NE(message.find("different states of stage 0"), std::string::npos) << message;
}

TEST(CheckLoaded, WhoHasLoadedNothingCannotTell) {
  EXPECT_TRUE(check_loaded(std::vector<StartInfo>(1), "step-40", 2001).ok());
}

}  // namespace
}  // namespace swarmpi::handshake_test
