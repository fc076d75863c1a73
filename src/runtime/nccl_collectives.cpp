#include "runtime/nccl_collectives.hpp"

#include <fmt/core.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <list>
#include <mutex>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "core/check.hpp"
#include "core/clock.hpp"
#include "core/overloaded.hpp"
#include "protocol/messages/collective_port.hpp"
#include "transport/nccl/library.hpp"
#include "transport/nccl/nccl_engine.hpp"

namespace swarmpi {
namespace {

// A Collective tells when there is something to poll. What it cannot tell is that it hangs.
constexpr std::chrono::milliseconds kLook{20};
// While all that there are wait for the next reduction.
constexpr std::chrono::milliseconds kIdleLook{200};
constexpr std::chrono::hours kNoLook{1};

// Signals are for the threads that expect them; those that the library starts inherit this.
template <class Work>
void start_thread(Work work) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread(std::move(work)).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

std::string bytes_of(const CommunicatorId& id) {
  return {reinterpret_cast<const char*>(id.data()), id.size()};
}

std::optional<CommunicatorId> to_id(const std::string& bytes) {
  CommunicatorId id{};
  if (bytes.size() != id.size()) return std::nullopt;
  std::memcpy(id.data(), bytes.data(), id.size());
  return id;
}

void note(PeerId self, StageId stage, const std::string& what) {
  std::fprintf(stderr, "swarmpi: peer %d: the collective of stage %d: %s\n", self.value,
               stage.value, what.c_str());
}

}  // namespace

// ---- Ids

// One after another: if the library hangs in one, nothing comes of those that are asked for later.
class NcclCollectives::IdMaker : public std::enable_shared_from_this<IdMaker> {
 public:
  IdMaker(PeerId self, std::function<Result<CommunicatorId>()> make, Inbox& inbox)
      : self_(self), make_(std::move(make)), inbox_(&inbox) {}

  void ask(const MakeCollectiveId& wanted) {
    const std::lock_guard lock(mutex_);
    wanted_.push_back(wanted);
    if (std::exchange(running_, true)) return;
    start_thread([maker = shared_from_this()] { maker->run(); });
  }
  /// Nothing is told from now on. Whether the thread has ended within this time.
  bool end(double wait_s) {
    std::unique_lock lock(mutex_);
    inbox_ = nullptr;
    wanted_.clear();
    return ended_.wait_for(lock, std::chrono::duration<double>(wait_s), [&] { return !running_; });
  }

 private:
  void run() {
    while (true) {
      MakeCollectiveId next;
      {
        const std::lock_guard lock(mutex_);
        if (wanted_.empty()) {
          running_ = false;
          ended_.notify_all();
          return;
        }
        next = wanted_.front();
        wanted_.pop_front();
      }
      const Result<CommunicatorId> made = make_();
      const std::lock_guard lock(mutex_);
      if (inbox_ == nullptr) continue;
      if (made.ok()) {
        inbox_->post(CollectiveIdMade{next.stage, next.view, bytes_of(made.value())});
      } else {
        note(self_, next.stage, made.status().message());
      }
    }
  }

  const PeerId self_;
  const std::function<Result<CommunicatorId>()> make_;
  std::mutex mutex_;  // guards all below
  std::condition_variable ended_;
  std::deque<MakeCollectiveId> wanted_;
  bool running_ = false;
  Inbox* inbox_;  // null: nobody listens
};

// ---- Collectives

class NcclCollectives::Keeper : public std::enable_shared_from_this<Keeper> {
 public:
  struct Enter {
    EnterCollective action;
    std::optional<CollectiveArrays> arrays;
  };
  using Order = std::variant<MakeCollective, Enter, AbortCollective>;

  Keeper(PeerId self, CollectiveLibrary library, CollectiveResults& results, Inbox& inbox)
      : self_(self), library_(std::move(library)), results_(&results), inbox_(&inbox) {}

  // On any thread.
  void begin() {
    start_thread([keeper = shared_from_this()] { keeper->run(); });
  }
  void give(Order order) {
    {
      const std::lock_guard lock(mutex_);
      orders_.push_back(std::move(order));
    }
    stirred_.notify_all();
  }
  bool end(double wait_s);

 private:
  /// The collective of a stage in a view.
  struct Entry {
    MakeCollective action;
    std::unique_ptr<Collective> collective = {};  // null: waits for the end of an earlier one
    bool told_ready = false;
    bool unwanted = false;  // nothing is told of it any more
    SealId seal = {};       // of what was entered last
    // Until it is over, so that what may wait for the device (giving memory back does) is done by
    // this thread, and not under a lock of the collective.
    std::shared_ptr<const void> keep = {};
  };

