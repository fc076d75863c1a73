#include "emulation/emulated_peer_host.hpp"

#include <gtest/gtest.h>

namespace swarmpi {
namespace {

struct Scene {
  Inbox inbox;
  EmulatedPeerHost host{
      PeerId(2),
      {{1, FaultEvent::kill, 2}, {2, FaultEvent::join, 6}, {3, FaultEvent::stop, 6}},
      inbox};
};

TEST(EmulatedPeerHost, AFaultHappensOnlyToThePeerThatLivesHere) {
  Scene scene;
  scene.host.inject_fault({0, FaultEvent::stop, 6});
  EXPECT_FALSE(scene.host.emulated_process().stopped);
  scene.host.inject_fault({0, FaultEvent::stop, 2});
  EXPECT_TRUE(scene.host.emulated_process().stopped);
  scene.host.inject_fault({0, FaultEvent::go_on, 2});
  EXPECT_FALSE(scene.host.emulated_process().stopped);
  scene.host.inject_fault({0, FaultEvent::cut, 2});
  EXPECT_TRUE(scene.host.emulated_process().cut);
  scene.host.inject_fault({0, FaultEvent::heal, 2});
  EXPECT_FALSE(scene.host.emulated_process().cut);
  scene.host.inject_fault({0, FaultEvent::kill, 2});
  EXPECT_TRUE(scene.host.emulated_process().dead);
}

TEST(EmulatedPeerHost, ANoticeIsAStopRequestLikeASignal) {
  Scene scene;
  scene.host.inject_fault({0, FaultEvent::notice, 2});
  const std::optional<Event> event = scene.inbox.take();
  ASSERT_TRUE(event);
  EXPECT_TRUE(std::holds_alternative<StopRequested>(*event));
}

TEST(EmulatedPeerHost, TheNextPeerJoinsAtItsTimeWithNothingOfTheOneBefore) {
  Scene scene;
  EXPECT_TRUE(scene.host.expects_newcomers());
  EXPECT_FALSE(scene.host.admit_next());
  scene.host.inject_fault({0, FaultEvent::cut, 2});
  scene.host.inject_fault({0, FaultEvent::kill, 2});
  scene.inbox.post(StopRequested{"of the peer before"});
  scene.host.inject_fault({0, FaultEvent::join, 6});
  scene.host.clear();
  EXPECT_FALSE(scene.inbox.take());
  EXPECT_EQ(scene.host.admit_next(), PeerId(6));
  EXPECT_FALSE(scene.host.emulated_process().dead);
  EXPECT_FALSE(scene.host.emulated_process().cut);
  EXPECT_FALSE(scene.host.expects_newcomers());
  scene.host.inject_fault({0, FaultEvent::kill, 2});
  EXPECT_FALSE(scene.host.emulated_process().dead);
}

}  // namespace
}  // namespace swarmpi
