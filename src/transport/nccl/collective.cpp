#include "transport/nccl/collective.hpp"

#include <fmt/core.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <optional>
#include <utility>

#include "core/check.hpp"
#include "core/clock.hpp"
#include "core/hash.hpp"

namespace swarmpi {
namespace {

// A piece may be through in less than a millisecond. Who waits longer may look less often.
constexpr std::chrono::microseconds kFirstLook{50};
constexpr std::chrono::microseconds kLaterLook{500};
constexpr double kLookOftenS = 0.02;
// Between two reductions: the death of another member shows as an error.
constexpr std::chrono::milliseconds kIdleLook{100};
// Of the zeros that go through before the communicator is ready. No seal has it: those are hashes.
constexpr std::uint64_t kTicketOfMaking = 0;

bool is_final(CollectiveState state) {
  return state == CollectiveState::aborted || state == CollectiveState::failed;
}

Mark to_mark(const Cover& cover) {
  return {static_cast<std::uint64_t>(cover.microbatches), cover.keys};
}

Cover to_cover(const Mark& mark) { return {static_cast<std::int64_t>(mark[0]), mark[1]}; }

Mark sum_of_ends(std::uint64_t ticket, int size) {
  Mark sum{};
  for (int place = 0; place < size; ++place) {
    const Mark mark = mark_of_end(ticket, place);
    sum[0] += mark[0];
    sum[1] += mark[1];
  }
  return sum;
}

bool overlap(const SumRequest& request) {
  const auto in = reinterpret_cast<std::uintptr_t>(request.in);
  const auto out = reinterpret_cast<std::uintptr_t>(request.out);
  const auto size = static_cast<std::uintptr_t>(request.count * size_of(request.element));
  return in < out + size && out < in + size;
}

}  // namespace

Mark mark_of_end(std::uint64_t ticket, int place) {
  const std::array<std::uint64_t, 2> words{ticket, static_cast<std::uint64_t>(place)};
  return {hash_bytes(words.data(), sizeof words, 1), hash_bytes(words.data(), sizeof words, 2)};
}

// What the thread does, and what it shares with the Collective. That the state is final is the
// flag "an abort has begun": it is set before the engine's abort, under the mutex under which a
// success is recorded.
class Collective::Worker {
 public:
  Worker(std::unique_ptr<CollectiveEngine> engine, const CommunicatorPlan& plan,
         const CollectiveLimits& limits, std::function<void()> changed)
      : engine_(std::move(engine)), plan_(plan), limits_(limits), changed_(std::move(changed)) {}

  // On the thread.
  void run();

  // On any thread.
  CollectiveState state() const;
  void start(const SumRequest& request);
  CollectiveProgress take_news();
  void finish(CollectiveState state, const std::string& why);
  bool holds_sums() const;
  bool over() const;
  bool device_lost() const;
  CollectiveTimes times() const;
  bool wait_until_over(double wait_s);
  /// The call that has taken longer than it may, in words; "" if none.
  std::string overdue_call() const;
  /// From now on `changed` is not called.
  void forget_listener();

 private:
  using Kind = EngineAnswer::Kind;

  bool make();
  bool await_request();
  bool reduce();
  void close();
  /// Lets one piece through; false: it does not count, and the state is final.
  bool pass(const Piece& piece, double limit_s, const std::string& what);
  /// pass() of the number that says that this member's result counts.
  bool agree(std::uint64_t ticket);
  /// Looks until the answer is done.
  template <class Look>
  bool await(double deadline_s, double limit_s, const std::string& what, const Look& look);
  /// One call of the engine. False: it failed, or an abort has begun by now.
  template <class Look>
  bool ask(double limit_s, const std::string& what, const Look& look, EngineAnswer& answer);
  bool ended() const { return is_final(state()); }
  void nap(double since_s);
  void tell();
  template <class Value>
  Value read(const Value& value) const {
    const std::lock_guard lock(mutex_);
    return value;
  }

