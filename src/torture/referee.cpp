#include "torture/referee.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "core/overloaded.hpp"
#include "protocol/ending_words.hpp"
#include "protocol/messages/all_ports.hpp"
#include "protocol/messages/collectives.hpp"
#include "protocol/messages/commit.hpp"
#include "protocol/messages/ending.hpp"
#include "protocol/messages/learning_jobs.hpp"
#include "protocol/messages/liveness.hpp"
#include "protocol/messages/microbatches.hpp"
#include "protocol/messages/seal.hpp"
#include "protocol/messages/stalls.hpp"
#include "protocol/messages/tables.hpp"
#include "protocol/messages/update_jobs.hpp"
#include "protocol/messages/views.hpp"

namespace swarmpi {

Referee::Referee(const RunPlan& plan, const InitialMembership& membership,
                 const ResumeState& resume, const VirtualDisk& disk)
    : plan_(plan),
      disk_(disk),
      population_(membership.all()),
      silences_(plan.swarm.suspect_after_s,
                // As short as that where a stop was asked for.
                std::min(plan.swarm.give_up_after_s, plan.stop_patience_s())),
      hangs_(plan.swarm.suspect_after_s),
      views_(share(first_view(plan, membership))),
      room_(plan.needs, membership.budgets, views_.first()),
      moves_(plan.delay(), plan.needs),
      pipelines_(plan, share(views_.first()), Incarnation(resume.incarnation)),
      states_(Step(resume.step)),
      commits_(resume),
      durability_(disk, Step(resume.step)),
      work_(plan) {}

void Referee::report(PeerId peer, const std::string& broken) {
  if (broken.empty() || !violation_.empty()) return;
  violation_ = fmt::format("peer {}: {}", peer.value, broken);
}

// ---- Events

void Referee::happened(double, PeerId peer, const Event& event) {
  if (!population_.lives(peer)) return;  // or declared dead
  visit(Overloaded{
            [&](const JobFinished& e) {
              work_.finished(peer, e.result);
              pipelines_.finished(peer, e.result);
              if (const auto* made = get_if<PrepareResult>(&e.result)) {
                if (!made->has_room) refused(peer, made->stage);
              } else if (const auto* dropped = get_if<DropResult>(&e.result)) {
                room_.freed(peer, dropped->stage);
              }
              const auto* apply = get_if<ApplyResult>(&e.result);
              if (apply != nullptr) report(peer, states_.applied(peer, *apply));
              const auto* write = get_if<WriteResult>(&e.result);
              if (write != nullptr) report(peer, states_.written(peer, *write));
            },
            [&](const MessageArrived& e) {
              const auto* view = get_if<ViewMessage>(&e.message.body);
              if (view != nullptr) receives(peer, *view);
            },
            [&](const CollectiveReady& e) { collectives_.hears(peer, e); },
            [&](const CollectiveDone& e) { collectives_.hears(peer, e); },
            [&](const CollectiveFailed& e) { collectives_.hears(peer, e); },
            [&](const KillFailed& e) { views_.unreachable(e.peer); },
            [&](const PeerLost&) { pipelines_.lost_somebody(); },
            [&](const CheckpointDropped&) { pipelines_.lost_somebody(); },
            [&](const CheckpointDamaged&) { pipelines_.lost_somebody(); },
            [&](const StorageFailed&) { storage_failed_ = true; },
            [&](const ProbeStored&) { hangs_.stored_proof(peer); },
            [&](const StopRequested&) {
              population_.ask_to_leave(peer);
              hangs_.disturbed(std::numeric_limits<double>::infinity());
              moves_.ask_to_leave(peer);
              pipelines_.ask_to_leave(peer);
            },
            [&](const TermOver& e) {
              if (disk_.has_successor(e.term)) {
                population_.ask_to_leave(peer);
                population_.exclude(peer);
              }
              durability_.refused(peer);
            },
            [&](const StageLoaded& e) {
              if (!e.damage.empty()) return;
              if (!e.has_room) return refused(peer, e.stage);
              states_.loaded(peer, e.stage);
            },
            [&](const StageStored& e) { states_.stored(peer, e.stage); },
            [&](const TermCreated& e) {
              if (e.created) views_.created_term(peer, e.term);
              if (e.ended) population_.exclude(peer);  // it comes too late
            },
            [](const auto&) {},
        },
        event);
}

void Referee::refused(PeerId peer, StageId stage) {
  ++refusals_;
  room_.refused(peer, stage);
}

std::set<PeerId> Referee::living_members() const {
  std::set<PeerId> living;
  for (const auto& [peer, stages] : views_.newest().members()) {
    if (population_.goes_on(peer)) living.insert(peer);
  }
  return living;
}

void Referee::receives(PeerId peer, const ViewMessage& message) {
  if (message.restart && commits_.falls_back(peer, message.restart)) {
    work_.restarted(Step(message.restart->state.step));
  }
  views_.adopts(peer, message.view);
}

void Referee::died(double now_s, PeerId peer) {
  silences_.died(now_s, peer);
  hangs_.died(peer);
  const bool led = population_.leads(peer);
  population_.died(peer);
  durability_.forget(peer);
  states_.died(peer);
  work_.died(peer, led, commits_.last(population_));
}

// ---- Actions

void Referee::asked(double now_s, PeerId peer, const Action& action) {
  if (const auto* kill = get_if<KillPeer>(&action)) {
    silences_.ordered(now_s, kill->peer);
    if (population_.goes_on(kill->peer)) report(peer, silences_.kills(now_s, kill->peer));
  }
  if (!population_.lives(peer)) return asked_though_dead(peer, action);
  if (const auto* enter = get_if<EnterCollective>(&action)) {
    report(peer, collectives_.enters(now_s, peer, *enter));
  }
  visit(Overloaded{
            [&](const Send& a) { sends(now_s, peer, a); },
            [&](const CreateTerm&) {
              if (taken_for_dead_.contains(peer)) pipelines_.two_may_lead();
            },
            [&](const StartJob& a) { starts(peer, a.job); },
            [&](const AbortCollective& a) { collectives_.aborts(now_s, peer, a); },
            [&](const StoreStage& a) { report(peer, states_.stores(peer, a)); },
            [&](const LoadStage& a) {
              states_.loads(peer, a);
              report(peer, room_.allocates(peer, a.stage, false));
            },
            [&](const StoreEnd& a) {
              if (a.code == ExitStatus::good) return;
              const Status status = Status::error(a.code, a.why);
              if (!swarmpi::lacked_memory(status)) return;
              lacked_memory_ = true;
              report(peer, room_.ends(status, views_.newest(), living_members()));
            },
            [&](const StoreRecord& a) {
              durability_.stores(peer, a);
              const auto* event = std::get_if<EventRow>(&a.row);
              if (event != nullptr && event->kind == EventKind::dropped) {
                pipelines_.lost_somebody();
              }
              if (event != nullptr && is_planned_at_a_deadline(*event))
                work_.planned_at_a_deadline();
              if (collectives_.hung(now_s, plan_.swarm.suspect_after_s)) return;
              if (!hangs_.lately(now_s)) report(peer, silences_.stores(now_s, a));
            },
            [&](const AbandonLane& a) {
              if (a.lane == Lane::stages) states_.abandons(peer);
              report(peer, hangs_.gives_up_disk(now_s, peer));
            },
            [&](const Finish& a) { finishes(now_s, peer, a.status); },
            [](const auto&) {},
        },
        action);
}

void Referee::sends(double now_s, PeerId peer, const Send& send) {
  const Message& message = send.message;
  report(peer, pipelines_.sends(peer, send, commits_.last(population_)));
  visit(Overloaded{
            [&](const IssueMessage& m) {
              report(peer, work_.issues(peer, message.incarnation, m.microbatch));
            },
            [&](const ResendMessage&) { work_.resends(); },
            [&](const SealMessage& m) { report(peer, collectives_.seals(m)); },
            [&](const CollectiveWord& m) { collectives_.says(peer, m); },
            // A newcomer is a member once it sends a table or a view: it has adopted or made a
            // view. Receiving one is not enough, for it may be of a leader that the newcomer
            // knows to be dead.
            [&](const TableMessage&) {
              population_.admit(peer);
              hangs_.stays(peer);
            },
            [&](const ViewMessage& m) {
              population_.admit(peer);
              if (m.view->number > views_.newest().number) {
                work_.planned();
                hangs_.disturbed(now_s);
                report(peer, room_.published(*m.view));
                report(peer,
                       moves_.published(*m.view, message.incarnation, commits_.last(population_)));
              }
              report(peer, views_.sends(peer, send.to, m.view, population_.has_ended(send.to)));
            },
            [&](const CommitMessage& m) {
              report(peer, commits_.announces(peer, m.record));
              hangs_.commits(message.incarnation, m.record->step);
              report(peer, durability_.announces(m));
            },
            [&](const LostMessage& m) {
              if (m.peer != peer) return;
              const bool led = population_.leads(peer);
              if (m.why == ending_words::kHearsNobody || m.why == ending_words::kIsNotHeard)
                population_.ask_to_leave(peer);
              report(peer, population_.leave(peer));
              durability_.forget(peer);
              // Of a peer that gives itself up all is lost, as at a death.
              if (m.why.empty() && !taken_for_dead_.contains(peer)) return;
              pipelines_.lost_somebody();
              states_.died(peer);
              work_.died(peer, led, commits_.last(population_));
            },
            [&](const ExitMessage&) { views_.all_exit(); },
            [&](const LateMessage& m) {
              report(peer, hangs_.tells(now_s, peer, m));
              if (m.task != Task::storage && !m.late) hangs_.stays(peer);
              pipelines_.lost_somebody();  // what cannot be stored is lost when all go back
            },
            [&](const ResignMessage& m) {
              report(peer, hangs_.gives_up(now_s, send.to));
              given_up_loading_ += m.why.rfind("loading", 0) == 0;
              population_.ask_to_leave(send.to);
            },
            [&](const AbstainMessage& m) {
              if (m.why.empty()) return;  // of another, that has died
              report(peer, hangs_.abstains(now_s, peer));
              durability_.forget(peer);
            },
            [&](const AbleMessage&) { report(peer, hangs_.comes_back(peer)); },
            [](const auto&) {},
        },
        message.body);
}

void Referee::starts(PeerId peer, const Job& job) {
  const bool has_stage = views_.has_had(peer, stage_of(job));
  report(peer, work_.starts(peer, job, has_stage, commits_.is_behind(peer)));
  report(peer, states_.starts(peer, job));
  report(peer, pipelines_.starts(peer, job));
  if (const auto* prepare = get_if<PrepareJob>(&job)) {
    report(peer, room_.allocates(peer, prepare->stage, true));
  }
  if (const auto* apply = get_if<ApplyJob>(&job)) commits_.knows(peer, apply->record->step);
  if (const auto* update = get_if<UpdateJob>(&job)) {
    commits_.knows(peer, update->record->step);
  }
  if (const auto* write = get_if<WriteJob>(&job)) commits_.knows(peer, write->step);
}

void Referee::finishes(double now_s, PeerId peer, const Status& status) {
  report(peer, silences_.ends(now_s, status));
  // A newcomer may have found no run to join meanwhile.
  const auto able = [this](PeerId other) {
    return population_.stays(other) && !population_.has_ended(other);
  };
  // Who ends first in this way has decided so, by what it knows.
  const auto& ended = population_.ended();
  const bool decides = std::none_of(ended.begin(), ended.end(), [&](const auto& other) {
    return other.second.message() == status.message();
  });
  if (plan_.recovers && decides && !population_.is_outsider(peer)) {
    report(peer, hangs_.ends(now_s, status, views_.known_to(peer), able));
  }
  population_.finished(peer, status, disk_.ended != nullptr,
                       // Who is to let a newcomer in may have to give up a disk first.
                       views_.known_to_others(peer, population_) && !hangs_.any());
  const Step last = commits_.last(population_);
  // The others may repair what it did, as after its death.
  if (is_cut_off(status)) work_.died(peer, false, last);
  // Where a stage is lost, nobody has the state of the last step.
  const bool nobody_can = is_cut_off(status) || lost_its_disk(status) || ends_for_a_hang(status) ||
                          swarmpi::lacked_memory(status);
  if (population_.is_outsider(peer) || nobody_can) return;
  report(peer, durability_.finishes(status, last));
}

void Referee::asked_though_dead(PeerId peer, const Action& action) {
  if (const auto* finish = get_if<Finish>(&action)) {
    report(peer, population_.finished_though_dead(peer, finish->status, disk_.ended.get()));
  } else if (const auto* send = get_if<Send>(&action)) {
    const Message& message = send->message;
    if (const auto* issue = get_if<IssueMessage>(&message.body)) {
      work_.notes_issue(message.incarnation, issue->microbatch);
    } else if (const auto* commit = get_if<CommitMessage>(&message.body)) {
      report(peer, commits_.announces_though_dead(commit->record));
    }
  }
}

// ---- The end of the run
// What must hold once each peer has finished or is dead.

bool Referee::stage_was_lost() const {
  for (std::int32_t s = 0; s < plan_.stages(); ++s) {
    const std::vector<PeerId>& replicas = views_.first().replicas(StageId(s));
    const auto lives = [this](PeerId peer) { return population_.lives(peer); };
    if (std::none_of(replicas.begin(), replicas.end(), lives)) return true;
  }
  return false;
}

std::string Referee::at_the_end(const VirtualWorld& world) const {
  if (!violation_.empty()) return violation_;
  if (!world.all_done()) {
    return fmt::format("stalled after {} events at {:.6f} s:\n", world.events(), world.now_s()) +
           world.waiting_for();
  }
  const auto& ended = population_.ended();
  if (ended.empty()) return "";  // all are dead
  // An end that could not be stored does not bind newcomers: one that the ending leader did not
  // know may take the run up, and complete it.
  const auto successor = storage_failed_ ? views_.newcomer_that_led_last() : std::nullopt;
  if (std::string wrong = population_.unequal_ends(successor); !wrong.empty()) return wrong;
  if (std::string wrong = work_.too_much(); !wrong.empty()) return wrong;
  if (std::string wrong = leftovers(world); !wrong.empty()) return wrong;
  if (commits().empty()) return "";  // stopped before the first commit
  if (std::string wrong = views_.undelivered(population_); !wrong.empty()) return wrong;
  const bool good =
      std::all_of(ended.begin(), ended.end(), [](const auto& end) { return end.second.ok(); });
  if (!good) return "";
  if (std::string wrong = moves_.at_the_end(commits_.last(population_)); !wrong.empty())
    return wrong;
  return unapplied_commits();
}

std::string Referee::leftovers(const VirtualWorld& world) const {
  for (const auto& [peer, status] : population_.ended()) {
    if (!population_.lives(peer) || world.dead(peer)) continue;
    if (std::string what = world.peer(peer).left_over(); !what.empty()) {
      return fmt::format("peer {} still holds ", peer.value) + what;
    }
  }
  return "";
}

std::string Referee::unapplied_commits() const {
  const Step last = commits_.last(population_);
  const View::Roles& serving = views_.newest().members();
  for (const PeerId peer : members()) {
    // A peer that has left may not know of the last commit; and a run that is complete after a
    // fallback does not wait until all stages are loaded.
    const auto serves = serving.find(peer);
    if (serves == serving.end() || commits_.fell_back_to(peer, last)) continue;
    for (const StageId stage : serves->second) {
      const Step step = states_.step_of(peer, stage);
      if (step == last) continue;
      return fmt::format("peer {} ended with step {} of stage {} applied; step {} is committed",
                         peer.value, step.value, stage.value, last.value);
    }
  }
  return "";
}

}  // namespace swarmpi
