#pragma once
// How much may be on its way to one receiver. What overtakes it, heartbeats, waits behind it
// nevertheless, in the buffers of the system; so a line that carries little, because it is slow or
// because many share it, may hold little.

#include <cstddef>
#include <deque>

namespace swarmpi {

class SendWindow {
 public:
  /// Whether so many more bytes may leave. REQUIRES: they fit beside what the receiver may have
  /// taken and not acknowledged yet, or they would wait for ever.
  bool admits(std::size_t size_bytes) const { return ahead_bytes_ + size_bytes <= most_bytes_; }
  /// They leave now. REQUIRES: they are admitted.
  void sent(std::size_t size_bytes, double now_s);
  /// The receiver says now that it has taken so many more bytes. How long the last of them were on
  /// their way says how much may be (kAhead).
  void taken(std::size_t size_bytes, double now_s);

  std::size_t most_bytes() const { return most_bytes_; }

 private:
  struct Fragment {
    std::size_t left_bytes = 0;   // that the receiver has not taken, as far as it has said
    std::size_t ahead_bytes = 0;  // that were on their way with it, when it left
    double at_s = 0;
  };

  static std::size_t least_bytes();

  std::deque<Fragment> fragments_;
  std::size_t ahead_bytes_ = 0;
  std::size_t most_bytes_ = least_bytes();
};

}  // namespace swarmpi
