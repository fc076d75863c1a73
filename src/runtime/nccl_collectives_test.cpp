#include "runtime/nccl_collectives.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "protocol/messages/collective_port.hpp"
#include "protocol/messages/process_port.hpp"
#include "transport/nccl/fake_engine_test.hpp"

namespace swarmpi::nccl_collectives_test {
namespace {

constexpr std::int64_t kNumbers = 10;
const StageId kStage(2);

// Deadlines that no test waits for, but for those that shorten them.
CollectiveLimits patient() {
  CollectiveLimits limits;
  limits.making_s = limits.entering_s = limits.piece_s = limits.call_s = limits.abort_s = 60;
  limits.piece_bytes = 8 * 4;
  return limits;
}

// What all peers of a test share: the communicators by id.
class World {
 public:
  Result<CommunicatorId> make_id() {
    const std::lock_guard lock(mutex_);
    CommunicatorId id{};
    id[0] = static_cast<std::byte>(++ids_);
    return id;
  }
  std::shared_ptr<FakeGroup> group(const CommunicatorPlan& plan) {
    const std::lock_guard lock(mutex_);
    auto& group = groups_[plan.id];
    if (group == nullptr) group = std::make_shared<FakeGroup>();
    const std::lock_guard of_group(group->mutex);
    group->size = plan.size;
    return group;
  }
  /// Somebody has begun to make one.
  void wait_until_begun() {
    for (int i = 0; i < 2000 && groups() == 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

 private:
  std::size_t groups() {
    const std::lock_guard lock(mutex_);
    return groups_.size();
  }

  std::mutex mutex_;
  int ids_ = 0;
  std::map<CommunicatorId, std::shared_ptr<FakeGroup>> groups_;
};

// A peer with sums of its own, and what its collectives say.
struct Member {
  Member(World& world, int own_place, const FakeTroubles& troubles = {},
         const CollectiveLimits& limits = patient())
      : place(own_place), in(kNumbers), out(kNumbers, -1) {
    std::iota(in.begin(), in.end(), 100 * place);
    CollectiveLibrary library;
    library.make_id = [&world] { return world.make_id(); };
    library.make_engine = [&world, troubles](const CommunicatorPlan& plan) {
      return std::make_unique<FakeEngine>(world.group(plan), troubles);
    };
    library.limits = limits;
    collectives = std::make_unique<NcclCollectives>(
        PeerId(place), library,
        [this](StageId, Step) -> std::optional<CollectiveArrays> {
          if (!serves) return std::nullopt;
          return CollectiveArrays{in.data(), out.data(), kNumbers, cover, nullptr};
        },
        results, inbox);
  }
  ~Member() { collectives->end(10); }

  Event next() {
    for (int i = 0; i < 2000; ++i) {
      if (std::optional<Event> event = inbox.take()) return *event;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return TimerDue{};
  }
  template <class Kind>
  Kind expect() {
    const Event event = next();
    const Kind* const found = get_if<Kind>(&event);
    EXPECT_NE(found, nullptr) << "event of kind " << int{event.number()};
    return found != nullptr ? *found : Kind();
  }
  void make(const ViewNumber& view, const std::string& id, int members = 2) {
    collectives->take(MakeCollective{kStage, view, id, place, members});
  }
  void enter(const ViewNumber& view, std::int64_t number) {
    const auto ticket = static_cast<std::uint64_t>(number) + 7;
    collectives->take(EnterCollective{kStage, view, Step(1), seal(number), ticket});
  }
  static SealId seal(std::int64_t number) { return {Incarnation(1), Term(1), number}; }

  int place;
  std::vector<std::int64_t> in, out;
  Cover cover{3, 30};
  bool serves = true;
  Inbox inbox;
  CollectiveResults results;
  std::unique_ptr<NcclCollectives> collectives;
};

ViewNumber view_of(std::int64_t number) {
  ViewNumber view;
  view.number = number;
  return view;
}

std::string id_from(Member& member, const ViewNumber& view) {
  member.collectives->take(MakeCollectiveId{kStage, view});
  const auto made = member.expect<CollectiveIdMade>();
  EXPECT_EQ(made.stage, kStage);
  EXPECT_EQ(made.view, view);
  return made.id;
}

void make_both(Member& a, Member& b, const ViewNumber& view) {
  const std::string id = id_from(a, view);
  a.make(view, id);
  b.make(view, id);
  EXPECT_EQ(a.expect<CollectiveReady>().view, view);
  EXPECT_EQ(b.expect<CollectiveReady>().view, view);
}

TEST(NcclCollectives, AddUpTheSumsOfAllAndTellTheirCover) {
  World world;
  Member a(world, 0), b(world, 1);
  const ViewNumber view = view_of(1);
  make_both(a, b, view);
  for (std::int64_t number = 1; number <= 2; ++number) {
    EXPECT_FALSE(a.results.find(kStage, view, Member::seal(number)));
    a.enter(view, number);
    b.enter(view, number);
    for (Member* member : {&a, &b}) {
      const auto done = member->expect<CollectiveDone>();
      EXPECT_EQ(done.stage, kStage);
      EXPECT_EQ(done.view, view);
      EXPECT_EQ(done.seal, Member::seal(number));
      EXPECT_EQ(done.cover, (Cover{6, 60}));
      EXPECT_EQ(member->results.find(kStage, view, done.seal), done.cover);
      for (std::int64_t i = 0; i < kNumbers; ++i) {
        EXPECT_EQ(member->out[static_cast<std::size_t>(i)], 2 * i + 100);
      }
    }
  }
  EXPECT_FALSE(a.results.find(kStage, view, Member::seal(1))) << "its place was taken";
  EXPECT_TRUE(a.collectives->end(10));
}

TEST(NcclCollectives, TellOfAnErrorOnce) {
  World world;
  FakeTroubles troubles;
  troubles.error_from = 3;
  Member a(world, 0, troubles), b(world, 1);
  const ViewNumber view = view_of(1);
  make_both(a, b, view);
  a.enter(view, 1);
  b.enter(view, 1);
  const auto failed = a.expect<CollectiveFailed>();
  EXPECT_EQ(failed.view, view);
  EXPECT_NE(failed.why.find("remote process exited"), std::string::npos) << failed.why;
  a.collectives->take(AbortCollective{kStage, view, "late"});
  b.collectives->take(AbortCollective{kStage, view, "the other has failed"});
  EXPECT_TRUE(a.collectives->end(10) && b.collectives->end(10));
  EXPECT_FALSE(a.inbox.take() || b.inbox.take());
}

TEST(NcclCollectives, AfterAnAbortAreMadeAnewInTheNextView) {
  World world;
  Member a(world, 0), b(world, 1);
  make_both(a, b, view_of(1));
  a.enter(view_of(1), 1);  // alone
  for (Member* member : {&a, &b}) {
    member->collectives->take(AbortCollective{kStage, view_of(1), "the view has changed"});
  }
  make_both(a, b, view_of(2));
  a.enter(view_of(1), 1);  // of a view that is gone
  a.enter(view_of(2), 2);
  b.enter(view_of(2), 2);
  EXPECT_EQ(a.expect<CollectiveDone>().seal, Member::seal(2));
  EXPECT_EQ(b.expect<CollectiveDone>().seal, Member::seal(2));
}

TEST(NcclCollectives, WaitForTheEndOfAnEarlierOneOfTheStage) {
  World world;
  FakeTroubles troubles;
  troubles.abort_stays = std::make_shared<Gate>();
  Member a(world, 0, troubles), b(world, 1);
  make_both(a, b, view_of(1));
  const std::string id = id_from(b, view_of(2));
  for (Member* member : {&a, &b}) {
    member->collectives->take(AbortCollective{kStage, view_of(1), "the view has changed"});
    member->make(view_of(2), id);
  }
  troubles.abort_stays->wait_until_reached();
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  EXPECT_FALSE(a.inbox.take() || b.inbox.take());
  troubles.abort_stays->open();
  EXPECT_EQ(a.expect<CollectiveReady>().view, view_of(2));
  EXPECT_EQ(b.expect<CollectiveReady>().view, view_of(2));
}

TEST(NcclCollectives, HaveNoFurtherOneWhereAnAbortHangs) {
  World world;
  FakeTroubles troubles;
  troubles.abort_stays = std::make_shared<Gate>();
  CollectiveLimits limits = patient();
  limits.abort_s = 0.05;
  Member a(world, 0, troubles, limits);
  a.make(view_of(1), id_from(a, view_of(1)));  // the other never comes
  world.wait_until_begun();
  a.collectives->take(AbortCollective{kStage, view_of(1), "a replica was lost"});
  a.make(view_of(2), id_from(a, view_of(2)));
  const auto failed = a.expect<CollectiveFailed>();
  EXPECT_EQ(failed.view, view_of(2));
  EXPECT_NE(failed.why.find("left behind"), std::string::npos) << failed.why;
  EXPECT_FALSE(a.collectives->end(0.05));
  troubles.abort_stays->open();
}

TEST(NcclCollectives, HaveDeadlines) {
  World world;
  CollectiveLimits limits = patient();
  limits.making_s = 0.1;
  Member a(world, 0, {}, limits);
  a.make(view_of(1), id_from(a, view_of(1)));
  EXPECT_EQ(a.expect<CollectiveFailed>().view, view_of(1));
}

TEST(NcclCollectives, FailWhereTheStageIsNotServed) {
  World world;
  Member a(world, 0), b(world, 1);
  make_both(a, b, view_of(1));
  a.serves = false;
  a.enter(view_of(1), 1);
  EXPECT_EQ(a.expect<CollectiveFailed>().view, view_of(1));
  a.make(view_of(2), "short");
  EXPECT_EQ(a.expect<CollectiveFailed>().view, view_of(2));
}

TEST(NcclCollectives, SayNothingAfterTheirEnd) {
  World world;
  Member a(world, 0);
  EXPECT_TRUE(a.collectives->end(10));
  a.make(view_of(1), std::string(sizeof(CommunicatorId), 'x'));
  a.collectives->take(MakeCollectiveId{kStage, view_of(1)});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(a.inbox.take());
}

void lose_a_device() {
  World world;
  FakeTroubles troubles;
  troubles.error_from = 1;
  troubles.device_is_lost = true;
  Member a(world, 0, troubles), b(world, 1);
  const std::string id = id_from(a, view_of(1));
  a.make(view_of(1), id);
  b.make(view_of(1), id);
  a.next();
}

TEST(NcclCollectivesDeathTest, EndThePeerWhoseDeviceIsLost) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(lose_a_device(), "the GPU failed within NCCL");
}

}  // namespace
}  // namespace swarmpi::nccl_collectives_test
