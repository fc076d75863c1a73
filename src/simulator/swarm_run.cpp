#include "simulator/swarm_run.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/text.hpp"

namespace swarmpi {
namespace {

// A pass behind the last step may be through before that step is committed.
void sort_by_step(std::vector<ValidationRow>& rows) {
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
}

Story written_story(const VirtualDisk& disk, const Referee& referee) {
  Story story;
  for (const StoreRecord& record : disk.journal) {
    if (const auto* row = std::get_if<StepRow>(&record.row)) story.rows.push_back(*row);
    if (const auto* row = std::get_if<ValidationRow>(&record.row)) story.validation.push_back(*row);
  }
  sort_by_step(story.validation);
  story.commits = referee.commits();
  return story;
}

bool same_bits(double a, double b) {
  if (std::isnan(a) && std::isnan(b)) return true;
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

// Names the first column that differs.
std::string difference(const StepRow& a, const StepRow& b) {
  const auto say = [&](const char* column, double x, double y) {
    return format("%s of step %lld: %.17g and %.17g", column, static_cast<long long>(a.step), x, y);
  };
  if (a.step != b.step) return say("number", double(a.step), double(b.step));
  if (!same_bits(a.loss, b.loss)) return say("loss", a.loss, b.loss);
  if (!same_bits(a.grad_norm, b.grad_norm)) return say("grad_norm", a.grad_norm, b.grad_norm);
  if (!same_bits(a.clip, b.clip)) return say("clip", a.clip, b.clip);
  if (!same_bits(a.lr, b.lr)) return say("lr", a.lr, b.lr);
  if (a.tokens != b.tokens) return say("tokens", double(a.tokens), double(b.tokens));
  if (a.skipped != b.skipped) return say("skipped", double(a.skipped), double(b.skipped));
  if (a.state_hash != b.state_hash) {
    return format("state_hash of step %lld: %016llx and %016llx", static_cast<long long>(a.step),
                  static_cast<unsigned long long>(a.state_hash),
                  static_cast<unsigned long long>(b.state_hash));
  }
  return "";
}

std::string difference(const ValidationRow& a, const ValidationRow& b) {
  if (a.step == b.step && same_bits(a.loss, b.loss)) return "";
  return format("validation of step %lld: %.17g, and of step %lld: %.17g",
                static_cast<long long>(a.step), a.loss, static_cast<long long>(b.step), b.loss);
}

// What of a commit record does not reach the rows.
std::string difference(const CommitRecord& a, const CommitRecord& b) {
  const bool same =
      a.next_exponents == b.next_exponents && a.flagged == b.flagged &&
      a.applied_updates == b.applied_updates && a.skips_in_a_row == b.skips_in_a_row &&
      std::bit_cast<std::uint32_t>(a.correction1) == std::bit_cast<std::uint32_t>(b.correction1) &&
      std::bit_cast<std::uint32_t>(a.correction2) == std::bit_cast<std::uint32_t>(b.correction2);
  if (same) return "";
  return format("exponents, flags or counts in the commit record of step %lld",
                static_cast<long long>(a.step.value));
}

std::string compare(const std::vector<StepRow>& part, const std::vector<StepRow>& whole,
                    bool complete) {
  for (std::size_t i = 0; i < part.size() && i < whole.size(); ++i) {
    if (std::string d = difference(part[i], whole[i]); !d.empty()) return d;
  }
  const bool fits = part.size() == whole.size() || (!complete && part.size() < whole.size());
  return fits ? "" : format("%zu rows instead of %zu", part.size(), whole.size());
}

// A stop may leave a gap: with delayed updates the pass behind the last step may be through first.
std::string compare(const std::vector<ValidationRow>& part, const std::vector<ValidationRow>& whole,
                    bool complete) {
  for (const ValidationRow& row : part) {
    const auto other =
        std::find_if(whole.begin(), whole.end(), [&](const auto& w) { return w.step == row.step; });
    if (other == whole.end()) {
      return format("step %lld was validated", static_cast<long long>(row.step));
    }
    if (std::string d = difference(row, *other); !d.empty()) return d;
  }
  if (!complete || part.size() == whole.size()) return "";
  return format("%zu validation rows instead of %zu", part.size(), whole.size());
}

}  // namespace

SwarmEnd run_swarm(const SwarmSetting& setting, LinkModel& links, CostModel& costs,
                   DiskModel& disks, VirtualDisk& disk, Observer* trace) {
  VirtualWorld world(links, costs, disks, disk);
  Referee referee(setting.plan, setting.roster, setting.resume, disk);
  if (setting.states_may_differ) referee.overlook_states();
  if (trace != nullptr) world.watch(*trace);
  world.watch(referee);
  std::vector<std::unique_ptr<VirtualCompute>> computes;
  for (const PeerId id : setting.roster.all()) {
    computes.push_back(setting.compute(id));
    world.add(id, std::make_unique<Peer>(id, setting.plan, setting.roster, setting.resume),
              *computes.back(), setting.start_s ? setting.start_s(id) : 0,
              setting.clock_offset_s ? setting.clock_offset_s(id) : 0);
  }
  bool stop_asked = false;
  while (world.events() < setting.most_events && world.now_s() < setting.most_s) {
    if (setting.stop && !stop_asked && world.events() >= setting.stop->after_events) {
      stop_asked = true;
      for (const PeerId id : setting.stop->peers) {
        world.post(world.now_s(), id, StopRequested{"somebody asked"});
      }
    }
    if (!world.step() || !referee.breach().empty()) break;
  }
  SwarmEnd end;
  end.fault = world.finding().ok() ? referee.at_the_end(world) : world.finding().message();
  end.story = written_story(disk, referee);
  end.events = world.events();
  end.jobs = referee.jobs();
  end.seconds = world.now_s();
  if (end.fault.empty()) end.status = world.peer(setting.roster.all().front()).status();
  return end;
}

std::string join(Story& story, const Story& later) {
  for (const StepRow& row : later.rows) {
    const auto next = static_cast<std::int64_t>(story.rows.size());
    if (row.step != next) {
      return format("row %lld is written after %lld rows", static_cast<long long>(row.step),
                    static_cast<long long>(next));
    }
    story.rows.push_back(row);
  }
  auto& validation = story.validation;
  validation.insert(validation.end(), later.validation.begin(), later.validation.end());
  sort_by_step(validation);
  // What was written before a stop may be written again after the resume, if it is the same.
  for (std::size_t i = 1; i < validation.size(); ++i) {
    if (validation[i - 1].step != validation[i].step) continue;
    if (auto d = difference(validation[i - 1], validation[i]); !d.empty()) return d;
  }
  const auto same = [](const auto& x, const auto& y) { return x.step == y.step; };
  validation.erase(std::unique(validation.begin(), validation.end(), same), validation.end());
  for (const auto& [step, record] : later.commits) {
    if (!story.commits.emplace(step, record).second) {
      return format("step %lld is committed again", static_cast<long long>(step.value));
    }
  }
  return "";
}

std::string difference(const Story& part, const Story& whole, bool complete) {
  if (auto d = compare(part.rows, whole.rows, complete); !d.empty()) return d;
  if (auto d = compare(part.validation, whole.validation, complete); !d.empty()) return d;
  for (const auto& [step, record] : part.commits) {
    const auto other = whole.commits.find(step);
    if (other == whole.commits.end()) {
      return format("step %lld was committed", static_cast<long long>(step.value));
    }
    if (std::string d = difference(*record, *other->second); !d.empty()) return d;
  }
  return "";
}

}  // namespace swarmpi
