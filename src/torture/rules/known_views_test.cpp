#include "torture/rules/known_views.hpp"

#include <gtest/gtest.h>

#include "core/status.hpp"

namespace swarmpi::known_views_test {
namespace {

const PeerId kLeader(0), kOther(1), kNewcomer(7);
const StageId kFront(0), kBack(1);

// Peer 0 leads term 1 and serves stage 0, peer 1 stage 1.
struct Scene {
  Scene() { views.created_term(kLeader, Term(1)); }
  static ViewRef view(std::int64_t number, std::int64_t term = 1) {
    View view = deal_peers({kLeader, kOther}, {}, {1, 1});
    view.number = {Term(term), number};
    view.learn(kLeader, kBack);
    return share(view);
  }
  std::string sends(std::int64_t number, std::int64_t term = 1) {
    return views.sends(kLeader, kOther, view(number, term), false);
  }
  // What is undelivered once all have ended like this.
  std::string at_the_end(const Status& status = {}) {
    for (const PeerId peer : {kLeader, kOther}) population.finished(peer, status, true, true);
    return views.undelivered(population);
  }

  Population population{{kLeader, kOther}};
  KnownViews views{share(deal_peers({kLeader, kOther}, {}, {1, 1}))};
};

TEST(KnownViews, ALeaderCreatesItsTermFirst) {
  Scene scene;
  EXPECT_EQ(scene.sends(1), "");
  EXPECT_EQ(scene.sends(1, 2), "a leader has a term of its own: it has not created term 2");
  scene.views.created_term(kOther, Term(2));
  EXPECT_NE(scene.sends(1, 2), "") << "it is another peer's";
}

TEST(KnownViews, APeerHasTheStagesOfAllItsViews) {
  Scene scene;
  EXPECT_TRUE(scene.views.has_had(kLeader, kFront));
  EXPECT_FALSE(scene.views.has_had(kLeader, kBack));
  scene.sends(1);
  EXPECT_TRUE(scene.views.has_had(kLeader, kBack)) << "the leader knows the view that it makes";
  EXPECT_FALSE(scene.views.has_had(kOther, kFront));
}

TEST(KnownViews, ThoseThatGoOnKnowWhoIsInTheirViews) {
  Scene scene;
  EXPECT_TRUE(scene.views.known_to_others(kOther, scene.population));
  EXPECT_FALSE(scene.views.known_to_others(kNewcomer, scene.population));
  scene.population.died(kLeader);
  EXPECT_FALSE(scene.views.known_to_others(kOther, scene.population)) << "only itself is left";
}

TEST(KnownViews, ANewcomerThatLedLastIsKnown) {
  Scene scene;
  EXPECT_FALSE(scene.views.newcomer_that_led_last());
  scene.views.created_term(kNewcomer, Term(2));
  EXPECT_EQ(scene.views.newcomer_that_led_last(), kNewcomer);
}

TEST(KnownViews, TheLastViewArrives) {
  Scene scene;
  scene.sends(1);
  scene.sends(2);
  scene.views.adopts(kOther, Scene::view(1));
  EXPECT_EQ(scene.views.newest().number.number, 2);
  EXPECT_EQ(scene.at_the_end(), "peer 1 has not received the last view of peer 0");
  scene.views.adopts(kOther, Scene::view(2));
  EXPECT_EQ(scene.at_the_end(), "");
}

TEST(KnownViews, AViewNeedNotArriveWhereNobodyWaitsForIt) {
  const auto after = [](auto happens) {
    Scene scene;
    happens(scene);
    scene.sends(1);
    return scene.at_the_end();
  };
  EXPECT_NE(after([](Scene&) {}), "");
  EXPECT_EQ(after([](Scene& s) { s.views.all_exit(); }), "");
  EXPECT_EQ(after([](Scene& s) { s.views.unreachable(kOther); }), "");
  EXPECT_EQ(after([](Scene& s) { s.population.died(kLeader); }), "");
  EXPECT_EQ(after([](Scene& s) { s.population.exclude(kOther); }), "");
  Scene cut_off;
  cut_off.sends(1);
  EXPECT_EQ(cut_off.at_the_end(Status::stopped("peer 0 does not answer, and cannot be killed")),
            "");
}

}  // namespace
}  // namespace swarmpi::known_views_test