  const std::unique_ptr<CollectiveEngine> engine_;
  const CommunicatorPlan plan_;
  const CollectiveLimits limits_;
  const WallClock clock_;

  std::mutex telling_;  // guards the next one, also while it runs
  std::function<void()> changed_;

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable stirred_;
  CollectiveState state_ = CollectiveState::making;
  CollectiveProgress news_;
  std::optional<SumRequest> request_;  // from start() until kernels are known to be over
  bool over_ = false;
  bool device_lost_ = false;
  CollectiveTimes times_;
  struct Call {
    std::string what;
    double since_s = 0, limit_s = 0;
  };
  std::optional<Call> call_;  // the thread is in one
};

void Collective::Worker::run() {
  if (make()) {
    while (await_request()) {
      if (!reduce()) break;
    }
  }
  close();
}

bool Collective::Worker::make() {
  const double deadline_s = clock_.now_s() + limits_.making_s;
  const std::string what =
      fmt::format("the communicator of {} replicas: not all have joined", plan_.size);
  EngineAnswer begun;
  if (!ask(
          limits_.making_s, what, [&] { return engine_->begin(plan_); }, begun))
    return false;
  if (!await(deadline_s, limits_.making_s, what, [&] { return engine_->made(); })) return false;
  // Connections are made when they are first used, for the kind of call that uses them.
  Piece zeros;
  zeros.count = limits_.piece_bytes / size_of(zeros.element);
  const double left_s = std::max(0.0, deadline_s - clock_.now_s());
  if (!pass(zeros, left_s, "the first piece of zeros")) return false;
  if (!agree(kTicketOfMaking)) return false;
  {
    const std::lock_guard lock(mutex_);
    if (is_final(state_)) return false;
    state_ = CollectiveState::ready;
    times_.making_s = clock_.now_s();
  }
  tell();
  return true;
}

bool Collective::Worker::await_request() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      stirred_.wait_for(lock, kIdleLook, [&] { return request_ || is_final(state_); });
      if (is_final(state_)) return false;
      if (request_) return true;
    }
    EngineAnswer answer;
    if (!ask(
            limits_.call_s, "the next reduction", [&] { return engine_->error(); }, answer)) {
      return false;
    }
  }
}

bool Collective::Worker::reduce() {
  const double begun_s = clock_.now_s();
  const SumRequest request = *read(request_);
  const std::int64_t size = size_of(request.element);
  const std::int64_t each = limits_.piece_bytes / size;
  const std::int64_t pieces = std::max<std::int64_t>(1, (request.count + each - 1) / each);
  Mark cover{};
  for (std::int64_t i = 0; i < pieces; ++i) {
    Piece piece;
    piece.in = static_cast<const std::byte*>(request.in) + i * each * size;
    piece.out = static_cast<std::byte*>(request.out) + i * each * size;
    piece.count = std::min(each, request.count - i * each);
    piece.element = request.element;
    piece.mark = to_mark(request.cover);
    const double since_s = clock_.now_s();
    const double limit_s = i == 0 ? limits_.entering_s : limits_.piece_s;
    if (!pass(piece, limit_s, fmt::format("piece {} of {} of the sums", i + 1, pieces))) {
      return false;
    }
    if (i == 0) cover = engine_->mark();
    if (engine_->mark() != cover) {
      finish(CollectiveState::failed,
             fmt::format("piece {} of {} is over other microbatches than those before it", i + 1,
                         pieces));
      return false;
    }
    const std::lock_guard lock(mutex_);
    ++times_.pieces;
    if (i > 0) {
      times_.longest_piece_s = std::max(times_.longest_piece_s, clock_.now_s() - since_s);
    }
  }
  if (!agree(request.ticket)) return false;
  {
    const std::lock_guard lock(mutex_);
    if (is_final(state_)) return false;
    state_ = CollectiveState::ready;
    news_ = {CollectiveProgress::Outcome::done, to_cover(cover), {}};
    request_.reset();
    times_.reduction_s = clock_.now_s() - begun_s;
  }
  tell();
  return true;
}

