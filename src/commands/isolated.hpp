#pragma once
// Work that may end the process, or never end: in a child of its own.

#include <cstddef>
#include <functional>
#include <new>
#include <string>
#include <type_traits>

namespace swarmpi {

/// Memory that children inherit.
void* share_memory(std::size_t size_bytes);
void release_memory(void* memory, std::size_t size_bytes);

struct IsolatedEnd {
  std::string answer;  ///< what the work returned
  std::string crash;   ///< how it ended otherwise: the signal, and what it said; "" if it did not
};

/// Runs `work` in a forked child whose standard error is kept from the screen. What the child
/// changes in memory is lost, but for memory that is shared. REQUIRES: no other threads.
IsolatedEnd run_isolated(const std::function<std::string()>& work);

/// A value that a process and its children see and change.
template <class T>
class SharedValue {
 public:
  SharedValue() : place_(new (share_memory(sizeof(T))) T()) {}
  SharedValue(const SharedValue&) = delete;
  SharedValue& operator=(const SharedValue&) = delete;
  ~SharedValue() { release_memory(place_, sizeof(T)); }
  T& operator*() { return *place_; }
  T* operator->() { return place_; }

 private:
  static_assert(std::is_trivially_copyable_v<T>, "no pointers to what only one process has");
  T* place_;
};

/// For the child: whatever it does next must be through after this time, or it is ended.
void set_deadline(unsigned seconds);

}  // namespace swarmpi
