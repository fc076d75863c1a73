#include "runtime/task_thread.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <vector>

namespace swarmpi::task_thread_test {
namespace {

TEST(TaskThread, PreparesOnceThenRunsInOrder) {
  std::vector<int> order;
  {
    TaskThread thread([&] { order.push_back(0); });
    for (int i = 1; i <= 3; ++i) thread.run([&, i] { order.push_back(i); });
    thread.drain();
  }
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3}));
}

TEST(TaskThread, ItsEndDropsWhatHasNotBegunAndWaitsForWhatHas) {
  std::promise<void> begun;
  std::promise<void> go_on;
  std::atomic<bool> finished = false;
  std::atomic<bool> second = false;
  std::future<void> release = std::async(std::launch::async, [&] {
    begun.get_future().wait();
    go_on.set_value();
  });
  {
    TaskThread thread;
    thread.run([&] {
      begun.set_value();
      go_on.get_future().wait();
      finished = true;
    });
    release.wait();
    thread.run([] {});
  }
  EXPECT_TRUE(finished);
  {
    TaskThread thread;
    std::promise<void> blocked;
    std::shared_future<void> unblock = blocked.get_future().share();
    std::promise<void> running;
    thread.run([&] {
      running.set_value();
      unblock.wait();
    });
    running.get_future().wait();
    thread.run([&] { second = true; });
    std::thread opener([&] { blocked.set_value(); });
    opener.join();
    thread.drain();
  }
  EXPECT_TRUE(second);  // drain() promises that everything given has run
}

}  // namespace
}  // namespace swarmpi::task_thread_test
