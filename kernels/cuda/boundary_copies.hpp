#pragma once
// Boundaries on their way between host and device, on streams of their own beside what is computed:
// what a job has made leaves, and what the next one reads comes, by way of rooms on the device that
// nothing else uses.

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "kernels/backend.hpp"
#include "kernels/cuda/device.hpp"

namespace swarmpi::kernels::cuda {

class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

class BoundaryCopies {
 public:
  /// Rooms that boundaries pass through, two each way: of one more than is copied.
  static constexpr std::size_t kRooms = 4;

  explicit BoundaryCopies(Device& device);
  ~BoundaryCopies();
  BoundaryCopies(const BoundaryCopies&) = delete;
  BoundaryCopies& operator=(const BoundaryCopies&) = delete;

  /// Takes memory for boundaries of so many bytes. To be called before any work.
  void reserve(std::size_t size_bytes);

  // On the thread that computes.
  /// Lets `make(room, stream)` put so many bytes into a room, and has them copied to the host.
  void send(void* to_host, std::size_t size_bytes,
            const std::function<void(std::byte* room, cudaStream_t stream)>& make);
  /// What was sent since the last call; null for nothing.
  std::unique_ptr<HostCopies> under_way();
  /// Lets `use(room, stream)` read so many bytes of the host, which have been read on return.
  void bring(const void* from_host, std::size_t size_bytes,
             const std::function<void(const std::byte* room, cudaStream_t stream)>& use);

  /// Any thread: bring() will want them. Does nothing where no room is large enough.
  void fetch_ahead(std::shared_ptr<const std::byte> from_host, std::size_t size_bytes);

 private:
  struct Room {
    explicit Room(int device) : memory(device) {}
    DeviceScratch memory;
    std::size_t size_bytes = 0;  // of memory
    Event filled;
    Event emptied;
    // Of a room for what comes: which bytes of the host it has, kept by whoever asked for them.
    std::shared_ptr<const std::byte> keep = {};
    const void* from_host = nullptr;  // null: none that are still to be used
    std::size_t used_bytes = 0;
    std::uint64_t filled_as = 0;  // a number that grows
  };

  static void make_large_enough(Room& room, std::size_t size_bytes);
  /// Copies into the room once what it had was used.
  void fill(Room& room, const void* from_host, std::size_t size_bytes);
  /// An idle one; else the one that was filled first: what nobody has read by now nobody will.
  Room& next_in();

  Device& device_;
  cudaStream_t out_ = nullptr;
  cudaStream_t in_ = nullptr;
  std::array<std::unique_ptr<Room>, kRooms / 2> rooms_out_;
  std::size_t turn_out_ = 0;
  std::shared_ptr<Event> last_out_;  // since the last under_way()
  std::mutex mutex_;                 // guards all below
  std::array<std::unique_ptr<Room>, kRooms / 2> rooms_in_;
  std::uint64_t fills_ = 0;
};

}  // namespace swarmpi::kernels::cuda
