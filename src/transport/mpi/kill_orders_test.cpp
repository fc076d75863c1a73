#include "transport/mpi/kill_orders.hpp"

#include <gtest/gtest.h>

namespace swarmpi::kill_orders_test {
namespace {

TEST(KillOrders, OneIsGivenIfTheAnswerComesSoon) {
  KillOrders orders(3);
  EXPECT_FALSE(orders.stands(4, 10)) << "nobody was asked";
  orders.asked(4, 10);
  EXPECT_TRUE(orders.stands(4, 10.4));
  EXPECT_FALSE(orders.stands(5, 10.4));
  EXPECT_FALSE(orders.stands(4, 10.6)) << "meanwhile rank 4 may speak again";
  orders.asked(4, 13);
  EXPECT_TRUE(orders.stands(4, 13.4));
}

TEST(KillOrders, WhoWasStoppedFollowsNoneForAWhile) {
  KillOrders orders(3);
  for (double now_s = 0; now_s < 5; now_s += 0.5) orders.looked(now_s);
  EXPECT_FALSE(orders.are_void());
  orders.looked(7);
  EXPECT_TRUE(orders.are_void());
  orders.looked(7.9);
  EXPECT_TRUE(orders.are_void());
  orders.looked(8.1);
  EXPECT_FALSE(orders.are_void());
}

// On links that are slow a deck has longer times; where it has short ones, a second is long.
TEST(KillOrders, ItsTimesAreThoseOfTheDeck) {
  KillOrders slow(30), fast(0.3);
  slow.asked(4, 0);
  EXPECT_TRUE(slow.stands(4, 4)) << "a round trip of 4 s";
  slow.looked(9);
  EXPECT_FALSE(slow.are_void());
  fast.asked(4, 0);
  EXPECT_FALSE(fast.stands(4, 0.1));
  fast.looked(0.2);
  EXPECT_TRUE(fast.are_void());
  fast.looked(0.29);
  fast.looked(0.31);
  EXPECT_FALSE(fast.are_void()) << "before the order is repeated";
}

}  // namespace
}  // namespace swarmpi::kill_orders_test
