#include "transport/mpi/doorbell.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include "core/clock.hpp"
#include "transport/mpi/backoff.hpp"

namespace swarmpi {
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
}  // namespace swarmpi
