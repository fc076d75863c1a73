#include "torture/swarm_check.hpp"

#include <fmt/core.h>

#include "protocol/step/restart_point.hpp"
#include "torture/rules/memory_room.hpp"
#include "torture/rules/population.hpp"

namespace swarmpi {
namespace {

// Of a run that diverges in its last steps: whether it ends before or after the validation passes
// behind the last step depends on timing.
void drop_last_passes(RunRecord& run_record, const RunPlan& plan) {
  std::erase_if(run_record.validation,
                [&](const auto& row) { return row.step + plan.delay() > plan.train.steps; });
}

// Whether the core has found that states differ, as after a flipped bit.
bool says_what_differs(const Status& status) {
  const std::string& text = status.message();
  return status.code() == ExitStatus::no &&
         (text.find("disagree") != std::string::npos ||
          text.find("all replicas agreed on") != std::string::npos);
}

// Whether a part of the run has a reason to stop.
bool may_stop(const SwarmEnd& end, const RandomSwarm& part) {
  if (end.nobody_is_left) return true;
  if (end.lacked_memory && lacked_memory(end.status)) return true;
  if (end.was_cut_off && (is_cut_off(end.status) || found_no_run(end.status))) return true;
  if (part.stop && says(end.status, "somebody asked")) return true;
  if (part.faults.has(Fault::Kind::notice) && says(end.status, "asked to leave")) return true;
  if (part.faults.has_hangs() && ends_for_a_hang(end.status)) return true;
  return part.disks.writes_until_full && lost_its_disk(end.status);
}

// What is wrong with how a part of the run ended, beside what the referee has found.
std::string wrong_end(const SwarmEnd& end, const SwarmEnd& reference, const RandomSwarm& part) {
  if (end.status.code() == ExitStatus::stopped) {
    return may_stop(end, part) ? "" : "stopped: " + end.status.message();
  }
  if (end.status.code() == reference.status.code()) return "";
  if (part.faults.has(Fault::Kind::flip) && says_what_differs(end.status)) return "";
  return "ended otherwise than one peer alone: " + end.status.message();
}

// The same, then where the part's record differs from that of one peer alone.
std::string compare_with(SwarmEnd& end, const SwarmEnd& reference, const RandomSwarm& part,
                         RunRecord& run_record) {
  if (!end.violation.empty()) return end.violation;
  if (auto wrong = wrong_end(end, reference, part); !wrong.empty()) return wrong;
  if (auto wrong = join(run_record, end.run_record); !wrong.empty()) return wrong;
  const bool whole = end.status.code() == reference.status.code() && !says_what_differs(end.status);
  return difference(run_record, reference.run_record, whole);
}

// The last checkpoint of a complete run must be a good one: one peer resumes from it, and must
// reach the same end.
std::string check_resumable(const RandomSwarm& part, const VirtualDisk& disk,
                            ComputeFactory& compute_factory, const RunRecord& reference) {
  const RestartPoint* newest = disk.newest();
  if (newest == nullptr) return "";
  RandomSwarm one = alone(part);
  one.membership.first_term = disk.terms.rbegin()->next();
  VirtualDisk left;
  left.checkpoints = disk.checkpoints;
  const SwarmEnd again = run(one, newest->state, compute_factory, left);
  RunRecord run_record = reference;
  std::string wrong =
      again.violation.empty() ? join(run_record, again.run_record) : again.violation;
  return wrong.empty() ? "" : "gone on from its last checkpoint: " + wrong;
}

// The swarm of other peers that resumes from the disk.
RandomSwarm next_part(const RandomSwarm& part, const VirtualDisk& disk, ResumeState& resume) {
  if (const RestartPoint* newest = disk.newest()) resume = newest->state;
  RandomSwarm next = draw_other_swarm(part, mix_bits(part.seed));
  if (!disk.terms.empty()) next.membership.first_term = disk.terms.rbegin()->next();
  return next;
}

}  // namespace

SwarmVerdict check_swarm(const RandomSwarm& swarm, Observer* observer) {
  SwarmVerdict verdict;
  verdict.delayed = swarm.plan.delay() > 1;
  verdict.microbatches = swarm.plan.train.microbatches;
  verdict.keeps_its_cuts = swarm.deck && swarm.deck->swarm.cuts_matter();
  verdict.queued = swarm.links.queue != Queue::none;
  verdict.large = swarm.links.piece_s > 0;
  verdict.crowded = swarm.membership.workers.size() >= kCrowd;
  VirtualDisk reference_disk;
  const RandomSwarm one = alone(swarm);
  SwarmEnd reference = run(one, {}, *make_compute_factory(one), reference_disk);
  if (!reference.violation.empty()) {
    verdict.violation = "one peer alone: " + reference.violation;
    return verdict;
  }
  const bool diverges = reference.status.code() == ExitStatus::no;
  if (diverges) drop_last_passes(reference.run_record, swarm.plan);
  const std::unique_ptr<ComputeFactory> compute_factory = make_compute_factory(swarm);
  RandomSwarm part = swarm;
  ResumeState resume;
  RunRecord run_record;
  for (std::vector<RestartPoint> checkpoints;; ++verdict.parts) {
    VirtualDisk disk;
    disk.checkpoints = std::move(checkpoints);
    SwarmEnd end = run(part, resume, *compute_factory, disk, observer);
    if (diverges) drop_last_passes(end.run_record, swarm.plan);
    verdict.events += end.events;
    verdict.jobs += end.jobs;
    verdict.recomputed += end.recomputed;
    verdict.repairs += end.repairs;
    verdict.deaths.insert(verdict.deaths.end(), end.deaths.begin(), end.deaths.end());
    verdict.injected = end.injected;
    for (std::size_t i = 0; i < end.faults.size(); ++i) verdict.faults[i] += end.faults[i];
    for (std::size_t i = 0; i < end.moments.size(); ++i) verdict.moments[i] += end.moments[i];
    for (std::size_t i = 0; i < end.moves.size(); ++i) verdict.moves[i] += end.moves[i];
    verdict.mishaps.add(disk.mishaps);
    verdict.collectives.add(end.collectives);
    verdict.joined += end.joined;
    verdict.came_back += end.came_back;
    verdict.given_up_loading += end.given_up_loading;
    verdict.shadowed |= part.plan.swarm.shadows > 0;
    verdict.piped |= part.plan.swarm.has_pipelines();
    verdict.bounded |= part.plan.needs.known();
    verdict.short_ends += end.lacked_memory ? 1 : 0;
    verdict.refusals += end.refusals;
    if (verdict.parts == 1) verdict.status = end.status.code();
    verdict.violation = compare_with(end, reference, part, run_record);
    if (verdict.violation.empty() && end.status.ok()) {
      verdict.violation = check_resumable(part, disk, *compute_factory, reference.run_record);
    }
    if (!verdict.violation.empty() || end.status.code() != ExitStatus::stopped) break;
    disk.set_damaged_aside();
    part = next_part(part, disk, resume);
    checkpoints = std::move(disk.checkpoints);
  }
  verdict.damaged = compute_factory->has_damaged();
  if (!verdict.violation.empty() && verdict.parts > 1) {
    verdict.violation += fmt::format("\nin part {}: {}", verdict.parts, part.text());
  }
  return verdict;
}

SwarmVerdict check_torture(std::uint64_t seed, const TortureRules& rules, Observer* observer) {
  return check_swarm(draw_tortured_swarm(seed, rules), observer);
}

}  // namespace swarmpi