  // On the thread.
  void run();
  std::chrono::milliseconds pause() const;
  void obey(const MakeCollective& action);
  void obey(const Enter& enter);
  void obey(const AbortCollective& action);
  /// Begins what can begin, and tells what there is to tell.
  void look();
  void try_to_make(Entry& entry);
  void tell_news(Entry& entry);
  void fail(Entry& entry, const std::string& why);
  Entry* find(StageId stage, const ViewNumber& view);
  void end_all();

  void stir() {
    {
      const std::lock_guard lock(mutex_);
      news_ = true;
    }
    stirred_.notify_all();
  }
  template <class Say>
  void tell(const Say& say) {
    const std::lock_guard lock(mutex_);
    if (inbox_ != nullptr) say(*results_, *inbox_);
  }

  const PeerId self_;
  const CollectiveLibrary library_;
  std::list<Entry> entries_;  // of the thread alone, in the order in which they were asked for

  std::mutex mutex_;  // guards all below
  std::condition_variable stirred_;
  std::vector<Order> orders_;
  bool news_ = false;
  std::optional<double> ending_s_;  // so long the thread may wait for the ends
  bool over_ = false;               // the thread is
  bool all_ended_ = false;          // and nobody was left behind
  CollectiveResults* results_;
  Inbox* inbox_;  // null: nobody listens
};

void NcclCollectives::Keeper::run() {
  while (true) {
    const std::chrono::milliseconds longest = pause();
    std::vector<Order> orders;
    {
      std::unique_lock lock(mutex_);
      stirred_.wait_for(lock, longest, [&] { return news_ || !orders_.empty() || ending_s_; });
      if (ending_s_) break;
      news_ = false;
      orders.swap(orders_);
    }
    for (const Order& order : orders) std::visit([&](const auto& o) { obey(o); }, order);
    look();
  }
  end_all();
}

std::chrono::milliseconds NcclCollectives::Keeper::pause() const {
  if (entries_.empty()) return kNoLook;
  const bool idle = std::all_of(entries_.begin(), entries_.end(), [](const Entry& entry) {
    return entry.collective != nullptr && entry.collective->is_ready();
  });
  return idle ? kIdleLook : kLook;
}

NcclCollectives::Keeper::Entry* NcclCollectives::Keeper::find(StageId stage,
                                                              const ViewNumber& view) {
  for (Entry& entry : entries_) {
    if (entry.action.stage == stage && entry.action.view == view && !entry.unwanted) return &entry;
  }
  return nullptr;
}

void NcclCollectives::Keeper::obey(const MakeCollective& action) {
  for (Entry& earlier : entries_) {
    if (earlier.action.stage != action.stage) continue;
    earlier.unwanted = true;
    if (earlier.collective != nullptr) earlier.collective->abort("another view has come");
  }
  entries_.push_back({action});
}

void NcclCollectives::Keeper::obey(const Enter& enter) {
  const auto& [action, arrays] = enter;
  Entry* const entry = find(action.stage, action.view);
  if (entry == nullptr || entry->collective == nullptr) return;  // its end was told
  if (!arrays) {
    fail(*entry, "this peer does not serve the stage");
    return;
  }
  tell([&](CollectiveResults& results, Inbox&) { results.forget(action.stage); });
  entry->seal = action.seal;
  entry->keep = arrays->keep;
  SumRequest request;
  request.in = arrays->in;
  request.out = arrays->out;
  request.count = arrays->count;
  request.cover = arrays->cover;
  request.ticket = action.ticket;
  request.keep = arrays->keep;
  entry->collective->start(request);
}

void NcclCollectives::Keeper::obey(const AbortCollective& action) {
  Entry* const entry = find(action.stage, action.view);
  if (entry == nullptr) return;
  entry->unwanted = true;
  if (entry->collective != nullptr) entry->collective->abort(action.why);
}

void NcclCollectives::Keeper::look() {
  for (Entry& entry : entries_) {
    if (entry.collective != nullptr) {
      tell_news(entry);
    } else if (!entry.unwanted) {
      try_to_make(entry);
    }
  }
  entries_.remove_if([](const Entry& entry) {
    return entry.unwanted && (entry.collective == nullptr || entry.collective->over());
  });
}

void NcclCollectives::Keeper::try_to_make(Entry& entry) {
  for (const Entry& other : entries_) {
    if (other.action.stage != entry.action.stage || other.collective == nullptr) continue;
    if (!other.collective->left_behind()) return;  // it ends, sooner or later
    return fail(entry, "an earlier one was left behind, which may still write to its place");
  }
  const std::optional<CommunicatorId> id = to_id(entry.action.id);
  if (!id) return fail(entry, "an id of another length than NCCL's");
  CommunicatorPlan plan;
  plan.id = *id;
  plan.size = static_cast<int>(entry.action.members);
  plan.place = static_cast<int>(entry.action.place);
  plan.device = library_.device;
  entry.collective = std::make_unique<Collective>(library_.make_engine(plan), plan, library_.limits,
                                                  [this] { stir(); });
}

void NcclCollectives::Keeper::tell_news(Entry& entry) {
  using Outcome = CollectiveProgress::Outcome;
  const StageId stage = entry.action.stage;
  const ViewNumber& view = entry.action.view;
  Collective& collective = *entry.collective;
  if (!entry.told_ready && !entry.unwanted && collective.is_ready()) {
    entry.told_ready = true;
    tell([&](CollectiveResults&, Inbox& inbox) { inbox.post(CollectiveReady{stage, view}); });
  }
  const CollectiveProgress news = collective.poll();
  SWARMPI_CHECK(
      !collective.device_lost(),
      "the GPU failed within NCCL, and nothing can be computed on it any more: " + news.why);
  if (news.outcome == Outcome::left_behind) note(self_, stage, news.why);
  if (entry.unwanted) return;
  if (news.outcome == Outcome::failed) fail(entry, news.why);
  if (news.outcome != Outcome::done) return;
  tell([&](CollectiveResults& results, Inbox& inbox) {
    results.set(stage, view, entry.seal, news.cover);
    inbox.post(CollectiveDone{stage, view, entry.seal, news.cover});
  });
}

void NcclCollectives::Keeper::fail(Entry& entry, const std::string& why) {
  entry.unwanted = true;
  if (entry.collective != nullptr) entry.collective->abort(why);
  note(self_, entry.action.stage, why + "; until the next view all goes point to point");
  tell([&](CollectiveResults&, Inbox& inbox) {
    inbox.post(CollectiveFailed{entry.action.stage, entry.action.view, why});
  });
}

void NcclCollectives::Keeper::end_all() {
  double until_s = 0;
  {
    const std::lock_guard lock(mutex_);
    until_s = *ending_s_;
  }
  const WallClock clock;
  for (Entry& entry : entries_) {
    if (entry.collective != nullptr) entry.collective->abort("the peer is at its end");
  }
  bool all = true;
  for (Entry& entry : entries_) {
    if (entry.collective == nullptr) continue;
    all = entry.collective->end(std::max(0.0, until_s - clock.now_s())) && all;
  }
  entries_.clear();
  {
    const std::lock_guard lock(mutex_);
    all_ended_ = all;
    over_ = true;
  }
  stirred_.notify_all();
}

bool NcclCollectives::Keeper::end(double wait_s) {
  // The thread gives up a moment before it is given up, unless it hangs itself.
  constexpr double kMoment = 1;
  std::unique_lock lock(mutex_);
  inbox_ = nullptr;
  results_ = nullptr;
  if (!ending_s_) ending_s_ = wait_s;
  stirred_.notify_all();
  stirred_.wait_for(lock, std::chrono::duration<double>(wait_s + kMoment), [&] { return over_; });
  return over_ && all_ended_;
}

// ---- The seam

NcclCollectives::NcclCollectives(PeerId self, CollectiveLibrary library, ArraysOf arrays_of,
                                 CollectiveResults& results, Inbox& inbox)
    : ids_(std::make_shared<IdMaker>(self, library.make_id, inbox)),
      keeper_(std::make_shared<Keeper>(self, library, results, inbox)),
      arrays_of_(std::move(arrays_of)) {
  keeper_->begin();
}

NcclCollectives::~NcclCollectives() { end(0); }

void NcclCollectives::take(MakeCollectiveId action) { ids_->ask(action); }
void NcclCollectives::take(MakeCollective action) { keeper_->give(std::move(action)); }
void NcclCollectives::take(EnterCollective action) {
  // Here, where no job that works on these sums can be running.
  keeper_->give(Keeper::Enter{action, arrays_of_(action.stage, action.step)});
}
void NcclCollectives::take(AbortCollective action) { keeper_->give(std::move(action)); }

bool NcclCollectives::end(double wait_s) {
  const WallClock clock;
  const bool collectives = keeper_->end(wait_s);
  const bool ids = ids_->end(std::max(0.0, wait_s - clock.now_s()));
  return collectives && ids;
}

Result<CollectiveLibrary> nccl_on(int device, int ranks_on_device) {
  if (ranks_on_device > 1) {
    std::array<char, 256> host{};
    ::gethostname(host.data(), host.size() - 1);
    ::setenv("NCCL_HOSTID", fmt::format("{}-{}", host.data(), ::getpid()).c_str(), 0);
  }
  const Result<const NcclLibrary*> found = NcclLibrary::load();
  if (!found.ok()) return found.status();
  const NcclLibrary& nccl = *found.value();
  CollectiveLibrary library;
  library.make_id = [&nccl] { return nccl.make_id(); };
  library.make_engine = [&nccl](const CommunicatorPlan&) { return make_nccl_engine(nccl); };
  library.device = device;
  return library;
}

}  // namespace swarmpi
