#pragma once
// What the protocol relies on, rule by rule. A build for the mutation check (SWARMPI_MUTATIONS) can
// break one of them at a time, and torture must notice; in all others a rule that holds is no code.

#include <array>
#include <optional>

namespace swarmpi {

enum class Rule {
  // Who is heard.
  refuse_the_dead,    ///< What the dead have sent is refused once their death is known.
  dead_stay_out,      ///< The dead are not let in, though they may have asked for it.
  leave_histories,    ///< A message of a history that was left is dropped.
  await_newer_views,  ///< A message of a newer view waits until that view is here.

  // Who leads.
  own_term,             ///< A leader has created the term that it leads.
  ask_for_newest_view,  ///< A new leader asks the living for the newest view, and begins with that.
  announce_again,       ///< A new leader announces the commits that it finds, once more.
  write_again,          ///< A new leader writes the rows that may not be written.
  keep_facts,           ///< A new leader keeps to what was sealed.
  lead_the_known,       ///< Nobody leads a view that it is not in.
  pass_on_the_end,      ///< A new leader ends the run, if somebody was told to.
  keep_unwritten,       ///< Everybody keeps the commits whose rows are not durable.
  tell_newcomers,       ///< A newcomer hears of the commits whose rows are not durable.

  // Repair.
  tables_of_all,     ///< Nothing is planned before the tables of all are here.
  tables_first,      ///< Nothing is sealed, committed or issued before that.
  plan_from_tables,  ///< What comes after a table is held back until the plan is made.
  forget_the_dead,   ///< What the dead had contributed is missing again.
  issue_once,        ///< A microbatch that a table knows was issued.
  ask_another,  ///< The part of a checkpoint that a dead peer was asked for is asked of another.
  live_paths,   ///< A path that names a dead peer is not followed.
  one_hand,     ///< A microbatch that is sent again goes where it was sent before.
  keep_undelivered,  ///< A gradient that its receiver did not live to see is kept.

  // Work.
  window,         ///< The window bounds the microbatches in flight.
  weights_first,  ///< A step begins when the update that it builds on is applied.
  gradient_once,  ///< A gradient that is not waited for is ignored.
  forget_works,   ///< What belongs to a committed step is forgotten.

  // Seal and reduction.
  freeze,                  ///< A frozen accumulator takes nothing more.
  void_seals_of_the_dead,  ///< A seal that names a dead peer is void.
  reopen,                  ///< Then the accumulators take microbatches again.
  void_seals_rest,         ///< And nothing more is reduced for it.
  match_seals,             ///< What is said under one seal is not used under another.
  all_shares,              ///< A chunk is rounded when all shares are in.
  keep_the_cut,            ///< A step keeps its chunks over its seals.
  chunks_are_facts,        ///< A finished chunk is not summed again.
  one_gradient,            ///< A stage has one reduced gradient at a time.

  // Commit.
  all_acknowledge,    ///< A step is committed when all replicas hold its gradient.
  agree_first,        ///< And all agree on the state before it.
  commit_once,        ///< A commit that is known is ignored.
  durable_rows,       ///< A row counts as written when it is durable.
  save_its_step,      ///< A checkpoint holds the state of its step, or nothing.
  whole_checkpoints,  ///< A checkpoint is complete with the parts of all stages.
  write_undisturbed,  ///< Nothing is applied to a state that is being written.

  // Learners and going back.
  tensors_of_one_step,  ///< A tensor is written when the others are of its step.
  fall_behind,          ///< Without a step's gradient, what is here falls behind.
  learners_agree,       ///< A learner serves once it is at the last step that all agree on.
  loading_stages_rest,  ///< Nothing is done with a stage that is being loaded.
  left_jobs_are_void,   ///< A job that began in a history that was left has no result.

  // The end.
  write_before_the_end,  ///< Nobody ends before rows and checkpoints are durable.
  durable_completion,    ///< Nobody hears of the end before its mark is durable.
  stay_ended,            ///< A run whose end is durable is led by nobody.
  all_hear_the_end,      ///< Nobody leaves before all have heard the end.

  // Silence.
  ask_who_owes,         ///< Whoever owes something is asked whether it lives.
  suspects_are_killed,  ///< A peer that is silent for too long is killed.
  tell_the_forgotten,   ///< Who was wrongly said to be dead hears that the others have gone on.
  suspend_if_stale,     ///< A peer that was stopped for long does nothing until somebody answers.
  forget_learners,      ///< A learner that begins anew knows nothing of a seal from before.
  forgive_newcomers,    ///< One whom a new leader had not heard of may join again.

  // Leaving.
  drain_first,             ///< A peer goes when what it has done is committed.
  hand_over_first,         ///< A stage that only one serves is learned by another first.
  refuse_the_left,         ///< A microbatch from one who has left its stage is refused.
  void_seals_of_the_left,  ///< A seal that names one who has left the stage is void.
};

#ifdef SWARMPI_MUTATIONS
bool holds(Rule rule);
/// From now on this rule does not hold, and all others do.
void break_rule(std::optional<Rule> rule);

/// By their places in Rule.
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
