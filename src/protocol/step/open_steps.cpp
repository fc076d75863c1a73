#include "protocol/step/open_steps.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "protocol/messages/reduction.hpp"
#include "protocol/messages/reports.hpp"
#include "protocol/messages/tables.hpp"

namespace swarmpi {

OpenStep* OpenSteps::find(Step step) {
  const auto it = open_.find(step);
  return it == open_.end() ? nullptr : &it->second;
}

std::optional<Step> OpenSteps::oldest() const {
  return open_.empty() ? std::nullopt : std::optional(open_.begin()->first);
}

std::optional<Step> OpenSteps::sealed() const {
  std::optional<Step> last;
  for (const auto& [step, open] : open_) {
    if (open.facts()) last = step;
  }
  return last;
}

// ---- Open and close

void OpenSteps::open_due(Step committed, double now_s) {
  while (!opened_all() && committed.value >= plan_->starts_after(next_to_open_)) {
    open_next(now_s);
  }
}

void OpenSteps::open_through(Step step, double now_s) {
  while (next_to_open_ <= step) open_next(now_s);
}

void OpenSteps::skip_through(Step committed) {
  next_to_open_ = std::max(next_to_open_, committed.next());
}

void OpenSteps::open_next(double now_s) {
  const Step step = std::exchange(next_to_open_, next_to_open_.next());
  if (plan_->train_microbatches(step) + plan_->validation_in(step) == 0) return;
  if (open_.empty()) router_->all_idle();
  open_.try_emplace(step, *plan_, step, now_s);
}

std::vector<OpenSteps::ValidationPass> OpenSteps::close_validation_passes() {
  std::vector<ValidationPass> passes;
  std::erase_if(open_, [&](const auto& entry) {
    const auto& [step, open] = entry;
    if (plan_->train_microbatches(step) > 0 || !open.ledger().complete()) return false;
    const auto tokens = static_cast<double>(plan_->validation_tokens());
    passes.push_back({step, open.ledger().facts()->validation_nats / tokens});
    return true;
  });
  return passes;
}

// ---- Issue

// One window bounds the microbatches in flight over all open steps. A step that may not start yet
// waits: its weights are those of a commit to come.
std::vector<OpenSteps::Issue> OpenSteps::issue(Step committed) {
  std::vector<Issue> issues;
  std::int64_t in_flight = 0;
  for (const auto& [step, open] : open_) in_flight += open.in_flight();
  for (auto& [step, open] : open_) {
    if (committed.value < plan_->starts_after(step)) break;
    for (const Purpose purpose : {Purpose::train, Purpose::validate}) {
      while (const auto id = open.next_to_issue(purpose)) {
        if (in_flight++ >= plan_->window) return issues;
        issues.push_back(issue(open, *id, std::nullopt, nullptr));
      }
    }
  }
  return issues;
}

OpenSteps::Issue OpenSteps::issue(OpenStep& open, const MicrobatchId& id, std::optional<PeerId> to,
                                  PathRef path) {
  open.set_issued(id);
  return {to ? *to : router_->choose(id), id, std::move(path)};
}

// ---- What peers report

void OpenSteps::enter(const ReportMessage& message, const View& view, PeerId from) {
  for (const ContributionFact& fact : message.contributions) {
    if (!view.serves(from, fact.work.stage)) continue;  // it has left the stage meanwhile
    if (OpenStep* open = find(fact.work.microbatch.step)) open->enter(fact, from);
  }
  const StageId last(static_cast<std::int32_t>(plan_->stages()) - 1);
  for (const LossFact& fact : message.losses) {
    // Where losses depend on who computes them, that of a contribution that is gone goes with it.
    const bool trains = fact.microbatch.purpose == Purpose::train;
    if (plan_->swarm.allow_mixed && trains && !view.serves(from, last)) continue;
    if (OpenStep* open = find(fact.microbatch.step)) open->enter(fact);
  }
}

void OpenSteps::enter(const ReducedMessage& message, const View& view, PeerId from) {
  if (!view.serves(from, message.stage) && !view.learns(from, message.stage)) return;
  if (OpenStep* open = find(message.step)) open->enter(message, view, from);
}

void OpenSteps::enter_table(const TableMessage& table, PeerId from, double now_s) {
  for (auto& [step, open] : open_) open.enter_table(table, from, now_s);
}

void OpenSteps::forget(PeerId peer, std::optional<StageId> stage) {
  for (auto& [step, open] : open_) open.forget(peer, stage);
}

// ---- Seal

std::vector<StepSeal> OpenSteps::seal(const View& view, double now_s,
                                      const CollectiveBallot& collectives) {
  std::vector<StepSeal> seals;
  for (auto& [step, open] : open_) {
    if (plan_->train_microbatches(step) == 0) continue;
    auto seal = open.seal(view, next_seal_, now_s, collectives);
    if (seal) seals.push_back(std::move(*seal));
  }
  return seals;
}

std::vector<OpenStep::LateLearner> OpenSteps::late_learners(const View& view, double now_s,
                                                            double least_patience_s) {
  std::vector<OpenStep::LateLearner> late;
  for (auto& [step, open] : open_) {
    const auto of_step = open.late_learners(view, now_s, least_patience_s);
    late.insert(late.end(), of_step.begin(), of_step.end());
  }
  return late;
}

std::optional<std::string> OpenSteps::waiting_for() const {
  for (const auto& [step, open] : open_) {
    if (!open.ledger().complete()) {
      return fmt::format("microbatches of step {}: {} issued, {} finished", step.value,
                         open.issued_count(), open.ledger().finished_count());
    }
    if (open.facts()) return fmt::format("the reduced gradients of step {}", step.value);
  }
  return std::nullopt;
}

bool OpenSteps::counts_hold(const View& view) const {
  return std::ranges::all_of(open_, [&](const auto& of) { return of.second.counts_hold(view); });
}

}  // namespace swarmpi
