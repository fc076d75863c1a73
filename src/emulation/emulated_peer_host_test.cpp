#include "emulation/emulated_peer_host.hpp"

#include <gtest/gtest.h>

#include "transport/loopback.hpp"

namespace swarmpi::emulated_peer_host_test {
namespace {

struct Scene {
  Inbox inbox;
  LoopbackTransport below{PeerId(2)};
  EmulatedTransport transport{PeerId(2), below, inbox};
  EmulatedPeerHost host{
      PeerId(2),
      {{1, FaultEvent::kill, 2}, {2, FaultEvent::join, 6}, {3, FaultEvent::kill, 6}},
      transport,
      inbox};
};

TEST(EmulatedPeerHost, AFaultHappensOnlyToThePeerThatLivesHere) {
  Scene scene;
  scene.host.inject_fault({0, FaultEvent::kill, 6});
  EXPECT_FALSE(scene.transport.ended());
  scene.host.inject_fault({0, FaultEvent::kill, 2});
  EXPECT_TRUE(scene.transport.ended());
}

TEST(EmulatedPeerHost, TheNextPeerJoinsAtItsTime) {
  Scene scene;
  EXPECT_TRUE(scene.host.expects_newcomers());
  EXPECT_FALSE(scene.host.admit_next());
  scene.host.inject_fault({0, FaultEvent::kill, 2});
  scene.host.inject_fault({0, FaultEvent::join, 6});
  EXPECT_EQ(scene.host.admit_next(), PeerId(6));
  EXPECT_FALSE(scene.transport.ended());
  EXPECT_FALSE(scene.host.expects_newcomers());
  scene.host.inject_fault({0, FaultEvent::kill, 2});
  EXPECT_FALSE(scene.transport.ended());
}

}  // namespace
}  // namespace swarmpi::emulated_peer_host_test