bool Collective::Worker::agree(std::uint64_t ticket) {
  Piece end;
  end.mark = mark_of_end(ticket, plan_.place);
  if (!pass(end, limits_.piece_s, "all replicas to say that their sums count")) return false;
  if (engine_->mark() == sum_of_ends(ticket, plan_.size)) return true;
  finish(CollectiveState::failed,
         "not all replicas have said that their sums of this seal count: one has aborted, or "
         "reduces another seal");
  return false;
}

bool Collective::Worker::pass(const Piece& piece, double limit_s, const std::string& what) {
  const double deadline_s = clock_.now_s() + limit_s;
  EngineAnswer entered;
  if (!ask(
          limits_.call_s, what, [&] { return engine_->enter(piece); }, entered))
    return false;
  // In this order: an error that ended the piece is known when its event fires, not before.
  return await(deadline_s, limit_s, what, [&] { return engine_->event(); }) &&
         await(deadline_s, limit_s, what, [&] { return engine_->error(); });
}

template <class Look>
bool Collective::Worker::await(double deadline_s, double limit_s, const std::string& what,
                               const Look& look) {
  const double since_s = clock_.now_s();
  while (true) {
    EngineAnswer answer;
    if (!ask(limits_.call_s, what, look, answer)) return false;
    if (answer.kind == Kind::done) return true;
    if (clock_.now_s() >= deadline_s) {
      finish(CollectiveState::aborted, fmt::format("replica {} of {} has waited {:.1f} s for {}",
                                                   plan_.place, plan_.size, limit_s, what));
      return false;
    }
    nap(since_s);
  }
}

template <class Look>
bool Collective::Worker::ask(double limit_s, const std::string& what, const Look& look,
                             EngineAnswer& answer) {
  {
    const std::lock_guard lock(mutex_);
    call_ = {what, clock_.now_s(), limit_s};
  }
  answer = look();
  {
    const std::lock_guard lock(mutex_);
    call_.reset();
    if (answer.kind == Kind::device_lost) device_lost_ = true;
  }
  if (answer.kind == Kind::failed || answer.kind == Kind::device_lost) {
    finish(CollectiveState::failed, fmt::format("replica {} of {}, waiting for {}: {}", plan_.place,
                                                plan_.size, what, answer.why));
  }
  // Asked after the look: what the engine says once an abort has begun means nothing.
  return !ended();
}

void Collective::Worker::nap(double since_s) {
  const bool often = clock_.now_s() - since_s < kLookOftenS;
  std::unique_lock lock(mutex_);
  stirred_.wait_for(lock, often ? kFirstLook : kLaterLook, [&] { return is_final(state_); });
}

void Collective::Worker::close() {
  const double since_s = clock_.now_s();
  {
    const std::lock_guard lock(mutex_);
    call_ = {"the abort", since_s, limits_.abort_s};
  }
  const EngineAnswer answer = engine_->abort();
  {
    const std::lock_guard lock(mutex_);
    call_.reset();
    times_.abort_s = clock_.now_s() - since_s;
    if (answer.kind == Kind::device_lost) device_lost_ = true;
    if (answer.kind == Kind::done) {
      request_.reset();
    } else if (request_) {
      // A kernel may be at it still, so that nobody may ever use this memory again.
      new std::shared_ptr<const void>(request_->keep);
    }
    over_ = true;
  }
  stirred_.notify_all();
  tell();
}

void Collective::Worker::start(const SumRequest& request) {
  SWARMPI_CHECK(!overlap(request), "a collective reduces out of place");
  {
    const std::lock_guard lock(mutex_);
    SWARMPI_CHECK(state_ == CollectiveState::ready || is_final(state_),
                  "one reduction at a time, when the communicator is ready");
    if (is_final(state_)) return;
    state_ = CollectiveState::running;
    news_ = {};
    request_ = request;
  }
  stirred_.notify_all();
}

