#pragma once
// What a Collective asks of the library that sums among processes: plain values in and out, so that
// a test can stand in for NCCL and do the worst that NCCL does.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace swarmpi {

/// What those who are to make one communicator together must have in common; made by one of them.
using CommunicatorId = std::array<std::byte, 128>;

/// One communicator, as one of its members sees it.
struct CommunicatorPlan {
  CommunicatorId id{};
  int size = 0;    ///< members
  int place = 0;   ///< of this one among them, 0 .. size - 1
  int device = 0;  ///< as CUDA counts them
};

/// How sums are stored. int32 is for the caller who knows that the sums over all members fit, and
/// has packed them: quanta of W bits over M microbatches do if W + log2(M) is at most 31.
enum class SumElement : std::uint8_t { int64, int32 };
constexpr std::int64_t size_of(SumElement element) { return element == SumElement::int64 ? 8 : 4; }

/// Two numbers that are added mod 2^64 over all members, by the same call as the sums.
using Mark = std::array<std::uint64_t, 2>;

/// What one call sums. Without `in` it is zeros that the engine has itself, and the sum is dropped.
struct Piece {
  const void* in = nullptr;  ///< (count), on the device; only read
  void* out = nullptr;       ///< (count), on the device
  std::int64_t count = 0;    ///< may be 0: the mark alone
  SumElement element = SumElement::int64;
  Mark mark{};
};

struct EngineAnswer {
  enum class Kind : std::uint8_t {
    done,
    pending,
    failed,
    device_lost,  ///< failed, and nothing works any more on this device in this process
  };
  Kind kind = Kind::done;
  std::string why;  ///< for a person, where it failed

  static EngineAnswer done() { return {}; }
  static EngineAnswer pending() { return {Kind::pending, {}}; }
  static EngineAnswer failed(std::string why) { return {Kind::failed, std::move(why)}; }
  static EngineAnswer device_lost(std::string why) { return {Kind::device_lost, std::move(why)}; }
};

/// One communicator. All calls come from one thread. They are meant to return at once, but for
/// abort(); none is trusted to.
class CollectiveEngine {
 public:
  virtual ~CollectiveEngine() = default;
  /// Begins to make the communicator; once, and first of all.
  virtual EngineAnswer begin(const CommunicatorPlan& plan) = 0;
  /// Whether it is made: all members have begun.
  virtual EngineAnswer made() = 0;
  /// Begins to sum. All members enter the same pieces in the same order, one at a time.
  virtual EngineAnswer enter(const Piece& piece) = 0;
  /// Whether the device says that the last piece is through. It says so after an abort as well,
  /// whatever it has left in `out`.
  virtual EngineAnswer event() = 0;
  /// done: the library knows of no error; pending: it cannot say yet.
  virtual EngineAnswer error() = 0;
  /// The sum of the last piece's marks. REQUIRES: event() was done.
  virtual Mark mark() = 0;
  /// Ends the communicator here, whatever it is at; afterwards nothing reads or writes what was
  /// entered. May block, for ever. Not to be called twice.
  virtual EngineAnswer abort() = 0;
};

}  // namespace swarmpi
