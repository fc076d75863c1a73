#pragma once
// What the protocol relies on, rule by rule. A build for the mutation check (SWARMPI_MUTATIONS) can
// break one rule at a time, and torture or a test must notice (docs/testing.md). In other builds
// holds() is constant, and costs nothing.

#include <array>
#include <optional>

namespace swarmpi {

enum class Rule {
  // Which messages count.
  refuse_the_dead,    ///< A message of a peer that is known to be dead is refused.
  dead_stay_out,      ///< A dead peer does not join again, though it may have asked to.
  leave_histories,    ///< A message of an earlier incarnation is dropped.
  await_newer_views,  ///< A message of a newer view waits until that view has come.

  // Who leads.
  own_term,             ///< A leader has created the term that it leads.
  ask_for_newest_view,  ///< A new leader asks all who live for the newest view, and begins with it.
  announce_again,   ///< A new leader sends the commits that it finds in tables to all once more.
  write_again,      ///< A new leader stores the rows that may not be durable once more.
  keep_facts,       ///< A new leader keeps the facts of a step that was sealed.
  lead_the_known,   ///< A peer that the newest view does not name does not lead.
  pass_on_the_end,  ///< A new leader ends the run if a table says that it was to end.
  keep_unwritten,   ///< Every peer keeps the commits whose rows are not durable.
  tell_newcomers,   ///< A newcomer is sent the commits whose rows are not durable.

  // Repair.
  tables_of_all,     ///< A repair is planned once the tables of all live peers are in.
  tables_first,      ///< Nothing is sealed, committed or issued while tables are awaited.
  plan_from_tables,  ///< What follows a table is held back until the repair is planned.
  forget_the_dead,   ///< What a dead peer had contributed is missing again.
  issue_once,        ///< A microbatch that any table names counts as issued.
  ask_another,       ///< A part of a checkpoint is asked of another replica if the first has died.
  live_paths,        ///< A path that names a dead peer is not followed.
  one_hand,          ///< A microbatch that is sent again goes to the peer that was sent it before.
  keep_undelivered,  ///< A gradient whose receiver has died is kept.

  // Work.
  window,         ///< The window bounds the microbatches in flight.
  weights_first,  ///< A step begins once the update that it builds on is applied.
  gradient_once,  ///< A gradient that is not waited for is ignored.
  forget_works,   ///< Work of a committed step is forgotten.

  // Seal and reduction.
  freeze,                  ///< A frozen accumulator takes no contributions.
  void_seals_of_the_dead,  ///< A seal that names a dead peer is void.
  reopen,  ///< Where a seal is void and a contribution is missing, accumulators are re-opened.
  void_seals_rest,   ///< Nothing is reduced under a void seal.
  match_seals,       ///< What is sent under one seal is not used under another.
  all_shares,        ///< A chunk is rounded once the shares of all replicas are in.
  keep_the_cut,      ///< All seals of a stage in one step cut the same chunks.
  chunks_are_facts,  ///< A finished chunk is not summed again under a later seal.
  one_gradient,      ///< A stage reduces one gradient at a time.

  // Commit.
  all_acknowledge,    ///< A step is committed once all replicas hold its reduced gradient.
  agree_first,        ///< A step is committed once all replicas agree on the state before it.
  commit_once,        ///< A commit that is known already is ignored.
  durable_rows,       ///< A row counts as written once it is durable.
  save_its_step,      ///< A part of a checkpoint holds the state of its step, or is not written.
  whole_checkpoints,  ///< A checkpoint is complete once the parts of all stages are durable.
  write_undisturbed,  ///< No step is applied to a state that is being written.

  // Learners and going back.
  tensors_of_one_step,  ///< A learner takes a tensor in once its stage is of the tensor's step.
  fall_behind,  ///< Without a step's gradient a learner's tensors count as missing after that step.
  learners_agree,  ///< A learner serves once it holds the state of the last step that all agree on.
  loading_stages_rest,  ///< No job is started while a stage is being loaded.
  left_jobs_are_void,   ///< The result of a job that began in an earlier incarnation is dropped.

  // The end.
  write_before_the_end,  ///< The run ends once rows and checkpoints are durable.
  durable_completion,    ///< The end is announced once its mark is durable.
  stay_ended,            ///< A run whose end is marked is led by nobody.
  all_hear_the_end,      ///< No peer leaves before all have acknowledged the end.

  // Silence.
  ask_who_owes,         ///< A peer from which something is awaited is asked whether it lives.
  suspects_are_killed,  ///< A peer that is silent for too long is killed.
  tell_the_forgotten,   ///< A live peer that was declared dead is told that it is fenced.
  suspend_if_stale,     ///< A peer that was stopped for long does nothing until another answers it.
  forget_learners,      ///< A learner that begins anew is not counted under a seal from before.
  forgive_newcomers,    ///< A newcomer that a new leader had not heard of may join again.

  // Leaving.
  drain_first,      ///< A peer leaves a stage once what it has done for it is committed.
  hand_over_first,  ///< A stage that one peer alone serves is learned by another before it leaves.
  refuse_the_left,  ///< A microbatch from a peer that has left its stage is refused.
  void_seals_of_the_left,  ///< A seal that names a peer which has left the stage is void.
};

#ifdef SWARMPI_MUTATIONS
/// Whether this rule is in force.
bool holds(Rule rule);
/// From now on all rules hold but this one.
void break_rule(std::optional<Rule> rule);

/// In the order of Rule.
inline constexpr std::array kRuleNames{"refuse_the_dead",
                                       "dead_stay_out",
                                       "leave_histories",
                                       "await_newer_views",
                                       "own_term",
                                       "ask_for_newest_view",
                                       "announce_again",
                                       "write_again",
                                       "keep_facts",
                                       "lead_the_known",
                                       "pass_on_the_end",
                                       "keep_unwritten",
                                       "tell_newcomers",
                                       "tables_of_all",
                                       "tables_first",
                                       "plan_from_tables",
                                       "forget_the_dead",
                                       "issue_once",
                                       "ask_another",
                                       "live_paths",
                                       "one_hand",
                                       "keep_undelivered",
                                       "window",
                                       "weights_first",
                                       "gradient_once",
                                       "forget_works",
                                       "freeze",
                                       "void_seals_of_the_dead",
                                       "reopen",
                                       "void_seals_rest",
                                       "match_seals",
                                       "all_shares",
                                       "keep_the_cut",
                                       "chunks_are_facts",
                                       "one_gradient",
                                       "all_acknowledge",
                                       "agree_first",
                                       "commit_once",
                                       "durable_rows",
                                       "save_its_step",
                                       "whole_checkpoints",
                                       "write_undisturbed",
                                       "tensors_of_one_step",
                                       "fall_behind",
                                       "learners_agree",
                                       "loading_stages_rest",
                                       "left_jobs_are_void",
                                       "write_before_the_end",
                                       "durable_completion",
                                       "stay_ended",
                                       "all_hear_the_end",
                                       "ask_who_owes",
                                       "suspects_are_killed",
                                       "tell_the_forgotten",
                                       "suspend_if_stale",
                                       "forget_learners",
                                       "forgive_newcomers",
                                       "drain_first",
                                       "hand_over_first",
                                       "refuse_the_left",
                                       "void_seals_of_the_left"};
#else
constexpr bool holds(Rule) { return true; }
#endif

}  // namespace swarmpi
