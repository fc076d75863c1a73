#include "hardware/preemption_trace.hpp"

#include <gtest/gtest.h>

namespace swarmpi::preemption_trace_test {
namespace {

std::string refusal_of(const std::string& text) {
  const auto events = parse_trace(text, "t.csv");
  if (events.ok()) return "none";
  EXPECT_EQ(events.status().code(), ExitStatus::bad_input);
  return events.status().message();
}

TEST(Trace, IsReadInOrderOfTime) {
  const auto events = parse_trace(
      "time_s,event,peer\r\n# of a Tuesday\n\n12.5,kill,3\n 2 , notice , 0 \n", "t.csv");
  ASSERT_TRUE(events.ok());
  const std::vector<TraceEvent> expected = {{2, FaultEvent::notice, 0},
                                            {12.5, FaultEvent::kill, 3}};
  EXPECT_EQ(events.value(), expected);
}

TEST(Trace, ItsNamesMayHaveBlanksAndMayBeMissing) {
  EXPECT_EQ(parse_trace("time_s, event, peer\n1,kill,3\n", "t.csv").value().size(), 1u);
  EXPECT_EQ(parse_trace("1,kill,3\n", "t.csv").value().size(), 1u);
}

TEST(Trace, IsWrittenAsItIsRead) {
  const std::vector<TraceEvent> events = {{0.25, FaultEvent::kill, 0},
                                          {3600, FaultEvent::join, 17}};
  EXPECT_EQ(parse_trace(trace_text(events), "t.csv").value(), events);
}

TEST(Trace, AnInvalidLineIsNamed) {
  EXPECT_EQ(refusal_of("time_s,event,peer\n1,kill\n"),
            "t.csv:2: expected time_s,event,peer, not `1,kill`");
  EXPECT_EQ(refusal_of("soon,kill,1\n"),
            "t.csv:1: the time must be a number of seconds >= 0, not `soon`");
  EXPECT_EQ(refusal_of("-1,kill,1\n"),
            "t.csv:1: the time must be a number of seconds >= 0, not `-1`");
  EXPECT_EQ(refusal_of("1,kil,1\n"), "t.csv:1: unknown event `kil`; did you mean \"kill\"?");
  EXPECT_EQ(refusal_of("1,kill,1.5\n"),
            "t.csv:1: the peer must be a whole number below 1048576, not `1.5`");
  EXPECT_EQ(refusal_of("1,kill,-1\n"),
            "t.csv:1: the peer must be a whole number below 1048576, not `-1`");
}

}  // namespace
}  // namespace swarmpi::preemption_trace_test
