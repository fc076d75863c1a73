// What a leader does about a death: it publishes a view without the dead peer, waits for the tables
// of all who live, and has done again what is missing then, and nothing else. A new leader begins
// likewise, and announces once more what its predecessor had committed.

#include <algorithm>

#include "core/check.hpp"
#include "core/text.hpp"
#include "swarm/leader.hpp"
#include "swarm/rules.hpp"

namespace swarmpi {
namespace {

// Whoever is silent is suspected long before; this is for what nobody has thought of.
constexpr double kDeadlinePatience = 4;

}  // namespace

void Leader::lost(PeerId peer, const std::string& how) {
  last_loss_s_ = now_s_;
  if (called_.erase(peer) > 0) pause_calls();
  if (!view_.members.contains(peer)) return;
  view_.remove(peer);
  end_unheard_.erase(peer);
  notices_.erase(peer);
  departing_.erase(peer);
  if (ending_) return;
  if (!plan_.recovers) return end(ExitStatus::stopped, how);
  at_deadline_ = false;
  store(EventRow{run_time_s(), committed().value, "kill", peer.value, -1, 0, how});
  forget(peer, std::nullopt);
  if (!goes_back_) publish_view();
}

void Leader::forget(PeerId peer, std::optional<StageId> stage) {
  const auto forget_in = [&](auto& answers) {
    for (auto& [of, by_peer] : answers) {
      if (!stage || of == *stage) by_peer.erase(peer);
    }
  };
  for (auto& [step, open] : open_) {
    if (holds(Rule::forget_the_dead)) open.ledger.forget(peer, stage);
    forget_in(open.reduced);
    for (auto& [of, sealed] : open.stages) {
      if (holds(Rule::forget_learners) && (!stage || of == *stage)) {
        std::erase(sealed.learners, peer);
      }
    }
  }
  for (auto& [step, row] : unagreed_) forget_in(row.hashes);
}

// While others are awaited, what came after a table is held back.
bool Leader::awaits_others(PeerId from) const {
  return holds(Rule::plan_from_tables) && !tables_awaited_.empty() &&
         !tables_awaited_.contains(from);
}

void Leader::note_progress() {
  progress_s_ = now_s_;
  deadline_s_ = kDeadlinePatience * plan_.swarm.suspect_after_s;
}

bool Leader::plan_again_at_deadline() {
  const bool waits = plan_.recovers && (!tables_awaited_.empty() || !open_.empty());
  if (!waits || now_s_ - progress_s_ <= deadline_s_) return false;
  deadline_s_ *= 2;  // a microbatch may take longer
  at_deadline_ = true;
  publish_view();
  return true;
}

// What was sent before the view is in the table that answers it.
void Leader::publish_view() {
  if (tables_awaited_.empty() && view_.number.number > 0) repair_since_s_ = now_s_;
  keep_the_needed();
  ++view_.number.number;
  outbox_.set_view(view_.number);
  router_->set_peers(view_.choices(StageId(0)));
  tables_.clear();
  tables_awaited_.clear();
  for (const auto& [peer, message] : std::exchange(early_, {})) {
    const PeerId from = peer;
    std::visit([&](const auto& m) { receive(m, from); }, message);
  }
  if (takes_over_ || view_.number.number > 1) {
    for (const auto& [peer, stages] : view_.members) tables_awaited_.insert(peer);
  }
  send_all(ViewMessage{view_, restart_});
}

void Leader::receive(const TableMessage& message, PeerId from) {
  if (ending_ || message.view != view_.number || tables_awaited_.erase(from) == 0) return;
  tables_[from] = message;
  // What it said before may be of a stage that it left since, and learns anew.
  std::erase_if(learned_, [&](const auto& known) {
    const auto& [peer, stage] = known.first;
    const auto says = [&](const LearnedMessage& row) { return row.stage == stage; };
    return peer == from && std::none_of(message.learned.begin(), message.learned.end(), says);
  });
  if (!holds(Rule::tables_of_all)) tables_awaited_.clear();
  if (tables_awaited_.empty() && !goes_back_) settle();
}

void Leader::receive(const UnableMessage& message, PeerId from) {
  if (awaits_others(from)) {
    early_.emplace_back(from, message);
    return;
  }
  const auto open = open_.find(message.work.microbatch.step);
  if (ending_ || open == open_.end() || !tables_awaited_.empty()) return;
  if (!open->second.ledger.finished(message.work.microbatch)) publish_view();
}

void Leader::settle() {
  for (const auto& [peer, table] : tables_) {
    if (table.end && holds(Rule::pass_on_the_end)) return end(table.end->code, table.end->why);
  }
  progress_s_ = now_s_;
  if (std::exchange(takes_over_, false)) learn_commits();
  if (!mend_stages()) return;
  learn_hashes();
  open_begun_steps();
  learn_rows();
  std::int64_t resent = 0;
  for (auto& [step, open] : open_) {
    mend_seals(step, open);
    resent += mend_microbatches(open);
  }
  mend_checkpoints();
  const char* why = std::exchange(at_deadline_, false) ? "at a deadline: " : "";
  event("repair", committed().value, now_s_ - repair_since_s_,
        format("%s%lld microbatches sent again", why, static_cast<long long>(resent)));
  works_.clear();
  tables_.clear();
  for (const auto& [peer, message] : std::exchange(early_, {})) {
    const PeerId from = peer;
    std::visit([&](const auto& m) { receive(m, from); }, message);
  }
}

// ---- Succession

void Leader::learn_commits() {
  std::map<Step, CommitRef> known;
  Step heard_by_all = committed();
  Step written = chronicle_.rows_written();
  for (const auto& [peer, table] : tables_) {
    for (const CommitRef& record : table.commits) known[record->step] = record;
    const Step heard = table.commits.empty() ? Step(-1) : table.commits.back()->step;
    heard_by_all = std::min(heard_by_all, heard);
    written = std::max(written, table.written);
    chronicle_.written(written, table.checkpointed);
  }
  for (const auto& [step, record] : known) {
    if (step > committed()) chronicle_.add(record);
    const CommitMessage again{record, written, chronicle_.checkpointed()};
    if (holds(Rule::announce_again) && step > heard_by_all) send_all(again);
  }
  time_offset_s_ = std::max(time_offset_s_, chronicle_.state().time_s - now_s_);
  next_to_open_ = std::max(next_to_open_, committed().next());
  last_checkpoint_ = chronicle_.checkpointed();
  for (Step step = last_checkpoint_.next(); step < committed(); step = step.next()) {
    checkpoint_owed_ = checkpoint_owed_ || plan_.checkpoint_due(step);
  }
  agreed_ = committed();
  if (known.empty() || !holds(Rule::write_again)) return;
  // The last commit is agreed on once more: whether its checkpoint was asked for is not known.
  agreed_ = std::min(written, Step(committed().value - 1));
  last_row_s_ = chronicle_.state().time_s;
  for (const auto& [step, record] : known) {
    if (step > agreed_) await_agreement(record, 0);
  }
}

void Leader::learn_hashes() {
  for (const auto& [peer, table] : tables_) {
    for (const HashFact& fact : table.hashes) {
      const auto row = unagreed_.find(fact.step);
      if (row != unagreed_.end()) row->second.hashes[fact.stage][peer] = fact.tensors;
    }
  }
}

// A dead leader may have begun a step after a commit that nobody alive has heard of.
void Leader::open_begun_steps() {
  Step newest = committed();
  for (const auto& [peer, table] : tables_) {
    if (!table.works.empty()) newest = std::max(newest, table.works.back().work.microbatch.step);
  }
  for (; next_to_open_ <= newest; next_to_open_ = next_to_open_.next()) open(next_to_open_);
  open_steps();
}

void Leader::learn_rows() {
  const auto open_of = [&](Step step) {
    const auto found = open_.find(step);
    return found == open_.end() ? nullptr : &found->second;
  };
  for (const auto& [peer, table] : tables_) {
    for (const FactsRow& row : table.facts) {
      OpenStep* open = open_of(row.step);
      if (open == nullptr || open->facts || !holds(Rule::keep_facts)) continue;
      open->facts = row.facts;
      open->ledger.note(row.facts);
      open->sealed_at_s = now_s_;
    }
    for (const LossFact& loss : table.losses) {
      if (OpenStep* open = open_of(loss.microbatch.step)) {
        open->ledger.note(loss);
        open->issued.at(loss.microbatch.purpose).insert(loss.microbatch.index);
      }
    }
    for (const StageRow& row : table.stages) {
      if (OpenStep* open = open_of(row.step)) {
        open->ledger.note(row, peer);
        open->issued.at(Purpose::train).merge(row.contributed);
      }
    }
    for (const ReducedMessage& reduced : table.reduced) receive(reduced, peer);
    for (const WorkRow& row : table.works) {
      if (OpenStep* open = open_of(row.work.microbatch.step)) {
        works_[row.work].emplace_back(peer, &row);
        if (!holds(Rule::issue_once)) continue;
        open->issued.at(row.work.microbatch.purpose).insert(row.work.microbatch.index);
      }
    }
  }
}

// ---- Microbatches

std::int64_t Leader::mend_microbatches(OpenStep& open) {
  std::int64_t resent = 0;
  for (const auto& [purpose, issued] : open.issued) {
    for (std::int64_t i = 0; i < issued.size(); ++i) {
      const MicrobatchId id{open.ledger.step(), purpose, static_cast<std::int32_t>(i)};
      if (!issued.contains(i) || open.ledger.finished(id)) continue;
      const Trail trail = trail_of(open, id);
      for (const Resend& order : plan_resends(trail, view_)) {
        ++resent;
        const auto path = std::make_shared<const Path>(order.path);
        if (order.provider) {
          const Holding& provider = *trail.stages.at(order.provider->value);
          outbox_.send(provider.peer, ResendMessage{{id, *order.provider}, path});
        } else {
          const auto holder = path->holders.find(StageId(0));
          const bool known = holder != path->holders.end();
          issue(open, id, known ? std::optional(holder->second) : std::nullopt, path);
        }
      }
    }
  }
  return resent;
}

Trail Leader::trail_of(const OpenStep& open, const MicrobatchId& id) const {
  Trail trail{id, {}, {}};
  for (std::int32_t s = 0; s < plan_.stages(); ++s) {
    const WorkId work{id, StageId(s)};
    const bool training = id.purpose == Purpose::train;
    std::optional<Holding> holding;
    if (training) {
      if (const auto peer = open.ledger.contributor(work)) {
        holding.emplace().peer = *peer;
        holding->contributed = true;
      }
    }
    trail.settled.push_back(training && open.ledger.settled(work.stage));
    const auto rows = works_.find(work);
    if (rows != works_.end()) {
      for (const auto& [peer, row] : rows->second) {
        if (holding && holding->peer != peer) continue;
        // A pass that added nothing counts for nothing once its stage needs it.
        const bool of_use =
            holding || !training || row->phase != Phase::over || trail.settled.back();
        if (!of_use) continue;
        if (!holding) holding.emplace().peer = peer;
        holding->phase = row->phase;
        holding->sent_to = row->sent_to;
        holding->planned_in = row->planned_in;
        holding->last = row->last;
        holding->lost_way = row->lost_way;
        holding->keeps_output = row->keeps_output;
        holding->gives_gradient = row->gives_gradient;
      }
    }
    trail.stages.push_back(std::move(holding));
  }
  return trail;
}

// ---- Checkpoints

void Leader::mend_checkpoints() {
  std::vector<std::pair<Step, StageId>> unwritten;
  for (const auto& [step, checkpoint] : checkpoints_) {
    for (const auto& [stage, peer] : checkpoint.asked) {
      if (checkpoint.files.contains(stage) || view_.serves(peer, stage)) continue;
      if (!holds(Rule::ask_another)) continue;
      unwritten.emplace_back(step, stage);
    }
  }
  for (const auto& [step, stage] : unwritten) ask_for_part(step, stage);
}

}  // namespace swarmpi
