#include "protocol/repair/step_repair.hpp"

#include <algorithm>
#include <memory>
#include <optional>

#include "protocol/messages/microbatches.hpp"
#include "protocol/messages/reduction.hpp"
#include "protocol/messages/seal.hpp"
#include "protocol/repair/resend_plan.hpp"
#include "protocol/repair/work_rows.hpp"

namespace swarmpi {
namespace {

/// Sealed facts, contributions, losses, work under way and reduced gradients.
void collect_rows(OpenSteps& steps, const Tables& tables, const View& view, double now_s) {
  for (const auto& [peer, table] : tables) {
    steps.enter_table(table, peer, now_s);
    for (const ReducedMessage& reduced : table.reduced) steps.enter(reduced, view, peer);
  }
}

void repair_seals(OpenStep& open, const Tables& tables, const View& view, StepRepairs& repairs) {
  for (const StageId stage : open.void_broken_seals(view, tables)) {
    ++repairs.reopened;
    for (const PeerId peer : view.replicas(stage)) {
      repairs.orders.emplace_back(peer, ReopenMessage{open.step(), stage});
    }
  }
}

void repair_microbatches(OpenSteps& steps, OpenStep& open, const WorkRows& works, const View& view,
                         std::int64_t stages, StepRepairs& repairs) {
  for (const MicrobatchId& id : open.unfinished()) {
    const MicrobatchState state = works.state_of(id, open.ledger(), stages);
    for (const Resend& order : plan_resends(state, view)) {
      ++repairs.resent;
      const auto path = std::make_shared<const Path>(order.path);
      if (order.provider) {
        const StageHolder& provider = *state.stages.at(order.provider->value);
        repairs.orders.emplace_back(provider.peer, ResendMessage{{id, *order.provider}, path});
      } else {
        const auto holder = path->holders.find(StageId(0));
        const bool known = holder != path->holders.end();
        const auto to = known ? std::optional(holder->second) : std::nullopt;
        OpenSteps::Issue again = steps.issue(open, id, to, path);
        repairs.orders.emplace_back(again.to, IssueMessage{id, std::move(again.path)});
      }
    }
  }
}

}  // namespace

Step newest_begun(const Tables& tables, Step committed) {
  Step newest = committed;
  for (const auto& [peer, table] : tables) {
    if (!table.works.empty()) newest = std::max(newest, table.works.back().work.microbatch.step);
  }
  return newest;
}

StepRepairs repair_steps(OpenSteps& steps, const Tables& tables, const View& view,
                         const RunPlan& plan, double now_s) {
  collect_rows(steps, tables, view, now_s);
  const WorkRows works(tables);
  StepRepairs repairs;
  for (auto& [step, open] : steps) {
    repair_seals(open, tables, view, repairs);
    repair_microbatches(steps, open, works, view, plan.stages(), repairs);
  }
  return repairs;
}

}  // namespace swarmpi
