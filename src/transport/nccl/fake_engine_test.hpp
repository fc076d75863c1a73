#pragma once
// For tests: a library that sums among Collectives of one process, on the host, and can do what
// NCCL does when things go wrong.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "transport/nccl/engine.hpp"

namespace swarmpi {

/// A place in a call where a thread stays until the test lets it go on.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    reached_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
  }
  /// Not for ever: the test fails by what it expects next.
  void wait_until_reached() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(10), [&] { return reached_; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reached_ = false;
  bool open_ = false;
};

/// What the members of one communicator share.
struct FakeGroup {
  struct Call {
    std::set<int> entered;
    std::vector<std::int64_t> sums;
    Mark mark{};
  };
  std::mutex mutex;
  int size = 0;
  std::set<int> begun;
  std::vector<Call> calls;
  std::set<int> aborted;
  /// When a member has aborted, calls that are under way end at the others as if all were well.
  bool aborts_look_like_success = false;
};

/// What one engine does wrong. Calls are counted from 0: two are made before the communicator is
/// ready.
struct FakeTroubles {
  bool never_begins = false;
  std::map<int, std::shared_ptr<Gate>> enter_stays;  // in enter() of a call
  std::map<int, std::shared_ptr<Gate>> event_stays;  // in event(), when the call is through
  std::shared_ptr<Gate> abort_stays;
  std::optional<int> error_from;  // error() tells of one once this call is through
  bool device_is_lost = false;    // with that error
};

class FakeEngine final : public CollectiveEngine {
 public:
  FakeEngine(std::shared_ptr<FakeGroup> group, FakeTroubles troubles)
      : group_(std::move(group)), troubles_(std::move(troubles)) {}

  EngineAnswer begin(const CommunicatorPlan& plan) override {
    const std::lock_guard lock(group_->mutex);
    place_ = plan.place;
    if (!troubles_.never_begins) group_->begun.insert(place_);
    return EngineAnswer::done();
  }
  EngineAnswer made() override {
    const std::lock_guard lock(group_->mutex);
    const bool all = group_->begun.size() == static_cast<std::size_t>(group_->size);
    return all ? EngineAnswer::done() : EngineAnswer::pending();
  }
  EngineAnswer enter(const Piece& piece) override {
    ++call_;
    stay_at(troubles_.enter_stays);
    const std::lock_guard lock(group_->mutex);
    piece_ = piece;
    auto& calls = group_->calls;
    if (calls.size() <= static_cast<std::size_t>(call_)) calls.emplace_back();
    add(calls[static_cast<std::size_t>(call_)]);
    return EngineAnswer::done();
  }
  EngineAnswer event() override {
    {
      const std::lock_guard lock(group_->mutex);
      if (!is_through()) return EngineAnswer::pending();
    }
    stay_at(troubles_.event_stays);
    return EngineAnswer::done();
  }
  EngineAnswer error() override {
    if (!troubles_.error_from || call_ < *troubles_.error_from) return EngineAnswer::done();
    return troubles_.device_is_lost ? EngineAnswer::device_lost("an illegal address")
                                    : EngineAnswer::failed("remote process exited");
  }
  Mark mark() override { return mark_; }
  EngineAnswer abort() override {
    {
      const std::lock_guard lock(group_->mutex);
      group_->aborted.insert(place_);
    }
    if (troubles_.abort_stays) troubles_.abort_stays->pass();
    return EngineAnswer::done();
  }

 private:
  void stay_at(const std::map<int, std::shared_ptr<Gate>>& gates) const {
    const auto gate = gates.find(call_);
    if (gate != gates.end()) gate->second->pass();
  }
  void add(FakeGroup::Call& call) const {
    call.entered.insert(place_);
    for (std::size_t i = 0; i < call.mark.size(); ++i) call.mark[i] += piece_.mark[i];
    if (piece_.in == nullptr) return;
    const auto count = static_cast<std::size_t>(piece_.count);
    call.sums.resize(std::max(call.sums.size(), count));
    const auto* in = static_cast<const std::int64_t*>(piece_.in);
    for (std::size_t i = 0; i < count; ++i) call.sums[i] += in[i];
  }
  bool is_through() {
    const FakeGroup::Call& call = group_->calls[static_cast<std::size_t>(call_)];
    const bool all = call.entered.size() == static_cast<std::size_t>(group_->size);
    const bool looks_so = group_->aborts_look_like_success && !group_->aborted.empty();
    if (!all && !looks_so) return false;
    mark_ = call.mark;
    if (piece_.in == nullptr) return true;
    auto* out = static_cast<std::int64_t*>(piece_.out);
    for (std::int64_t i = 0; i < piece_.count; ++i) out[i] = call.sums[static_cast<std::size_t>(i)];
    return true;
  }

  std::shared_ptr<FakeGroup> group_;
  FakeTroubles troubles_;
  int place_ = 0;
  int call_ = -1;
  Piece piece_;
  Mark mark_{};
};

}  // namespace swarmpi
