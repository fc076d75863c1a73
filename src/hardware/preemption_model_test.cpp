#include "hardware/preemption_model.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace swarmpi::preemption_model_test {
namespace {

using Kind = TraceModel::Kind;

TraceModel a_month_of(Kind kind, std::uint64_t seed = 1) {
  return {kind, 100, 30 * 24, 4 * 3600, 600, seed};
}

std::int64_t kills_in(const std::vector<TraceEvent>& events) {
  return std::count_if(events.begin(), events.end(),
                       [](const TraceEvent& event) { return event.event == FaultEvent::kill; });
}

TEST(TraceModel, PeersFailAsOftenAsTheMeanSays) {
  for (const Kind kind : {Kind::poisson, Kind::diurnal, Kind::burst}) {
    const TraceModel model = a_month_of(kind);
    const double peers_s = 3600 * model.hours * static_cast<double>(model.peers);
    // A peer that fails is replaced only after return_s.
    const double expected = peers_s / (model.mtbf_s + model.return_s);
    const auto kills = static_cast<double>(kills_in(make_trace(model)));
    // Bursts come by tens: their number varies more.
    EXPECT_NEAR(kills / expected, 1, kind == Kind::burst ? 0.15 : 0.05) << int(kind);
  }
}

TEST(TraceModel, ASeedIsATrace) {
  EXPECT_EQ(make_trace(a_month_of(Kind::burst, 5)), make_trace(a_month_of(Kind::burst, 5)));
  EXPECT_NE(make_trace(a_month_of(Kind::burst, 5)), make_trace(a_month_of(Kind::burst, 6)));
}

TEST(TraceModel, OnlyTheLivingDieAndNobodyJoinsTwice) {
  for (const Kind kind : {Kind::poisson, Kind::diurnal, Kind::burst}) {
    std::set<std::int64_t> live;
    for (std::int64_t peer = 0; peer < 100; ++peer) live.insert(peer);
    std::int64_t newest = 99;
    double last_s = 0;
    for (const TraceEvent& event : make_trace(a_month_of(kind))) {
      ASSERT_GE(event.time_s, last_s);
      last_s = event.time_s;
      if (event.event == FaultEvent::join) {
        ASSERT_EQ(event.peer, ++newest);
        live.insert(event.peer);
      } else {
        ASSERT_EQ(live.erase(event.peer), 1u);
      }
    }
    EXPECT_LE(last_s, 30 * 24 * 3600);
  }
}

TEST(TraceModel, WithoutNewcomersItEndsWithTheLastPeer) {
  TraceModel model = a_month_of(Kind::poisson);
  model.return_s = 0;
  EXPECT_EQ(make_trace(model).size(), 100u);
}

TEST(TraceModel, ByDayMoreFailThanByNight) {
  std::int64_t day = 0, night = 0;
  for (const TraceEvent& event : make_trace(a_month_of(Kind::diurnal))) {
    const double hour = std::fmod(event.time_s / 3600, 24);
    if (event.event == FaultEvent::kill) ++(hour >= 8 && hour < 20 ? day : night);
  }
  EXPECT_GT(day, 2 * night);
}

TEST(TraceModel, ABurstIsOfOneZone) {
  std::int64_t together = 0, kills = 0;
  const TraceEvent* before = nullptr;
  const std::vector<TraceEvent> events = make_trace(a_month_of(Kind::burst));
  for (const TraceEvent& event : events) {
    if (event.event != FaultEvent::kill) continue;
    ++kills;
    const bool near = before != nullptr && event.time_s - before->time_s < 30;
    if (near && event.peer % 3 == before->peer % 3) ++together;
    before = &event;
  }
  EXPECT_GT(together, kills * 3 / 4);
}

}  // namespace
}  // namespace swarmpi::preemption_model_test
