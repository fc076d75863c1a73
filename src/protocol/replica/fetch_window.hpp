#pragma once
// How much a learner asks for at a time: gradients and signs of life wait on the same links behind
// what is under way, and a line that is long holds more of it.

#include <cstdint>
#include <limits>

namespace swarmpi {

/// Of the state of a stage, that a learner waits for or has to write: its plan counts them.
inline constexpr std::int64_t kMostPieces = 16;

class FetchWindow {
 public:
  explicit FetchWindow(std::int64_t piece_bytes) : piece_bytes_(piece_bytes) {}

  /// A request, as it was when it was sent.
  struct Request {
    double at_s = 0;
    std::int64_t received_bytes = 0;  // by then, of all pieces
  };

  /// Whether so much more may be asked for: over all donors two pieces are under way, and what the
  /// line holds, which is the best rate that was seen times the shortest delay. With those that
  /// wait to be written they are no more than a learner's plan has memory for.
  bool has_room(std::int64_t bytes) const;
  Request ask(std::int64_t bytes, double now_s) {
    under_way_bytes_ += bytes;
    return {now_s, received_bytes_};
  }
  /// It is not waited for any more.
  void forget(std::int64_t bytes) { under_way_bytes_ -= bytes; }
  /// What was received is written, or dropped.
  void release(std::int64_t bytes) { waiting_bytes_ -= bytes; }
  void receive(const Request& request, std::int64_t bytes, double now_s);

 private:
  std::int64_t line_bytes() const;

  std::int64_t piece_bytes_;
  std::int64_t under_way_bytes_ = 0;
  std::int64_t waiting_bytes_ = 0;  // to be written
  std::int64_t received_bytes_ = 0;
  double bytes_per_s_ = 0;  // the highest that was seen
  double shortest_delay_s_ = std::numeric_limits<double>::infinity();
};

}  // namespace swarmpi
