#include "transport/mpi/doorbell.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

#include "core/clock.hpp"
#include "transport/mpi/backoff.hpp"

namespace swarmpi::doorbell_test {
namespace {

bool rings(const Doorbell& bell) {
  pollfd wait{bell.descriptor(), POLLIN, 0};
  return poll(&wait, 1, 0) == 1;
}

TEST(Doorbell, RingsAtTheOneItIsMeantFor) {
  Doorbell a;
  Doorbell b;
  const std::vector<std::string> names{a.name(), b.name()};
  a.know(names);
  b.silence();
  a.ring(1);
  EXPECT_TRUE(rings(b));
  EXPECT_FALSE(rings(a));
  b.silence();
  EXPECT_FALSE(rings(b));
  EXPECT_TRUE(a.reaches_all());
}

TEST(Doorbell, TooManyRingsAreAsGoodAsOne) {
  Doorbell a;
  a.know({a.name()});
  for (int i = 0; i < 10'000; ++i) a.ring(0);
  EXPECT_TRUE(rings(a));
  EXPECT_TRUE(a.reaches_all());
}

// Any user of the host can list the sockets and send to them.
TEST(Doorbell, WhoDoesNotKnowTheKeyWakesNobody) {
  Doorbell bell;
  Doorbell rank;
  const std::size_t between = bell.name().find('/');
  ASSERT_NE(between, std::string::npos);
  const std::string address = bell.name().substr(0, between);
  const std::string key = bell.name().substr(between + 1);
  std::string almost = key;
  almost.back() = almost.back() == '0' ? '1' : '0';
  const int stranger = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const auto send = [&](const std::string& text) {
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    std::copy(address.begin(), address.end(), to.sun_path + 1);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + address.size());
    return sendto(stranger, text.data(), text.size(), MSG_DONTWAIT,
                  reinterpret_cast<const sockaddr*>(&to), size);
  };
  for (const std::string& text :
       {std::string("x"), std::string(), almost, key.substr(1), std::string(200, 'x')}) {
    for (int i = 0; i < 1000; ++i) (void)send(text);
    EXPECT_FALSE(rings(bell)) << text;
  }
  rank.know({bell.name(), rank.name()});
  EXPECT_TRUE(rings(bell)) << "strangers leave room for a ring";
  bell.silence();
  EXPECT_EQ(send(key), static_cast<ssize_t>(key.size()));
  EXPECT_TRUE(rings(bell)) << "the address was right";
  close(stranger);
}

TEST(Doorbell, OtherHostsAreOutOfReachAndNoFault) {
  Doorbell a;
  a.know({a.name(), "a name of another host", ""});
  EXPECT_FALSE(a.reaches_all());
  a.ring(1);
  a.ring(2);
}

TEST(Backoff, TheBellEndsTheSleep) {
  Doorbell bell;
  bell.know({bell.name()});
  bell.ring(0);
  Backoff backoff(10);
  EXPECT_FALSE(backoff.sleep(-1, bell.descriptor(), 5));
  EXPECT_TRUE(backoff.rung());
}

TEST(Backoff, SleepsLongerWhileNothingHappens) {
  Backoff backoff(4e-3);
  backoff.reset();
  const WallClock clock;
  int looks = 0;
  for (; clock.now_s() < 0.1; ++looks) backoff.sleep(-1, -1, 5);
  EXPECT_LT(looks, 8 + 100 / 4);
}

TEST(Backoff, KeepsToTheLimit) {
  Backoff backoff(10);
  const WallClock clock;
  for (int i = 0; i < 30; ++i) backoff.sleep(-1, -1, 1e-3);
  EXPECT_LT(clock.now_s(), 5);
}

}  // namespace
}  // namespace swarmpi::doorbell_test
