#include "torture/fault_moment.hpp"

#include <gtest/gtest.h>

#include <set>
#include <variant>

#include "protocol/messages/compute_port.hpp"
#include "protocol/messages/ending.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/reduction_jobs.hpp"
#include "protocol/messages/seal.hpp"
#include "protocol/messages/tables.hpp"
#include "protocol/messages/views.hpp"

namespace swarmpi::fault_moment_test {
namespace {

template <class Body>
void expect_named(const std::string& name) {
  const Event came = MessageArrived{PeerId(1), Message{{}, {}, Body{}}};
  const Action sent = Send{PeerId(1), Message{{}, {}, Body{}}};
  std::set<std::string> names;
  for (const NamedMoment& moment : message_moments()) {
    if (moment.kind == kind_of(came) || moment.kind == kind_of(sent)) names.insert(moment.name);
  }
  EXPECT_EQ(names, (std::set{"receives " + name, "sends " + name}));
}

TEST(FaultMoment, EveryMessageCanBeAimedAtAndIsCalledByItsName) {
  EXPECT_EQ(message_moments().size(), 2 * MessageKinds::kCount);
  expect_named<ViewMessage>("ViewMessage");
  expect_named<SealMessage>("SealMessage");
  expect_named<TableMessage>("TableMessage");
  expect_named<ExitMessage>("ExitMessage");
}

TEST(FaultMoment, EveryJobHasABeginningAndAnEnd) {
  EXPECT_EQ(job_moments().size(), 2 * JobKinds::kCount);
  const Action start = StartJob{GatherJob{}};
  const Event end = JobFinished{GatherResult{}};
  std::set<std::string> names;
  for (const NamedMoment& moment : job_moments()) {
    if (moment.kind == kind_of(start) || moment.kind == kind_of(end)) names.insert(moment.name);
  }
  EXPECT_EQ(names, (std::set<std::string>{"finishes GatherJob", "starts GatherJob"}));
}

TEST(FaultMoment, NoTwoAreTheSame) {
  std::set<std::string> names;
  std::size_t count = 0;
  for (const auto* all : {&message_moments(), &job_moments(), &other_moments()}) {
    for (const NamedMoment& moment : *all) names.insert(moment.name);
    count += all->size();
  }
  EXPECT_EQ(names.size(), count);
}

}  // namespace
}  // namespace swarmpi::fault_moment_test