void Collective::Worker::finish(CollectiveState state, const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (is_final(state_)) return;
    state_ = state;
    news_ = {CollectiveProgress::Outcome::failed, {}, why};
  }
  stirred_.notify_all();
  tell();
}

CollectiveProgress Collective::Worker::take_news() {
  const std::lock_guard lock(mutex_);
  return std::exchange(news_, {});
}

std::string Collective::Worker::overdue_call() const {
  const std::lock_guard lock(mutex_);
  if (!call_) return {};
  const double for_s = clock_.now_s() - call_->since_s;
  if (for_s <= call_->limit_s) return {};
  return fmt::format(
      "replica {} of {}: a call of NCCL for {} has not come back for {:.1f} s; its thread is left "
      "behind",
      plan_.place, plan_.size, call_->what, for_s);
}

void Collective::Worker::tell() {
  const std::lock_guard lock(telling_);
  if (changed_) changed_();
}

void Collective::Worker::forget_listener() {
  const std::lock_guard lock(telling_);
  changed_ = nullptr;
}

bool Collective::Worker::wait_until_over(double wait_s) {
  std::unique_lock lock(mutex_);
  return stirred_.wait_for(lock, std::chrono::duration<double>(wait_s), [&] { return over_; });
}

CollectiveState Collective::Worker::state() const { return read(state_); }
bool Collective::Worker::over() const { return read(over_); }
bool Collective::Worker::device_lost() const { return read(device_lost_); }
CollectiveTimes Collective::Worker::times() const { return read(times_); }

bool Collective::Worker::holds_sums() const {
  const std::lock_guard lock(mutex_);
  return request_.has_value();
}

Collective::Collective(std::unique_ptr<CollectiveEngine> engine, const CommunicatorPlan& plan,
                       const CollectiveLimits& limits, std::function<void()> changed)
    : worker_(std::make_shared<Worker>(std::move(engine), plan, limits, std::move(changed))) {
  SWARMPI_CHECK(plan.size > 0 && plan.place >= 0 && plan.place < plan.size,
                "the place is one of the members'");
  SWARMPI_CHECK(limits.piece_bytes >= 8, "a piece holds at least a number");
  // Signals are for the threads that expect them; those of NCCL inherit this.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([worker = worker_] { worker->run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Collective::~Collective() {
  worker_->forget_listener();
  end(0);
}

CollectiveState Collective::state() const { return worker_->state(); }
void Collective::start(const SumRequest& request) { worker_->start(request); }
bool Collective::holds_sums() const { return worker_->holds_sums(); }
bool Collective::over() const { return worker_->over(); }
bool Collective::left_behind() const { return !thread_.joinable() && !worker_->over(); }
bool Collective::device_lost() const { return worker_->device_lost(); }
CollectiveTimes Collective::times() const { return worker_->times(); }

void Collective::abort(const std::string& why) { worker_->finish(CollectiveState::aborted, why); }

CollectiveProgress Collective::poll() {
  const std::string overdue = worker_->overdue_call();
  if (!overdue.empty() && thread_.joinable()) {
    worker_->finish(CollectiveState::aborted, overdue);
    thread_.detach();
    notice_ = overdue;
  }
  CollectiveProgress news = worker_->take_news();
  if (news.outcome != CollectiveProgress::Outcome::nothing || notice_.empty()) return news;
  return {CollectiveProgress::Outcome::left_behind, {}, std::exchange(notice_, {})};
}

bool Collective::end(double wait_s) {
  abort("the communicator is needed no more");
  if (!thread_.joinable()) return over();
  const bool over = worker_->wait_until_over(wait_s);
  if (over) {
    thread_.join();
  } else {
    thread_.detach();
  }
  return over;
}

}  // namespace swarmpi
