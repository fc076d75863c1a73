#include "torture/fault_schedule.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "core/check.hpp"
#include "simulation/random_models.hpp"

namespace swarmpi {
namespace {

using Kind = Fault::Kind;
using Victim = Fault::Victim;
using Actor = Fault::Actor;

// Rough figures of a run without faults.
constexpr std::int64_t kEventsPerPass = 9;
constexpr double kLongestWaitS = 1;

std::int64_t passes(const RunPlan& plan) {
  return (plan.train.steps + 1) * plan.train.microbatches * plan.stages();
}

std::int64_t one_in_many(RandomStream& draws, std::int64_t most) {
  return static_cast<std::int64_t>(log_uniform(draws, 1, static_cast<double>(most + 1)));
}

const NamedMoment& draw_moment(RandomStream& draws, bool after_deaths) {
  for (;;) {
    const double which = draws.fraction();
    const auto& all = which < 0.6   ? message_moments()
                      : which < 0.8 ? job_moments()
                                    : other_moments();
    // Those of the last five messages, which came later, are not drawn: a seed draws what it has
    // always drawn.
    const std::size_t drawn = all.size() - (&all == &message_moments() ? 10 : 0);
    const NamedMoment& moment =
        all[static_cast<std::size_t>(draws.between(0, static_cast<std::int64_t>(drawn) - 1))];
    if (moment.frequency == Frequency::never) continue;
    if (!after_deaths || moment.after_deaths) return moment;
  }
}

std::int64_t draw_count(RandomStream& draws, const RunPlan& plan,
                        const InitialMembership& membership, Frequency frequency) {
  const auto peers = static_cast<std::int64_t>(membership.all().size());
  switch (frequency) {
    case Frequency::by_microbatch:
      return one_in_many(draws, passes(plan));
    case Frequency::by_step:
      return one_in_many(draws, 2 * (plan.train.steps + 1) * peers);
    case Frequency::rare:
    case Frequency::never:
      break;
  }
  return draws.chance(0.5) ? 1 : one_in_many(draws, 2 * peers);
}

void draw_when(Fault& fault, RandomStream& draws, const RunPlan& plan,
               const InitialMembership& membership) {
  fault.side = draws.chance(0.5) ? Fault::Side::before : Fault::Side::after;
  const double how = draws.fraction();
  if (how < 0.7) {
    fault.moment = draw_moment(draws, fault.since_last_fault && draws.chance(0.7));
    const double actor = draws.fraction();
    fault.actor = actor < 0.6 ? Actor::any : actor < 0.8 ? Actor::leader : Actor::given;
    fault.given_actor = draws.one_of(membership.all());
    fault.count = fault.since_last_fault
                      ? one_in_many(draws, 8)
                      : draw_count(draws, plan, membership, fault.moment->frequency);
  } else if (fault.since_last_fault) {
    fault.count = one_in_many(draws, 200);
  } else if (how < 0.95) {
    fault.count = draws.between(1, kEventsPerPass * passes(plan));
  } else {
    fault.not_before_s = log_uniform(draws, 1e-6, kLongestWaitS);
  }
}

// From a thousandth of swarm.suspect_after_s to four times as long.
void draw_silence(Fault& fault, RandomStream& draws, const RunPlan& plan) {
  const double patience_s = plan.swarm.suspect_after_s;
  fault.kind = draws.chance(0.5) ? Kind::cut : Kind::stop;
  fault.duration_s =
      patience_s * (draws.chance(0.4) ? draws.uniform(1, 4) : log_uniform(draws, 1e-3, 1));
  if (fault.kind == Kind::stop) {
    if (draws.chance(0.3)) {
      fault.kind = Kind::hang_loop;
    } else if (fault.duration_s > patience_s && draws.chance(0.5)) {
      fault.kind = Kind::declare_dead;
    }
    fault.reachable = fault.kind != Kind::stop || fault.victim_seed % 3 != 0;
    return;
  }
  if (draws.chance(0.3)) fault.duration_s = std::numeric_limits<double>::infinity();
  fault.reachable = draws.chance(0.8);
  fault.more = draws.chance(0.7) ? 1 : draws.between(1, 8);
  const std::uint64_t way = fault.victim_seed % 5;
  if (way < 2) fault.kind = Kind::cut_one_way;
  fault.inward = way == 0;
  const bool for_good = fault.duration_s == std::numeric_limits<double>::infinity();
  const bool told = fault.victim_seed / 5 % 2 == 0;
  if (fault.kind == Kind::cut && for_good && fault.reachable && told) fault.kind = Kind::lose_link;
}

Fault draw_fault(RandomStream& draws, const RunPlan& plan, const InitialMembership& membership,
                 bool first, double silence) {
  Fault fault;
  fault.since_last_fault = !first && draws.chance(0.6);
  draw_when(fault, draws, plan, membership);
  const double who = draws.fraction();
  fault.victim = who < 0.45   ? Victim::actor
                 : who < 0.6  ? Victim::other_endpoint
                 : who < 0.78 ? Victim::leader
                 : who < 0.96 ? Victim::drawn
                              : Victim::stage;
  fault.stage = StageId(static_cast<std::int32_t>(draws.between(0, plan.stages() - 1)));
  const double burst = draws.fraction();
  fault.more = burst < 0.75 ? 0 : burst < 0.92 ? 1 : 2;
  fault.victim_seed = draws.bits();
  if (draws.chance(0.1)) fault.kind = Kind::notice;
  if (draws.chance(silence)) draw_silence(fault, draws, plan);
  return fault;
}

// A moment that comes only after a death is counted from a death on.
bool needs_a_death(const Fault& fault) {
  return fault.moment && fault.moment->after_deaths && fault.moment->frequency == Frequency::rare &&
         !fault.since_last_fault;
}

Fault draw_death(RandomStream& draws, const RunPlan& plan, const InitialMembership& membership) {
  Fault fault = draw_fault(draws, plan, membership, true, 0);
  fault.kind = Kind::kill;
  fault.more = 0;
  fault.moment.reset();
  fault.actor = Actor::any;
  fault.not_before_s = 0;
  fault.count = draws.between(1, kEventsPerPass * passes(plan));
  return fault;
}

std::string fault_verb(const Fault& fault) {
  switch (fault.kind) {
    case Kind::kill:
      break;
    case Kind::flip:
      return "flips a bit of ";
    case Kind::notice:
      return "asks to leave ";
    case Kind::stop:
      return fmt::format("stops{} for {:.6f} s ", fault.reachable ? "" : " with their hosts",
                         fault.duration_s);
    case Kind::declare_dead:
      return fmt::format("stops, and declares dead, for {:.6f} s ", fault.duration_s);
    case Kind::hang_jobs:
      return fmt::format("for {:.6f} s hangs the jobs of ", fault.duration_s);
    case Kind::hang_disk:
      return fmt::format("for {:.6f} s hangs the disk of ", fault.duration_s);
    case Kind::hang_loop:
      return fmt::format("for {:.6f} s hangs the event loop of ", fault.duration_s);
    case Kind::cut_one_way:
      return fmt::format("cuts {} ({}) for {:.6f} s ",
                         fault.inward ? "off what comes to" : "off what goes from",
                         fault.reachable ? "reachable" : "unreachable", fault.duration_s);
    case Kind::lose_link:
      return "cuts for good, and declares dead to each other, ";
    case Kind::outbid:
      return "another run takes the next term, seen by ";
    case Kind::cut:
      return fmt::format("cuts ({}) for {:.6f} s ", fault.reachable ? "reachable" : "unreachable",
                         fault.duration_s);
  }
  return "kills ";
}

std::string name(const Fault& fault) {
  switch (fault.victim) {
    case Victim::actor:
      return "this peer";
    case Victim::other_endpoint:
      return "the other endpoint";
    case Victim::leader:
      return "the leader";
    case Victim::stage:
      return fmt::format("stage {}", fault.stage.value);
    case Victim::drawn:
      break;
  }
  return "a drawn peer";
}

std::string actor_of(const Fault& fault) {
  if (fault.actor == Actor::leader) return "the leader";
  return fault.actor == Actor::given ? fmt::format("peer {}", fault.given_actor.value) : "anybody";
}

}  // namespace

std::string Fault::text() const {
  std::string line = fault_verb(*this) + name(*this);
  if (more > 0) line += fmt::format(" and {} more", more);
  line += side == Side::before ? " before " : " after ";
  line += actor_of(*this) + (moment ? " " + moment->name : std::string(" hears of anything"));
  line += fmt::format(" (time {}", count);
  if (not_before_s > 0) line += fmt::format(", not before {:.6f} s", not_before_s);
  return line + (since_last_fault ? " since the last fault)" : ")");
}

bool FaultSchedule::has_silence() const {
  return has(Kind::stop) || has(Kind::declare_dead) || has(Kind::cut) || has(Kind::cut_one_way) ||
         has(Kind::lose_link) || has(Kind::hang_loop);
}

bool FaultSchedule::has(Fault::Kind kind) const {
  return std::any_of(all.begin(), all.end(),
                     [kind](const Fault& fault) { return fault.kind == kind; });
}

std::string FaultSchedule::text() const {
  if (all.empty()) return "no faults";
  std::string line;
  for (const Fault& fault : all) line += (line.empty() ? "" : "; ") + fault.text();
  return line + (spares_a_replica ? "" : "; whole stages may die");
}

namespace {

const NamedMoment& moment_named(const std::string& name) {
  const auto found = std::find_if(all_moments().begin(), all_moments().end(),
                                  [&](const NamedMoment& moment) { return moment.name == name; });
  SWARMPI_CHECK(found != all_moments().end(), "a moment has that name");
  return *found;
}

// The leader's disk hangs, then that of each that takes over, as it does so; and somebody dies, or
// hangs once more, just as one comes back.
void add_what_follows(FaultSchedule& schedule, std::uint64_t seed, const RunPlan& plan,
                      const InitialMembership& membership) {
  RandomStream draws(seed, Stream::simulation, 27);
  if (!draws.chance(0.4)) return;
  const auto lasts_s = [&] { return plan.storage_timeout_s * draws.uniform(0.8, 3); };
  Fault& first = schedule.all.back();
  first.victim = Victim::leader;
  first.more = 0;
  first.duration_s = lasts_s();
  const auto then = [&](const char* moment, Kind kind) -> Fault& {
    Fault fault = draw_fault(draws, plan, membership, false, 0);
    fault.kind = kind;
    fault.moment = moment_named(moment);
    fault.actor = Actor::any;
    fault.not_before_s = 0;
    fault.since_last_fault = true;
    fault.count = 1;
    fault.duration_s = lasts_s();
    return schedule.all.emplace_back(std::move(fault));
  };
  for (auto others = draws.between(1, 5); others > 0; --others) {
    Fault& next = then("hears TermCreated", Kind::hang_disk);
    next.victim = Victim::actor;
    next.more = draws.chance(0.8) ? 0 : 1;
  }
  if (draws.chance(0.5)) return;
  then(draws.chance(0.5) ? "sends AbleMessage" : "receives AbleMessage",
       draws.chance(0.7) ? Kind::kill : Kind::hang_disk);
}

}  // namespace

// From a part of what is waited for until a job is late, or a disk given up, to several times as
// long; all peers hang together where it is their server.
void add_deaths(FaultSchedule& schedule, std::uint64_t seed, const RunPlan& plan,
                const InitialMembership& membership) {
  RandomStream draws(seed, Stream::simulation, 40);
  for (std::int64_t left = draws.between(1, 3); left > 0; --left) {
    Fault death = draw_death(draws, plan, membership);
    if (death.victim == Victim::stage) death.victim = Victim::drawn;
    schedule.all.push_back(std::move(death));
  }
}

void add_hang(FaultSchedule& schedule, std::uint64_t seed, const RunPlan& plan,
              const InitialMembership& membership) {
  RandomStream draws(seed, Stream::simulation, 23);
  const auto peers = static_cast<std::int64_t>(membership.all().size());
  Fault fault = draw_fault(draws, plan, membership, true, 0);
  fault.kind = draws.chance(0.5) ? Kind::hang_jobs : Kind::hang_disk;
  fault.duration_s = plan.swarm.suspect_after_s * log_uniform(draws, 0.5, 100);
  fault.more = draws.chance(0.2) ? peers : draws.chance(0.8) ? 0 : 1;
  const bool disk = fault.kind == Kind::hang_disk;
  // Anywhere in the list but where it would part a fault from the one that it follows.
  schedule.all.push_back(std::move(fault));
  if (disk) add_what_follows(schedule, seed, plan, membership);
}

void add_faults_of_collectives(FaultSchedule& schedule, std::uint64_t seed, const RunPlan& plan,
                               const InitialMembership& membership) {
  RandomStream draws(seed, Stream::simulation, 47);
  const auto& moments = collective_moments();
  for (std::int64_t left = draws.between(0, 3); left > 0; --left) {
    Fault fault = draw_fault(draws, plan, membership, schedule.all.empty(), 0);
    fault.moment = draws.one_of(moments);
    fault.not_before_s = 0;
    if (!fault.since_last_fault) {
      fault.count = draw_count(draws, plan, membership, fault.moment->frequency);
    }
    schedule.all.push_back(std::move(fault));
  }
}

void add_outbids(FaultSchedule& schedule, std::uint64_t seed, const RunPlan& plan,
                 const InitialMembership& membership) {
  RandomStream draws(seed, Stream::simulation, 48);
  for (std::int64_t left = draws.between(1, 2); left > 0; --left) {
    Fault fault = draw_fault(draws, plan, membership, schedule.all.empty(), 0);
    fault.kind = Kind::outbid;
    fault.victim = Victim::actor;
    fault.more = 0;
    if (draws.chance(0.2)) {
      fault.moment = moment_named(draws.chance(0.5) ? "asks for CreateTerm" : "hears TermCreated");
      fault.actor = Actor::any;
      fault.not_before_s = 0;
      fault.count = one_in_many(draws, 2);
    }
    schedule.all.push_back(std::move(fault));
  }
}

void add_hang_in_loading(FaultSchedule& schedule, std::uint64_t seed, const RunPlan& plan,
                         const InitialMembership& membership) {
  RandomStream draws(seed, Stream::simulation, 28);
  Fault stage_dies = draw_death(draws, plan, membership);
  stage_dies.victim = Victim::stage;
  Fault hangs;
  hangs.kind = Kind::hang_disk;
  hangs.moment = moment_named("asks for LoadStage");
  hangs.since_last_fault = true;
  hangs.count = one_in_many(draws, 3);
  hangs.victim_seed = draws.bits();
  hangs.more = draws.chance(0.7) ? 0 : draws.between(1, 3);
  hangs.duration_s = plan.swarm.suspect_after_s * log_uniform(draws, 5, 200);
  schedule.all = {std::move(stage_dies), std::move(hangs)};
  schedule.spares_a_replica = false;
}

FaultSchedule draw_schedule(std::uint64_t seed, const RunPlan& plan,
                            const InitialMembership& membership, bool silence, bool flips,
                            std::size_t more) {
  RandomStream draws(seed, Stream::simulation, 20);
  FaultSchedule schedule;
  const double how_many = draws.fraction();
  const std::size_t drawn = how_many < 0.03  ? 0
                            : how_many < 0.4 ? 1
                            : how_many < 0.7 ? 2
                                             : static_cast<std::size_t>(draws.between(3, 6));
  const std::size_t faults = drawn + more;
  while (schedule.all.size() < faults) {
    // With `silence` the first fault is a stop or a cut.
    const bool first = schedule.all.empty();
    Fault fault = draw_fault(draws, plan, membership, first, !silence ? 0 : first ? 1 : 0.5);
    if (needs_a_death(fault)) {
      schedule.all.push_back(draw_death(draws, plan, membership));
      fault.since_last_fault = true;
      fault.count = one_in_many(draws, 4);
    }
    schedule.all.push_back(std::move(fault));
  }
  schedule.spares_a_replica = draws.chance(0.7);
  if (draws.chance(0.02) && flips) {  // nothing else: a replica to compare with must live
    schedule.all.resize(1, draw_fault(draws, plan, membership, true, 0));
    Fault& flip = schedule.all.front();
    flip.kind = Kind::flip;
    flip.more = 0;
    if (flip.victim == Victim::stage) flip.victim = Victim::drawn;
  }
  return schedule;
}

}  // namespace swarmpi
