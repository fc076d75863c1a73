#include "torture/tally.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>

namespace swarmpi {
namespace {

constexpr std::int64_t kWordBits = 64;

// 0: the same; then 1, up to 4, up to 16, more.
std::int64_t distance(std::int64_t difference) {
  const std::int64_t size = std::abs(difference);
  const std::int64_t steps = size == 0 ? 0 : size == 1 ? 1 : size <= 4 ? 2 : size <= 16 ? 3 : 4;
  return difference < 0 ? -steps : steps;
}

// Of the classes of TortureTally::beyond_own.
constexpr std::array kNamesOfClasses = {"<-16", "-16..-5", "-4..-2", "-1", "same",
                                        "+1",   "+2..4",   "+5..16", ">16"};

double ratio(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

void TortureTally::add(const SwarmVerdict& verdict) {
  ++schedules;
  events += verdict.events;
  if (verdict.status == ExitStatus::stopped) ++resumed;
  if (verdict.status == ExitStatus::no) ++diverged;
  if (!verdict.violation.empty()) ++failed;
  for (std::size_t i = 0; i < faults.size(); ++i) faults[i] += verdict.faults[i];
  for (std::size_t i = 0; i < moments.size(); ++i) moments[i] += verdict.moments[i];
  for (std::size_t i = 0; i < moves.size(); ++i) moves[i] += verdict.moves[i];
  mishaps.add(verdict.mishaps);
  collectives.add(verdict.collectives);
  const auto came = [&](Fault::Kind kind) {
    return verdict.faults[static_cast<std::size_t>(kind)] > 0;
  };
  delayed += verdict.delayed ? 1 : 0;
  joined += verdict.joined > 0 ? 1 : 0;
  if (verdict.keeps_its_cuts) {
    ++coded;
    coded_repaired += verdict.repairs > 0 ? 1 : 0;
    coded_recomputed += verdict.recomputed > 0 ? 1 : 0;
    coded_both += verdict.repairs > 0 && verdict.recomputed > 0 ? 1 : 0;
  }
  shadowed += verdict.shadowed ? 1 : 0;
  damaged += verdict.damaged ? 1 : 0;
  piped += verdict.piped ? 1 : 0;
  many_words += verdict.microbatches > kWordBits ? 1 : 0;
  came_back += verdict.came_back;
  given_up_loading += verdict.given_up_loading;
  bounded += verdict.bounded ? 1 : 0;
  queued += verdict.queued ? 1 : 0;
  large += verdict.large ? 1 : 0;
  crowded += verdict.crowded ? 1 : 0;
  short_ends += verdict.short_ends;
  refusals += verdict.refusals;
  const bool stopped = came(Fault::Kind::stop) || came(Fault::Kind::hang_loop);
  silent += stopped || came(Fault::Kind::declare_dead) || came(Fault::Kind::cut) ||
                    came(Fault::Kind::cut_one_way) || came(Fault::Kind::lose_link)
                ? 1
                : 0;
  for (const DeathCost& death : verdict.deaths) {
    ++kills;
    if (death.led) ++kills_of_leaders;
    own += death.own;
    repeated += death.repeated;
    const std::int64_t index =
        static_cast<std::int64_t>(kSame) + distance(death.repeated - death.own);
    ++beyond_own[static_cast<std::size_t>(index)];
  }
}

std::string TortureTally::summary(double seconds) const {
  std::string text = fmt::format(
      "{} schedules, {} deaths, {} of leaders, {} resumed, {} diverged, {} failed; {:.0f} "
      "schedules a minute, {:.0f} events each\n",
      schedules, kills, kills_of_leaders, resumed, diverged, failed,
      60 * static_cast<double>(schedules) / seconds, ratio(events, schedules));
  const auto of = [&](Fault::Kind kind) { return faults[static_cast<std::size_t>(kind)]; };
  text += fmt::format(
      "peers killed by torture {}, stopped {}, declared dead {}, asked to leave {}; terms of "
      "another run {}; links cut {}, one way {}, for good and taken for deaths {}; "
      "bits of the state flipped {}, of reduced chunks {}\n",
      of(Fault::Kind::kill), of(Fault::Kind::stop), of(Fault::Kind::declare_dead),
      of(Fault::Kind::notice), of(Fault::Kind::outbid), of(Fault::Kind::cut),
      of(Fault::Kind::cut_one_way), of(Fault::Kind::lose_link), of(Fault::Kind::flip), damaged);
  text += fmt::format(
      "jobs that hung {}, disks {}, event loops while what they had sent arrived {}; writes that "
      "were carried out after they had been given up {}; parts of checkpoints lost {}, newest "
      "checkpoints damaged {}, loads of one refused {}\n",
      of(Fault::Kind::hang_jobs), of(Fault::Kind::hang_disk), of(Fault::Kind::hang_loop),
      mishaps.landed_late, mishaps.parts_lost, mishaps.damages, mishaps.refused);
  text += fmt::format(
      "peers given up that could not load their stages {}; peers that could lead again when their "
      "disks worked {}\n",
      given_up_loading, came_back);
  text += fmt::format(
      "schedules with delayed updates {}, with newcomers that were let in {}, with shadows {}, "
      "with somebody stopped or cut off {}, with static pipelines {}, with more than {} "
      "microbatches "
      "{}\n",
      delayed, joined, shadowed, silent, piped, kWordBits, many_words);
  text += fmt::format(
      "schedules with bounded memory {}: ends for too little of it {}, stages that found none {}\n",
      bounded, short_ends, refusals);
  text += fmt::format(
      "schedules whose messages wait in line {}, whose state is large {}, with {} workers or more "
      "{}\n",
      queued, large, kCrowd, crowded);
  if (collectives.ready > 0) {
    text += fmt::format(
        "collectives, at each member: ready {}, entered {}, done {}, failed {}, aborted {}\n",
        collectives.ready, collectives.entered, collectives.done, collectives.failed,
        collectives.aborted);
  }
  if (coded > 0) {
    text += fmt::format(
        "schedules with coded or learned boundaries {}: with repairs {}, with recomputation {}, "
        "with both {}\n",
        coded, coded_repaired, coded_recomputed, coded_both);
  }
  text += "moves by how they ended:";
  for (std::size_t i = 0; i < moves.size(); ++i) {
    text +=
        fmt::format(" {} {}{}", kNamesOf<MoveEnd>[i], moves[i], i + 1 < moves.size() ? "," : "\n");
  }
  text += fmt::format(
      "a death cost {:.2f} repeated microbatch-stages; {:.2f} were the dead peer's own\n",
      ratio(repeated, kills), ratio(own, kills));
  text += "repeated beyond its own, share of the deaths:";
  for (std::size_t i = 0; i < beyond_own.size(); ++i) {
    text += fmt::format("  {} {:.1f} %", kNamesOfClasses[i], 100 * ratio(beyond_own[i], kills));
  }
  return text + "\n";
}

std::string TortureTally::moments_text() const {
  std::string text;
  for (std::size_t i = 0; i < all_moments().size(); ++i) {
    text += fmt::format("{:9}  {}\n", moments[i], all_moments()[i].name);
  }
  return text;
}

std::vector<std::pair<std::string, std::int64_t>> TortureTally::counts() const {
  const auto of = [&](Fault::Kind kind) { return faults[static_cast<std::size_t>(kind)]; };
  std::vector<std::pair<std::string, std::int64_t>> all = {
      {"schedules", schedules},
      {"events", events},
      {"deaths", kills},
      {"deaths_of_leaders", kills_of_leaders},
      {"resumed_schedules", resumed},
      {"diverged_schedules", diverged},
      {"failed_schedules", failed},
      {"peers_killed", of(Fault::Kind::kill)},
      {"peers_stopped", of(Fault::Kind::stop)},
      {"peers_declared_dead", of(Fault::Kind::declare_dead)},
      {"peers_asked_to_leave", of(Fault::Kind::notice)},
      {"terms_of_another_run", of(Fault::Kind::outbid)},
      {"links_cut", of(Fault::Kind::cut)},
      {"links_cut_one_way", of(Fault::Kind::cut_one_way)},
      {"links_taken_for_deaths", of(Fault::Kind::lose_link)},
      {"bits_flipped", of(Fault::Kind::flip)},
      {"jobs_hung", of(Fault::Kind::hang_jobs)},
      {"disks_hung", of(Fault::Kind::hang_disk)},
      {"loops_hung", of(Fault::Kind::hang_loop)},
      {"writes_landed_late", mishaps.landed_late},
      {"checkpoint_parts_lost", mishaps.parts_lost},
      {"checkpoints_damaged", mishaps.damages},
      {"loads_of_damaged_checkpoints", mishaps.refused},
      {"schedules_with_damaged_chunk", damaged},
      {"schedules_delayed", delayed},
      {"schedules_joined", joined},
      {"schedules_shadowed", shadowed},
      {"schedules_with_silence", silent},
      {"schedules_of_static_pipelines", piped},
      {"schedules_of_bounded_memory", bounded},
      {"ends_for_too_little_memory", short_ends},
      {"stages_that_found_no_memory", refusals},
      {"schedules_with_queues", queued},
      {"schedules_of_large_state", large},
      {"schedules_of_a_crowd", crowded},
      {"peers_given_up_loading", given_up_loading},
      {"peers_that_could_lead_again", came_back},
      {"schedules_coded", coded},
      {"schedules_coded_repaired", coded_repaired},
      {"schedules_coded_recomputed", coded_recomputed},
      {"schedules_coded_repaired_and_recomputed", coded_both},
      {"collectives_ready", collectives.ready},
      {"collectives_entered", collectives.entered},
      {"collectives_done", collectives.done},
      {"collectives_failed", collectives.failed},
      {"collectives_aborted", collectives.aborted},
      {"passes_of_the_dead", own},
      {"passes_repeated", repeated},
  };
  for (std::size_t i = 0; i < moves.size(); ++i) {
    std::string name = fmt::format("moves_{}", kNamesOf<MoveEnd>[i]);
    std::replace(name.begin(), name.end(), ' ', '_');
    all.emplace_back(std::move(name), moves[i]);
  }
  for (std::size_t i = 0; i < beyond_own.size(); ++i) {
    all.emplace_back(fmt::format("deaths_repeated_beyond_own_{}", kNamesOfClasses[i]),
                     beyond_own[i]);
  }
  return all;
}

}  // namespace swarmpi
