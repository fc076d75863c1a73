#pragma once
// The tables from which the leader plans a repair.

#include <cstdint>
#include <memory>
#include <vector>

#include "core/field_list.hpp"
#include "core/ids.hpp"
#include "core/records.hpp"
#include "protocol/membership/view.hpp"
#include "protocol/messages/learning.hpp"
#include "protocol/messages/message_kinds.hpp"
#include "protocol/messages/reduction.hpp"
#include "protocol/messages/step_facts.hpp"
#include "protocol/messages/table_rows.hpp"
#include "protocol/step/commit_record.hpp"

namespace swarmpi {

/// What was sealed with a step.
struct FactsRow {
  Step step;
  std::shared_ptr<const StepFacts> facts;
};
SWARMPI_FIELDS(FactsRow, step, facts);

/// All to leader, in answer to each view where deaths are repaired: what the peer holds now. With
/// the tables of all members the leader plans the repair; a new leader learns from them.
struct TableMessage {
  ViewNumber view;
  Incarnation incarnation;
  std::vector<CommitRef> commits;  // whose rows may not be durable, and the last one
  Step written, checkpointed;      // as last heard
  std::vector<HashFact> hashes;    // of these
  std::vector<LossFact> losses;    // of open steps
  std::vector<FactsRow> facts;
  std::vector<StageRow> stages;
  std::vector<WorkRow> works;
  std::vector<ReducedMessage> reduced;
  std::vector<LearnedMessage> learned;
  std::shared_ptr<const EndMessage> end;  // that was heard
  std::vector<GoodputRow> goodput;        // which may not be durable
  double untold_s = 0;                    // how much of the peer's life no such row has told yet
};
SWARMPI_FIELDS(TableMessage, view, incarnation, commits, written, checkpointed, hashes, losses,
               facts, stages, works, reduced, learned, end, goodput, untold_s);

}  // namespace swarmpi
