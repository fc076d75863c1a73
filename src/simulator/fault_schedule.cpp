#include "simulator/fault_schedule.hpp"

#include <algorithm>

#include "core/text.hpp"
#include "simulator/draw_sequence.hpp"

namespace swarmpi {
namespace {

using Victim = Kill::Victim;
using Whose = Kill::Whose;

// What a run without faults takes, roughly.
constexpr std::int64_t kEventsPerPass = 9;
constexpr double kLongestWaitS = 1;

std::int64_t passes(const RunPlan& plan) {
  return (plan.train.steps + 1) * plan.train.microbatches * plan.stages();
}

std::int64_t one_in_many(DrawSequence& draws, std::int64_t most) {
  return static_cast<std::int64_t>(draws.log_uniform(1, static_cast<double>(most + 1)));
}

const NamedMoment& draw_moment(DrawSequence& draws, bool of_recovery) {
  for (;;) {
    const double which = draws.fraction();
    const auto& all = which < 0.6   ? message_moments()
                      : which < 0.8 ? job_moments()
                                    : other_moments();
    const NamedMoment& moment =
        all[static_cast<std::size_t>(draws.between(0, static_cast<std::int64_t>(all.size()) - 1))];
    if (!of_recovery || moment.of_recovery) return moment;
  }
}

std::int64_t draw_count(DrawSequence& draws, const RunPlan& plan, const Roster& roster,
                        HowOften how_often) {
  const auto peers = static_cast<std::int64_t>(roster.all().size());
  switch (how_often) {
    case HowOften::by_microbatch:
      return one_in_many(draws, passes(plan));
    case HowOften::by_step:
      return one_in_many(draws, 2 * (plan.train.steps + 1) * peers);
    case HowOften::rare:
      break;
  }
  return one_in_many(draws, 2 * peers);
}

void draw_when(Kill& kill, DrawSequence& draws, const RunPlan& plan, const Roster& roster) {
  kill.side = draws.chance(0.5) ? Kill::Side::before : Kill::Side::after;
  const double how = draws.fraction();
  if (how < 0.7) {
    kill.moment = draw_moment(draws, kill.from_last_death && draws.chance(0.7));
    const double whose = draws.fraction();
    kill.whose = whose < 0.6 ? Whose::anybody : whose < 0.8 ? Whose::leader : Whose::given;
    kill.given = draws.one_of(roster.all());
    kill.count = kill.from_last_death ? one_in_many(draws, 8)
                                      : draw_count(draws, plan, roster, kill.moment->how_often);
  } else if (kill.from_last_death) {
    kill.count = one_in_many(draws, 200);
  } else if (how < 0.95) {
    kill.count = draws.between(1, kEventsPerPass * passes(plan));
  } else {
    kill.not_before_s = draws.log_uniform(1e-6, kLongestWaitS);
  }
}

Kill draw_kill(DrawSequence& draws, const RunPlan& plan, const Roster& roster, bool first) {
  Kill kill;
  kill.from_last_death = !first && draws.chance(0.6);
  draw_when(kill, draws, plan, roster);
  const double who = draws.fraction();
  kill.victim = who < 0.45   ? Victim::actor
                : who < 0.6  ? Victim::other_side
                : who < 0.78 ? Victim::leader
                : who < 0.96 ? Victim::somebody
                             : Victim::stage;
  kill.stage = StageId(static_cast<std::int32_t>(draws.between(0, plan.stages() - 1)));
  const double burst = draws.fraction();
  kill.more = burst < 0.75 ? 0 : burst < 0.92 ? 1 : 2;
  kill.lot = draws.bits();
  return kill;
}

std::string name(const Kill& kill) {
  switch (kill.victim) {
    case Victim::actor:
      return "this peer";
    case Victim::other_side:
      return "the other side";
    case Victim::leader:
      return "the leader";
    case Victim::stage:
      return format("stage %d", kill.stage.value);
    case Victim::somebody:
      break;
  }
  return "somebody";
}

std::string actor_of(const Kill& kill) {
  if (kill.whose == Whose::leader) return "the leader";
  return kill.whose == Whose::given ? format("peer %d", kill.given.value) : "anybody";
}

}  // namespace

std::string Kill::text() const {
  std::string line = name(*this);
  if (more > 0) line += format(" and %lld more", static_cast<long long>(more));
  line += side == Side::before ? " before " : " after ";
  line += actor_of(*this) + (moment ? " " + moment->name : std::string(" hears of anything"));
  line += format(" (time %lld", static_cast<long long>(count));
  if (not_before_s > 0) line += format(", not before %.6f s", not_before_s);
  return line + (from_last_death ? " since the last death)" : ")");
}

std::string FaultSchedule::text() const {
  if (kills.empty()) return "nobody dies";
  std::string line;
  for (const Kill& kill : kills) line += (line.empty() ? "kills " : "; ") + kill.text();
  return line + (spares_a_replica ? "" : "; whole stages may die");
}

FaultSchedule draw_schedule(std::uint64_t seed, const RunPlan& plan, const Roster& roster) {
  DrawSequence draws(seed, 20);
  FaultSchedule schedule;
  const double how_many = draws.fraction();
  const std::int64_t kills = how_many < 0.03  ? 0
                             : how_many < 0.4 ? 1
                             : how_many < 0.7 ? 2
                                              : draws.between(3, 6);
  while (static_cast<std::int64_t>(schedule.kills.size()) < kills) {
    schedule.kills.push_back(draw_kill(draws, plan, roster, schedule.kills.empty()));
  }
  schedule.spares_a_replica = draws.chance(0.7);
  return schedule;
}

}  // namespace swarmpi
