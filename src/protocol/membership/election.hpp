#pragma once
// How a peer comes to lead: under a term of its own, and from the newest view that anybody lives
// in. There is no vote: the first in the order of leading asks, and the others promise to follow.

#include <cstddef>
#include <memory>
#include <optional>
#include <set>

#include "protocol/membership/membership.hpp"
#include "protocol/messages/outbox.hpp"
#include "protocol/messages/views.hpp"
#include "protocol/step/restart_point.hpp"

namespace swarmpi {

/// What an inquiry comes to.
struct Mandate {
  Term term;
  ViewRef view;  // the newest; if this peer is not in it, it does not lead
  std::shared_ptr<const RestartPoint> restart;
};

class Election {
 public:
  /// Both outlive it.
  Election(const Membership& membership, Outbox& outbox)
      : membership_(membership), outbox_(outbox) {}

  // ---- This peer is to lead

  /// Whether storage owes a term, or other peers owe answers.
  bool under_way() const { return awaits_term_ || inquiry_; }
  /// Has storage create the file of this term. REQUIRES: !under_way().
  void ask_for(Term term);
  bool awaits_term() const { return awaits_term_; }
  /// This peer is not to lead after all.
  void withdraw() {
    awaits_term_ = false;
    inquiry_.reset();
  }
  /// Storage has answered.
  void storage_answered() { awaits_term_ = false; }
  /// Asks all live peers that this one knows for their newest view: some may have adopted a newer
  /// one. `restart`: what all have gone back to, if they have. REQUIRES: !under_way().
  void inquire(Term term, std::shared_ptr<const RestartPoint> restart);
  /// Asks again those that have not answered. A peer that has promised a later term to another does
  /// not answer, until that one has died.
  void repeat_inquiry();
  /// If the answer shows a newer view, its members are asked too.
  void receive(const InquiryAnswer& message, PeerId from);
  bool inquires() const { return inquiry_.has_value(); }
  bool inquires_under(Term term) const { return inquiry_ && inquiry_->mandate.term == term; }
  /// Whom this peer has asked, if it inquires.
  std::set<PeerId> asked() const { return inquiry_ ? inquiry_->asked : std::set<PeerId>(); }
  /// Who of them has not answered.
  std::set<PeerId> awaited() const { return inquiry_ ? inquiry_->awaited : std::set<PeerId>(); }
  /// The mandate, once all have answered; this ends the inquiry.
  std::optional<Mandate> mandate();

  // ---- Another is to lead

  /// Answers a new leader, and promises it to adopt no views of earlier terms.
  void receive(const InquiryMessage& message, PeerId from,
               const std::shared_ptr<const RestartPoint>& restart);
  /// Whether views of this term are not adopted, for a later one is promised.
  bool is_barred(Term term) const { return term < promised_; }
  /// Whether this view, a whole one, may be adopted. If not, it is held back.
  bool admits(const ViewMessage& message);
  /// Who is promised to lead, until a view is adopted.
  std::optional<PeerId> promised_to() const { return promised_to_; }
  /// A view was adopted: there is a leader.
  void settled();
  /// The peer has died. If it was promised to lead, views of earlier terms count again: the last
  /// that was held back.
  std::optional<ViewMessage> lost(PeerId peer);
  /// The peer lives but does not lead: as lost() to what was promised to it.
  std::optional<ViewMessage> abstains(PeerId peer);

  // ---- Leaders that are gone

  /// It was heard that the leader has died.
  void vacant_since(double now_s) { vacant_since_s_ = vacant_since_s_.value_or(now_s); }
  /// This peer leads now. Since when nobody did, as far as was heard.
  double filled(double now_s);
  /// This peer's term is over, for there is a later one. How often that was.
  std::size_t outbid() { return ++outbid_; }

 private:
  struct Inquiry {
    Mandate mandate;
    std::set<PeerId> asked, awaited;
  };

  void inquire_of(PeerId peer);

  const Membership& membership_;
  Outbox& outbox_;
  bool awaits_term_ = false;  // from storage
  std::optional<Inquiry> inquiry_;
  Term promised_;  // views of earlier terms are not adopted any more
  std::optional<PeerId> promised_to_;
  std::optional<ViewMessage> below_promise_;  // the last view that was not adopted because of that
  std::optional<double> vacant_since_s_;
  std::size_t outbid_ = 0;
};

}  // namespace swarmpi
