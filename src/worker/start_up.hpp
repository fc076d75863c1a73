#pragma once
// The time that a spare takes until it can compute: swarm.spare_delay_s.

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace swarmpi {

class StartUp {
 public:
  /// Returns after `delay_s`, or at once when abandoned.
  void wait(double delay_s) {
    std::unique_lock lock(mutex_);
    ended_.wait_for(lock, std::chrono::duration<double>(delay_s), [this] { return abandoned_; });
  }
  void abandon() {
    {
      const std::lock_guard lock(mutex_);
      abandoned_ = true;
    }
    ended_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool abandoned_ = false;
};

}  // namespace swarmpi
