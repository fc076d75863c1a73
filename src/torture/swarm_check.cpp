#include "torture/swarm_check.hpp"

#include "core/text.hpp"

namespace swarmpi {
namespace {

// Whether the passes behind the last step are through before a run that diverges in its last steps
// ends is a matter of time.
void forget_last_passes(RunRecord& run_record, const RunPlan& plan) {
  std::erase_if(run_record.validation,
                [&](const auto& row) { return row.step + plan.delay() > plan.train.steps; });
}

// A bit that has flipped is found by whoever compares.
bool says_what_differs(const Status& status) {
  const std::string& text = status.message();
  return status.code() == ExitStatus::no &&
         (text.find("disagree") != std::string::npos ||
          text.find("all replicas agreed on") != std::string::npos);
}

// Why a part of the run may stop.
bool may_stop(const SwarmEnd& end, const RandomSwarm& part) {
  const auto says = [&](const char* text) {
    return end.status.message().find(text) != std::string::npos;
  };
  if (end.nobody_is_left) return true;
  const bool cut_off =
      says("cannot be killed") || says("stopped for too long") || says("there is no run to join");
  if (end.was_cut_off && cut_off) return true;
  if (part.stop && says("somebody asked")) return true;
  if (part.faults.has(Fault::Kind::notice) && says("asked to leave")) return true;
  return part.disks.room && (says("space left") || says("output error"));
}

// What one part of the run did wrong, beside what the referee has seen.
std::string wrong_end(const SwarmEnd& end, const SwarmEnd& reference, const RandomSwarm& part) {
  if (end.status.code() == ExitStatus::stopped) {
    return may_stop(end, part) ? "" : "stopped: " + end.status.message();
  }
  if (end.status.code() == reference.status.code()) return "";
  if (part.faults.has(Fault::Kind::flip) && says_what_differs(end.status)) return "";
  return "ended otherwise than one peer alone: " + end.status.message();
}

// The same, then whether its story is that of one peer alone.
std::string compare(SwarmEnd& end, const SwarmEnd& reference, const RandomSwarm& part,
                    RunRecord& run_record) {
  if (!end.fault.empty()) return end.fault;
  if (auto wrong = wrong_end(end, reference, part); !wrong.empty()) return wrong;
  if (auto wrong = join(run_record, end.run_record); !wrong.empty()) return wrong;
  const bool whole = end.status.code() == reference.status.code() && !says_what_differs(end.status);
  return difference(run_record, reference.run_record, whole);
}

// What a run that has ended well leaves can be gone on from: one peer alone comes to the same.
std::string reopen(const RandomSwarm& part, const VirtualDisk& disk,
                   ComputeFactory& compute_factory, const RunRecord& reference) {
  const RestartPoint* newest = disk.newest();
  if (newest == nullptr) return "";
  RandomSwarm one = alone(part);
  one.membership.first_term = disk.terms.rbegin()->next();
  VirtualDisk left;
  left.checkpoints = disk.checkpoints;
  const SwarmEnd again = run(one, newest->state, compute_factory, left);
  RunRecord run_record = reference;
  std::string wrong = again.fault.empty() ? join(run_record, again.run_record) : again.fault;
  return wrong.empty() ? "" : "gone on from its last checkpoint: " + wrong;
}

// Other peers go on from what is on the disk.
RandomSwarm resumed(const RandomSwarm& part, const VirtualDisk& disk, ResumeState& resume) {
  if (const RestartPoint* newest = disk.newest()) resume = newest->state;
  RandomSwarm next = draw_other_swarm(part, mix_bits(part.seed));
  if (!disk.terms.empty()) next.membership.first_term = disk.terms.rbegin()->next();
  return next;
}

}  // namespace

SwarmVerdict check_swarm(const RandomSwarm& swarm, Observer* trace) {
  SwarmVerdict verdict;
  verdict.delayed = swarm.plan.delay() > 1;
  VirtualDisk reference_disk;
  const RandomSwarm one = alone(swarm);
  SwarmEnd reference = run(one, {}, *make_compute_factory(one), reference_disk);
  if (!reference.fault.empty()) {
    verdict.fault = "one peer alone: " + reference.fault;
    return verdict;
  }
  const bool diverges = reference.status.code() == ExitStatus::no;
  if (diverges) forget_last_passes(reference.run_record, swarm.plan);
  const std::unique_ptr<ComputeFactory> compute_factory = make_compute_factory(swarm);
  RandomSwarm part = swarm;
  ResumeState resume;
  RunRecord run_record;
  for (std::vector<RestartPoint> checkpoints;; ++verdict.parts) {
    VirtualDisk disk;
    disk.checkpoints = std::move(checkpoints);
    SwarmEnd end = run(part, resume, *compute_factory, disk, trace);
    if (diverges) forget_last_passes(end.run_record, swarm.plan);
    verdict.events += end.events;
    verdict.jobs += end.jobs;
    verdict.deaths.insert(verdict.deaths.end(), end.deaths.begin(), end.deaths.end());
    verdict.killed = end.killed;
    for (std::size_t i = 0; i < end.faults.size(); ++i) verdict.faults[i] += end.faults[i];
    for (std::size_t i = 0; i < end.moments.size(); ++i) verdict.moments[i] += end.moments[i];
    verdict.joined += end.joined;
    verdict.shadowed |= part.plan.swarm.shadows > 0;
    if (verdict.parts == 1) verdict.status = end.status.code();
    verdict.fault = compare(end, reference, part, run_record);
    if (verdict.fault.empty() && end.status.ok()) {
      verdict.fault = reopen(part, disk, *compute_factory, reference.run_record);
    }
    if (!verdict.fault.empty() || end.status.code() != ExitStatus::stopped) break;
    part = resumed(part, disk, resume);
    checkpoints = std::move(disk.checkpoints);
  }
  if (!verdict.fault.empty() && verdict.parts > 1) {
    verdict.fault +=
        format("\nin part %lld: ", static_cast<long long>(verdict.parts)) + part.text();
  }
  return verdict;
}

}  // namespace swarmpi
