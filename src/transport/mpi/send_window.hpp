#pragma once
// How much may be on its way to one receiver. What overtakes it, heartbeats, waits behind it
// nevertheless, in the buffers of the system; so a line that carries little, because it is slow or
// because many share it, may hold little. As with LEDBAT (RFC 6817) what counts is how long bytes
// wait in queues, and not how far away the receiver is; and as with TCP a window begins small,
// after pauses too, for nobody tells a sender that many others begin.

#include <cstddef>
#include <deque>
#include <limits>

namespace swarmpi {

/// A receiver acknowledges as soon as it has taken so many fragments since the last time; of the
/// message that comes, for each may be cut in its own way.
inline constexpr std::size_t kFragmentsAcknowledged = 2;

class SendWindow {
 public:
  /// REQUIRES: `largest_bytes`, of a fragment, are not below kSmallestFragmentBytes.
  explicit SendWindow(std::size_t largest_bytes) : largest_bytes_(largest_bytes) {}

  /// What a message is cut into that is next now: four of these fill the window.
  std::size_t fragment_bytes(double now_s);
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

  static constexpr std::size_t kSmallestFragmentBytes = 8192;

 private:
  struct Fragment {
    std::size_t left_bytes = 0;   // that the receiver has not taken, as far as it has said
    std::size_t ahead_bytes = 0;  // on their way when it left, with it, and without idle_bytes_
    double at_s = 0;
  };

  static std::size_t least_bytes();
  /// Whether no more is ahead than fits into the smallest window, or than the receiver may have
  /// taken and not acknowledged, for nothing follows.
  bool may_be_idle() const;

  /// How long a fragment takes that waits for nothing, as far as is known when one has taken
  /// `took_s`.
  void note_distance(double took_s, double now_s);

  static constexpr double kNever = std::numeric_limits<double>::infinity();

  std::size_t largest_bytes_;
  std::size_t fragment_bytes_ = kSmallestFragmentBytes;  // of the message that was begun last
  std::deque<Fragment> fragments_;
  std::size_t ahead_bytes_ = 0;
  std::size_t most_bytes_ = least_bytes();
  std::size_t idle_bytes_ = 0;  // of these: from before a pause, so the receiver will have them
  std::size_t rest_bytes_ = 0;  // of these: from before the last message, and no more than that
  double needed_s_ = 0;  // when a message needed more than the smallest window, the last time
  double distance_s_ = kNever;
  double recent_least_s_ = kNever;  // that any has taken since distance_s_ was renewed
  double renewed_s_ = 0;
};

}  // namespace swarmpi
