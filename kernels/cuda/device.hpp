#pragma once
// The GPU of this process: its streams, its memory, and the way of small results to the host.

#include <cuda_runtime.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kernels/backend.hpp"

namespace swarmpi::kernels::cuda {

/// Ends the process if a call failed: errors of a device are sticky, nothing can be computed here
/// any more. The other peers see a death and go on.
void check(cudaError_t status, const char* what);

/// Which of the visible devices a rank takes that is the `local_rank`th of its host.
int device_of(int local_rank, int devices);
/// The rank among those of this host, as launchers tell it; 0 where none does.
int local_rank();
/// How many ranks of this host share this rank's device, as launchers tell; 1 where none does.
int ranks_on_device(int devices);
/// The device of this process: that of its rank among those of its host. One that is alone, or was
/// spawned in the place of a dead one, has no such number: it takes the device with the most free
/// memory.
int choose_device(int devices);

/// "NVIDIA H100 80GB HBM3, 132 multiprocessors, compute capability 9.0".
std::string description(const cudaDeviceProp& properties);

class DeviceMemory final : public Memory {
 public:
  /// Zeroed.
  DeviceMemory(int device, std::size_t size_bytes);
  ~DeviceMemory() override;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  void* data() override { return data_; }
  std::size_t size_bytes() const override { return size_bytes_; }

 private:
  int device_;
  void* data_ = nullptr;
  std::size_t size_bytes_;
};

/// Device memory that grows when more is asked for than was reserved; its content is lost then.
class DeviceScratch {
 public:
  explicit DeviceScratch(int device) : device_(device) {}
  void* take(std::size_t size_bytes);
  template <class T>
  T* take_array(std::int64_t count) {
    return static_cast<T*>(take(static_cast<std::size_t>(count) * sizeof(T)));
  }

 private:
  int device_;
  std::unique_ptr<DeviceMemory> memory_;
};

class Device {
 public:
  Device();
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  int index() const { return index_; }
  const cudaDeviceProp& properties() const { return properties_; }
  OwnMemory memory() const;

  /// Makes it the calling thread's device.
  void select() const;
  /// Operations of the calling thread go here, in order: it is the one that computes from now on.
  cudaStream_t compute();
  /// Waits for all operations so far, and puts their results where the host wants them.
  void finish();

  /// Room on the device for `count` values whose copies `use` gets at the next finish().
  template <class T>
  T* expect(std::int64_t count, std::function<void(const T* values)> use) {
    return static_cast<T*>(expect_bytes(static_cast<std::size_t>(count) * sizeof(T),
                                        [use = std::move(use)](const void* bytes) {
                                          use(static_cast<const T*>(bytes));  // aligned: places are
                                        }));
  }
  /// One value, as it is.
  template <class T>
  T* expect(T& to) {
    return expect<T>(1, [&to](const T* value) { to = *value; });
  }

  // Any thread; done on return, and after the operations of the calling thread.
  void upload(void* to, const void* from_host, std::size_t size_bytes);
  void download(void* to_host, const void* from, std::size_t size_bytes);
  /// Lets `launch(stream, word)` make one word, and returns it.
  std::uint64_t make_word(const std::function<void(cudaStream_t, std::uint64_t*)>& launch);

 private:
  void* expect_bytes(std::size_t size_bytes, std::function<void(const void*)> use);
  void make_room(std::size_t size_bytes);
  /// The stream of a call of any thread.
  cudaStream_t stream_of_caller();

  struct Expected {
    std::size_t place;
    std::function<void(const void*)> use;
  };

  int index_ = 0;
  cudaDeviceProp properties_{};
  std::size_t share_bytes_ = 0;  // of the memory, for this rank
  cudaStream_t compute_ = nullptr;
  cudaStream_t aside_ = nullptr;  // of all threads that do not compute
  std::mutex aside_mutex_;
  std::atomic<std::thread::id> computing_;
  std::unique_ptr<DeviceMemory> word_;
  // Results on their way.
  std::unique_ptr<DeviceMemory> results_;
  void* results_on_host_ = nullptr;  // pinned
  std::size_t results_capacity_ = 0;
  std::size_t results_used_ = 0;
  std::vector<Expected> expected_;
};

}  // namespace swarmpi::kernels::cuda
