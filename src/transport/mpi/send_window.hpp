#pragma once
// How much may be on its way to one receiver. What overtakes it, heartbeats, waits behind it
// nevertheless, in the buffers of the system; so a line that carries little, because it is slow or
// because many share it, may hold little. (As LEDBAT does for TCP, RFC 6817: what counts is how
// long bytes wait in queues, and not how far away the receiver is.)

#include <cstddef>
#include <deque>
#include <limits>

namespace swarmpi {

/// A receiver acknowledges as soon as it has taken so many fragments since the last time; of the
/// message that comes, for each may be cut in its own way.
inline constexpr std::size_t kFragmentsAcknowledged = 2;

class SendWindow {
 public:
  /// A small window goes with small fragments: with large ones a line that carries little would
  /// hold seconds of them. REQUIRES: `large_bytes` >= kSmallFragmentBytes.
  explicit SendWindow(std::size_t large_bytes) : large_bytes_(large_bytes) {}

  /// What the next message is cut into.
  std::size_t fragment_bytes() const;
  /// Its first piece leaves next: once that has come the receiver acknowledges accordingly.
  void cut_into(std::size_t fragment_bytes) { fragment_bytes_ = fragment_bytes; }
  /// Whether so many more bytes may leave: a fragment of the message that was begun last, or the
  /// first piece of the next one.
  bool admits(std::size_t size_bytes) const;
  /// They leave now. REQUIRES: they are admitted.
  void sent(std::size_t size_bytes, double now_s);
  /// The receiver says now that it has taken so many more bytes. How long the last of them have
  /// waited on their way says how much may be (kAhead).
  void taken(std::size_t size_bytes, double now_s);

  std::size_t most_bytes() const { return most_bytes_; }

  static constexpr std::size_t kSmallFragmentBytes = 8192;

 private:
  struct Fragment {
    std::size_t left_bytes = 0;   // that the receiver has not taken, as far as it has said
    std::size_t ahead_bytes = 0;  // that were on their way with it, when it left
    double at_s = 0;
  };

  static std::size_t least_bytes();

  std::size_t large_bytes_;
  std::size_t fragment_bytes_ = kSmallFragmentBytes;  // of the message that was begun last
  std::deque<Fragment> fragments_;
  std::size_t ahead_bytes_ = 0;
  std::size_t most_bytes_ = least_bytes();
  double least_s_ = std::numeric_limits<double>::infinity();  // that any has taken
};

}  // namespace swarmpi
