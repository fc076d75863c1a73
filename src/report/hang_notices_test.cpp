#include "report/hang_notices.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "protocol/messages/liveness.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/stalls.hpp"
#include "protocol/messages/transport_port.hpp"

namespace swarmpi::hang_notices_test {
namespace {

// Peer 0, and what it says.
struct Scene {
  Scene() : file(std::tmpfile()), notices(120, file, [this] { ++lines_ended; }) {}
  ~Scene() { std::fclose(file); }
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  void hears(std::int32_t from, MessageBody body) {
    notices.happened(0, PeerId(0), MessageArrived{PeerId(from), Message{{}, {}, std::move(body)}});
  }
  void orders(std::int32_t peer) { notices.asked(0, PeerId(0), KillPeer{PeerId(peer)}); }
  // Since the last call.
  std::vector<std::string> said() {
    std::vector<std::string> lines;
    std::fseek(file, read, SEEK_SET);
    char line[300];
    while (std::fgets(line, sizeof line, file) != nullptr) lines.emplace_back(line);
    read = std::ftell(file);
    return lines;
  }

  std::FILE* file;
  HangNotices notices;
  long read = 0;
  int lines_ended = 0;  // that somebody else has begun
};

using Lines = std::vector<std::string>;

TEST(HangNotices, WhatHangsIsSaidOnceForEachPeerAndCall) {
  Scene scene;
  scene.hears(0, LateMessage{Task::storage, true, "syncing /x/term-1", 3.04});
  EXPECT_EQ(scene.said(),
            Lines{"swarmpi: warning: storage of peer 0 hangs: syncing /x/term-1, for 3.0 s\n"});
  scene.hears(0, LateMessage{Task::storage, true, "syncing /x/term-1", 9});
  EXPECT_TRUE(scene.said().empty()) << "told again in another view";
  scene.hears(2, LateMessage{Task::job, true, "forward pass of microbatch 1", 31});
  EXPECT_EQ(scene.said(), Lines{"swarmpi: warning: a job of peer 2 hangs: forward pass of "
                                "microbatch 1, for 31.0 s\n"});
  scene.hears(0, LateMessage{Task::storage, false, "", 0});
  EXPECT_TRUE(scene.said().empty());
  scene.hears(0, LateMessage{Task::storage, true, "syncing /x/term-1", 3});
  EXPECT_EQ(scene.said().size(), 1u) << "it had gone on";
  scene.hears(0, AbleMessage{1});
  EXPECT_EQ(scene.said(), Lines{"swarmpi: warning: storage of peer 0 works again: it may lead\n"});
}

TEST(HangNotices, AreLinesOfTheirOwn) {
  Scene scene;
  scene.hears(0, LateMessage{Task::storage, true, "syncing /x/term-1", 3.04});
  EXPECT_EQ(scene.lines_ended, 1) << "a progress line that is renewed, before each";
  scene.hears(0, LateMessage{Task::storage, true, "syncing /x/term-1", 9});
  EXPECT_EQ(scene.lines_ended, 1);
  scene.hears(0, AbleMessage{1});
  EXPECT_EQ(scene.lines_ended, 2);
}

TEST(HangNotices, APeerThatNobodyCanKillIsSaidToBeWaitedFor) {
  Scene scene;
  scene.orders(4);
  EXPECT_TRUE(scene.said().empty()) << "it may die";
  scene.orders(4);
  EXPECT_EQ(scene.said(), Lines{"swarmpi: warning: peer 4 does not answer, and nobody can kill it "
                                "now: peer 0 waits for it, for 120 s at most\n"});
  scene.orders(4);
  scene.notices.happened(0, PeerId(0), KillFailed{PeerId(4)});
  EXPECT_TRUE(scene.said().empty());
  scene.hears(4, HeartbeatMessage{});
  scene.orders(4);
  EXPECT_TRUE(scene.said().empty());
  scene.notices.happened(0, PeerId(0), KillFailed{PeerId(4)});
  EXPECT_EQ(scene.said().size(), 1u);
}

TEST(HangNotices, WhoIsKilledIsNotSaidToBeWaitedFor) {
  Scene scene;
  scene.orders(4);
  scene.notices.happened(0, PeerId(0), PeerLost{PeerId(4)});
  EXPECT_TRUE(scene.said().empty());
}

}  // namespace
}  // namespace swarmpi::hang_notices_test
