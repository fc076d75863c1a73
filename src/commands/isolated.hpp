#pragma once
// Runs work that may end its process, or never end, in a child process.

#include <cstddef>
#include <functional>
#include <new>
#include <string>
#include <type_traits>

namespace swarmpi {

/// Memory that a process shares with the children that it forks.
void* share_memory(std::size_t size_bytes);
void release_memory(void* memory, std::size_t size_bytes);

struct IsolatedResult {
  std::string answer;  ///< what the work returned
  std::string crash;   ///< else the signal or exit status, and what it wrote to stderr; "" if none
};

/// Runs `work` in a forked child, whose standard error is captured. What the child changes in
/// memory is lost, except in shared memory. REQUIRES: no other threads.
IsolatedResult run_isolated(const std::function<std::string()>& work);

/// A value in shared memory: a process and its children read and write the same one.
template <class T>
class SharedValue {
 public:
  SharedValue() : value_(new (share_memory(sizeof(T))) T()) {}
  SharedValue(const SharedValue&) = delete;
  SharedValue& operator=(const SharedValue&) = delete;
  ~SharedValue() { release_memory(value_, sizeof(T)); }
  T& operator*() { return *value_; }
  T* operator->() { return value_; }

 private:
  static_assert(std::is_trivially_copyable_v<T>, "a pointer would be valid in one process only");
  T* value_;
};

/// For the child: it is killed unless it ends, or sets a new deadline, within this time.
void set_deadline(unsigned seconds);

}  // namespace swarmpi
