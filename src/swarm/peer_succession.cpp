// How a peer comes to lead: a term of its own, and the newest view that anybody lives in.

#include <algorithm>
#include <utility>

#include "core/text.hpp"
#include "swarm/peer.hpp"
#include "swarm/rules.hpp"

namespace swarmpi {

void Peer::ask_for_term(Term term) {
  if (term_asked_ || inquiry_ || leader_) return;
  if (end_) return end_for_all(status_of(*end_));
  if (failure_) return end_for_all(*failure_);
  term_asked_ = term;
  outbox_.act(CreateTerm{term});
}

void Peer::succeed(PeerId dead) {
  const PeerId leader = leader_id();
  if (leader != self_) return outbox_.send(leader, LostMessage{dead, left_.contains(dead)});
  ask_for_term(view_ ? view_->number.term.next() : roster_.first_term);
}

void Peer::take_the_lead(const TermCreated& term) {
  term_asked_.reset();
  if (leader_id() != self_) return;  // it has heard of another meanwhile
  if (term.ended && holds(Rule::stay_ended)) end_ = term.ended;
  // Nobody leads a run to another end than one that some may have heard of.
  if (end_) return end_for_all(status_of(*end_));
  if (holds(Rule::own_term) && !term.created) {
    // Made by one who has led since, and died.
    if (plan_.recovers && !dead_.empty()) return ask_for_term(term.term.next());
    return report_failure(
        Status::failed(format("another run writes to the same journal (term %lld exists)",
                              static_cast<long long>(term.term.value))));
  }
  const bool may_be_behind =
      holds(Rule::ask_for_newest_view) && (!dead_.empty() || view_.has_value());
  if (!may_be_behind) return lead(term.term, members(), restart_);
  inquire(term.term);
}

void Peer::inquire(Term term) {
  promised_ = std::max(promised_, term);
  inquiry_ = Inquiry{term, members(), restart_, {}};
  for (const auto& [peer, stages] : inquiry_->newest.members) {
    if (peer == self_ || dead_.contains(peer)) continue;
    inquiry_->awaited.insert(peer);
    outbox_.send(peer, InquiryMessage{term});
  }
  lead_when_all_have_answered();
}

void Peer::repeat_inquiry() {
  if (!inquiry_) return;
  for (const PeerId peer : inquiry_->awaited) outbox_.send(peer, InquiryMessage{inquiry_->term});
}

// Whoever created it had not heard of this leader, and may have died over it: the others tell. But
// two that each take the other for dead must not outbid each other for ever: more often than every
// peer can be wrong about it once or twice.
void Peer::receive(const TermOver& over) {
  if (!leader_ || leader_->view().number.term != over.term) return;
  leader_.reset();
  const std::size_t peers = roster_.all().size() + dead_.size() + members().members.size();
  if (++outbid_ > peers) return say_goodbye(gone_on_without_this_peer());
  ask_for_term(over.newest.next());
}

void Peer::receive(const InquiryMessage& message, PeerId from) {
  if (message.term < promised_) return;
  // Of one whom nobody here knows the others must not depend.
  const bool known = !view_ || view_->members.contains(from);
  if (known || !holds(Rule::lead_the_known)) {
    promised_ = message.term;
    promised_to_ = from;
  }
  outbox_.send(from, InquiryAnswer{message.term, view_.value_or(View()), restart_});
}

void Peer::receive(const InquiryAnswer& message, PeerId from) {
  if (!inquiry_ || message.term != inquiry_->term) return;
  inquiry_->awaited.erase(from);
  if (message.view.number > inquiry_->newest.number) {
    for (const auto& [peer, stages] : message.view.members) {
      const bool asked = inquiry_->newest.members.contains(peer);
      if (asked || peer == self_ || dead_.contains(peer)) continue;
      inquiry_->awaited.insert(peer);
      outbox_.send(peer, InquiryMessage{inquiry_->term});
    }
    inquiry_->newest = message.view;
    inquiry_->restart = message.restart;
    watch_others();
  }
  lead_when_all_have_answered();
}

void Peer::lead_when_all_have_answered() {
  if (!inquiry_ || !inquiry_->awaited.empty()) return;
  Inquiry inquiry = *std::exchange(inquiry_, std::nullopt);
  if (!inquiry.newest.members.contains(self_) && holds(Rule::lead_the_known)) {
    promised_ = inquiry.newest.number.term;
    leaves_at_s_ = now_s_ + kPatienceToJoinS;
    return ask_to_join();
  }
  lead(inquiry.term, std::move(inquiry.newest), std::move(inquiry.restart));
}

void Peer::break_promise_to(PeerId peer) {
  if (promised_to_ != peer) return;
  promised_to_.reset();
  promised_ = view_ ? view_->number.term : Term();
  const auto message = std::exchange(below_promise_, std::nullopt);
  if (message && !dead_.contains(message->view.leader())) receive(*message, self_);
}

void Peer::lead(Term term, View view, std::shared_ptr<const RestartPoint> restart) {
  Succession succession;
  succession.term = term;
  succession.view = std::move(view);
  succession.takes_over = !dead_.empty();
  succession.workers = static_cast<std::int64_t>(roster_.workers.size());
  succession.newest_at_start = roster_.all().back();
  succession.peers = static_cast<std::int64_t>(roster_.all().size());
  succession.from_a_silent_one = leader_was_silent_;
  succession.restart = std::move(restart);
  succession.since_s = std::exchange(leaderless_since_s_, std::nullopt).value_or(now_s_);
  std::map<PeerId, Gone> gone;
  for (const PeerId peer : dead_) {
    if (succession.view.members.contains(peer)) {
      gone[peer] = left_.contains(peer) ? Gone::left : Gone::lost;
    }
    succession.view.remove(peer);
  }
  leader_.emplace(self_, plan_, server_.chronicle(), std::move(succession), outbox_, now_s_);
  leader_->begin(gone);
}

}  // namespace swarmpi
