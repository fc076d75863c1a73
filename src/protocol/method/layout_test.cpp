#include "protocol/method/layout.hpp"

#include <gtest/gtest.h>

namespace swarmpi::layout_test {
namespace {

std::vector<PeerId> peers(std::int32_t first, std::int32_t end) {
  std::vector<PeerId> ids;
  for (std::int32_t id = first; id < end; ++id) ids.emplace_back(id);
  return ids;
}

std::vector<std::int32_t> serving(const View& view, std::int32_t stage) {
  std::vector<std::int32_t> ids;
  for (const PeerId peer : view.replicas(StageId(stage))) ids.push_back(peer.value);
  return ids;
}

using Ids = std::vector<std::int32_t>;

TEST(Layout, PipelinesAreOfNeighboursWhateverTheStagesCost) {
  const View view = lay_out(Method::gpipe, peers(0, 6), {}, {1, 9});
  EXPECT_EQ(serving(view, 0), (Ids{0, 2, 4}));
  EXPECT_EQ(serving(view, 1), (Ids{1, 3, 5}));
}

TEST(Layout, PeersThatAreTooFewForAPipelineAreSpares) {
  const View view = lay_out(Method::one_f_one_b, peers(0, 8), peers(8, 9), {1, 1, 1});
  EXPECT_EQ(serving(view, 0), (Ids{0, 3}));
  EXPECT_EQ(serving(view, 2), (Ids{2, 5}));
  EXPECT_EQ(view.idle(), (std::set<PeerId>{PeerId(6), PeerId(7), PeerId(8)}));
}

TEST(Layout, WithFewerPeersThanStagesThereIsOnePipeline) {
  const View view = lay_out(Method::gpipe, peers(0, 2), {}, {1, 1, 1, 1});
  EXPECT_EQ(serving(view, 1), (Ids{0}));
  EXPECT_EQ(serving(view, 2), (Ids{1}));
}

TEST(Layout, EachWorkerIsAPipelineOfOneStage) {
  EXPECT_EQ(serving(lay_out(Method::data_parallel, peers(0, 3), {}, {1}), 0), (Ids{0, 1, 2}));
}

TEST(Layout, PipelinesShareTheMicrobatchesOfAStep) {
  EXPECT_EQ((PipelineShare{0, 3}.of(7)), 3);
  EXPECT_EQ((PipelineShare{1, 3}.of(7)), 2);
  EXPECT_EQ((PipelineShare{2, 3}.of(2)), 0) << "a pipeline without work";
}

TEST(Layout, SwarmAloneHasAWindowAtTheSource) {
  Config config;
  config.swarm.stages = 4;
  config.train.microbatches = 20;
  EXPECT_EQ(source_window(config.swarm, 8), 8);
  EXPECT_EQ(most_open_at_a_peer(config, 8), 8);
  config.swarm.method = Method::one_f_one_b;
  EXPECT_EQ(source_window(config.swarm, 8), kNoWindow);
  EXPECT_EQ(most_open_at_a_peer(config, 8), 4) << "as many as there are stages";
  config.swarm.method = Method::gpipe;
  EXPECT_EQ(most_open_at_a_peer(config, 8), 10) << "all of its pipeline";
  EXPECT_EQ(most_open_at_a_peer(config, 3), 20) << "one pipeline";
}

}  // namespace
}  // namespace swarmpi::layout_test
