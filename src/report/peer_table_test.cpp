#include "report/peer_table.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace swarmpi::peer_table_test {
namespace {

PeerRow use(std::int64_t step, std::int64_t peer, std::int64_t stage) {
  PeerRow row;
  row.step = step;
  row.peer = peer;
  row.stage = stage;
  row.microbatches = 2 + peer;
  row.compute_s = 6;
  row.communication_s = 1;
  row.idle_s = 3;
  row.transfer_s = 2;
  row.bytes_sent = 512 << 20;
  return row;
}

std::vector<std::string> peer_table(const std::vector<PeerRow>& rows) {
  PeerTable table;
  for (const PeerRow& row : rows) table.add(row);
  return table.lines();
}

TEST(PeerTable, ASinglePeerHasNone) {
  EXPECT_TRUE(peer_table({}).empty());
  EXPECT_TRUE(peer_table({use(1, 0, 0), use(1, 0, 1), use(2, 0, 0)}).empty());
}

TEST(PeerTable, TellsWhatEachPeerDid) {
  EXPECT_EQ(peer_table({use(1, 0, 0), use(1, 1, 1), use(1, 1, 2), use(2, 0, 0), use(2, 1, 1),
                        use(2, 1, 2)}),
            (std::vector<std::string>{
                "peer  stages  microbatches  compute  transfer  waiting      sent",
                "   0       0             4   60.0 %    20.0 %   20.0 %  1.00 GiB",
                "   1     1,2            12   60.0 %    20.0 %   20.0 %  2.00 GiB"}));
}

TEST(PeerTable, RecoveryHasAColumnWhereItTookTime) {
  std::vector<PeerRow> rows = {use(1, 0, 0), use(1, 1, 0)};
  rows[1].recovery_s = 2;
  const std::vector<std::string> lines = peer_table(rows);
  EXPECT_NE(lines[0].find("compute  recovery  transfer  waiting"), std::string::npos) << lines[0];
  EXPECT_NE(lines[2].find("40.0 %    20.0 %    20.0 %   20.0 %"), std::string::npos) << lines[2];
}

TEST(PeerTable, FilesThatDoNotTellTransferFromWaitingHaveNoColumnOfIt) {
  std::vector<PeerRow> rows = {use(1, 0, 0), use(1, 1, 0)};
  for (PeerRow& row : rows) row.transfer_s = 0;
  const std::vector<std::string> lines = peer_table(rows);
  EXPECT_NE(lines[0].find("compute  waiting"), std::string::npos) << lines[0];
  EXPECT_NE(lines[1].find("60.0 %   40.0 %"), std::string::npos) << lines[1];
}

TEST(PeerTable, NeighbouringStagesAreARange) {
  std::vector<PeerRow> rows = {use(1, 0, 9)};
  for (const std::int64_t stage : {0, 1, 2, 3, 7}) rows.push_back(use(1, 1, stage));
  EXPECT_NE(peer_table(rows)[2].find(" 0-3,7 "), std::string::npos);
}

TEST(PeerTable, ManyPeersAreToldByStage) {
  std::vector<PeerRow> rows;
  for (std::int64_t peer = 0; peer < 64; ++peer) rows.push_back(use(1, peer, peer % 4));
  const std::vector<std::string> lines = peer_table(rows);
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0], "stage  peers  microbatches  a peer  compute  transfer  waiting      sent");
  EXPECT_EQ(lines[2], "    1     16           528    3-63   60.0 %    20.0 %   20.0 %  8.00 GiB");
}

TEST(PeerTable, WithoutAnyTimeThereAreNoShares) {
  EXPECT_NE(peer_table({PeerRow{}, PeerRow{1, 1, 0}})[1].find("-"), std::string::npos);
}

TEST(PeerTable, SaysWhereRowsWereThinnedOut) {
  std::vector<PeerRow> rows;
  for (std::int64_t step = 0; step < 40'000; ++step) {
    if (step % 4 != 0) continue;
    for (std::int64_t peer = 0; peer < 2; ++peer) rows.push_back({step, peer, 0});
  }
  EXPECT_EQ(peer_table(rows).back(), "of 25 % of the steps: a fast run keeps no more");
}

}  // namespace
}  // namespace swarmpi::peer_table_test
