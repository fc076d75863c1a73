#pragma once
// One communicator among the replicas of a stage, for as long as its members do not change. It is a
// quick way to reduce while nothing goes wrong, never part of a recovery: the first error, death or
// deadline ends it for good, what it was at counts nothing, and the sums that went in are as they
// were.
//
// All that may block runs on a thread of its own. The protocol's thread posts and polls:
//
//   making --> ready <--> running        start() and the end of a reduction
//      \         |          /
//       '--> aborted, failed             for ever
//
// When a result counts. An abort lets the kernels of its own process return early: they still tell
// their neighbours that data has come, and no data has. So the device's event fires here after an
// abort here, and, worse, after an abort elsewhere: over garbage, with no error at hand. Hence:
//   - a result counts only if its event fired, then no error stood, then no abort had begun here;
//   - and if all members have said so to each other: when its own result counts, a member enters
//     one more call, with a number that only this member enters, and for this seal only
//     (mark_of_end()). If the sum of these is right, then all members had all of their results
//     before any of them aborted.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "core/cover.hpp"
#include "transport/nccl/engine.hpp"

namespace swarmpi {

enum class CollectiveState : std::uint8_t {
  making,
  ready,    ///< a whole piece of zeros has gone through
  running,  ///< between start() and the end of that reduction
  aborted,  ///< from here: by abort(), by a deadline, or because a call did not come back
  failed,   ///< the engine told of an error
};

/// Deadlines, in seconds, and what they are for.
struct CollectiveLimits {
  double making_s = 30;   ///< all members begin, and connect
  double entering_s = 5;  ///< the first piece: all members have to enter
  double piece_s = 2;     ///< each piece after it
  double call_s = 10;     ///< a call that is to return at once
  double abort_s = 10;    ///< after it an abort is left to itself
  /// A kernel should last no more than 100 ms (a process that is killed lives on until its kernels
  /// end): this is 34 ms at 1 GB/s. All members must have the same.
  std::int64_t piece_bytes = std::int64_t{32} << 20;
};

/// What is to be summed over all members, from one array of the device to another.
struct SumRequest {
  const void* in = nullptr;  ///< (count): is complete, and only read
  void* out = nullptr;       ///< (count): nobody else's while holds_sums()
  std::int64_t count = 0;
  SumElement element = SumElement::int64;
  Cover cover;               ///< of `in`
  std::uint64_t ticket = 0;  ///< the same at all members, never used before: of seal and attempt
  /// Kept while kernels may still read `in` or write `out`, for ever if that does not end. Any
  /// thread may drop it.
  std::shared_ptr<const void> keep;
};

/// What poll() has to tell: each thing once.
struct CollectiveProgress {
  enum class Outcome : std::uint8_t {
    nothing,
    done,         ///< `out` holds the sums over all members
    failed,       ///< the communicator has come to its end, and with it what it was at
    left_behind,  ///< a notice after `failed`: a call did not come back
  };
  Outcome outcome = Outcome::nothing;
  Cover cover;      ///< of all members' sums, added by the same calls as these
  std::string why;  ///< it has failed, or which call it was
};

/// For logs and tests.
struct CollectiveTimes {
  double making_s = 0;
  double reduction_s = 0;      ///< of the last that was done
  double longest_piece_s = 0;  ///< of all but the first of a reduction, which waits for others
  double abort_s = 0;
  std::int64_t pieces = 0;  ///< that have gone through
};

class Collective {
 public:
  /// Begins to make the communicator, on a new thread. `changed` is called, on any thread, when
  /// poll() has something to tell or the communicator is ready; it must be short, as it may make
  /// the destructor wait. REQUIRES: all members have the same limits.
  Collective(std::unique_ptr<CollectiveEngine> engine, const CommunicatorPlan& plan,
             const CollectiveLimits& limits = {}, std::function<void()> changed = {});
  /// end(0).
  ~Collective();
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;

  CollectiveState state() const;
  bool is_ready() const { return state() == CollectiveState::ready; }
  /// Begins to reduce. If the communicator has come to its end in the meantime nothing happens:
  /// poll() tells. REQUIRES: it was ready; `in` and `out` do not overlap.
  void start(const SumRequest& request);
  /// What has happened since the last call. To be called now and then, also while nothing runs: it
  /// leaves a thread behind that does not come back.
  CollectiveProgress poll();
  /// Ends the communicator, and returns at once. What was not polled by now does not count.
  void abort(const std::string& why);

  /// Kernels may still read `in` and write `out` of the last reduction: until it is done, or the
  /// abort has come back.
  bool holds_sums() const;
  /// The thread is done: nothing of the communicator is left.
  bool over() const;
  /// A call did not come back; its thread and its communicator stay until this process ends, and
  /// perhaps a kernel on the device.
  bool left_behind() const;
  /// Nothing works any more on this device in this process.
  bool device_lost() const;
  CollectiveTimes times() const;
  /// Aborts, and waits for the thread so long; says whether it is over. To be called before the
  /// process ends: a thread must not be within the library then.
  bool end(double wait_s);

 private:
  class Worker;
  std::shared_ptr<Worker> worker_;  // the thread has a share, and may live longer
  std::thread thread_;
  std::string notice_;  // of the thread that was left behind, until it is told
};

/// What the member at `place` adds when its own result counts.
Mark mark_of_end(std::uint64_t ticket, int place);

}  // namespace swarmpi
