#pragma once
// A thread that runs tasks in the order they came and sleeps between them.

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace swarmpi {

class TaskThread {
 public:
  /// `prepare` runs first, on the new thread.
  explicit TaskThread(std::function<void()> prepare = {});
  /// Drops the tasks that have not begun, waits for the one that has.
  ~TaskThread();
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  void run(std::function<void()> task);
  /// Waits until everything that was given has run.
  void drain();
  /// Whether it has.
  bool idle();
  /// CPU time that this thread has used.
  double cpu_s();

 private:
  void loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;  // guarded by mutex_
  bool busy_ = false;                        // guarded by mutex_
  bool stopping_ = false;                    // guarded by mutex_
  std::thread thread_;
};

}  // namespace swarmpi
