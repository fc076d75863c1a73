#pragma once
// How a peer comes to lead: under a term of its own, and from the newest view that anybody lives
// in. There is no vote: the peer with the lowest id asks, and the others promise to follow.

#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <variant>

#include "protocol/membership/membership.hpp"
#include "protocol/messages/outbox.hpp"

namespace swarmpi {

class Election {
 public:
  Election(const Membership& membership, Outbox& outbox)
      : membership_(membership), outbox_(outbox) {}

  // ---- This peer is to lead

  /// Whether storage owes a term, or other peers owe answers.
  bool under_way() const { return !std::holds_alternative<NotUnderWay>(stage_); }
  /// Has storage create the file of this term. REQUIRES: !under_way().
  void ask_for(Term term);
  /// Storage has answered.
  void storage_answered() { stage_ = NotUnderWay(); }
  /// Asks all live peers that this one knows for their newest view: some may have adopted a newer
  /// one, which ended with `restart`, if all had gone back. REQUIRES: !under_way().
  void inquire(Term term, std::shared_ptr<const RestartPoint> restart);
  /// Asks again those that have not answered. A peer that has promised a later term to another does
  /// not answer, until that one has died.
  void repeat_inquiry();
  void receive(const InquiryAnswer& message, PeerId from);
  bool inquires() const { return std::holds_alternative<Inquiry>(stage_); }
  /// Whom this peer has asked, if it inquires, and who of them has not answered.
  const std::set<PeerId>& asked() const;
  const std::set<PeerId>& awaited() const;
  /// What an inquiry comes to.
  struct Mandate {
    Term term;
    ViewRef view;  // the newest; if this peer is not in it, it does not lead
    std::shared_ptr<const RestartPoint> restart;
  };
  /// The mandate, once all have answered; this ends the inquiry.
  std::optional<Mandate> mandate();

  // ---- Another is to lead

  /// Answers a new leader, and promises it to adopt no views of earlier terms. `restart`: what all
  /// have gone back to, if they have.
  void receive(const InquiryMessage& message, PeerId from,
               std::shared_ptr<const RestartPoint> restart);
  /// Whether this view may be adopted, for no later term is promised. If not, it is held back.
  bool admits(const ViewMessage& message);
  /// A view was adopted: there is a leader.
  void settled();
  /// The peer has died. If it was promised to lead, views of earlier terms count again: the last
  /// that was held back.
  std::optional<ViewMessage> lost(PeerId peer);

  // ---- Leaders that are gone

  /// It was heard that the leader has died.
  void vacant_since(double now_s) { vacant_since_s_ = vacant_since_s_.value_or(now_s); }
  /// Since when nobody leads, as far as was heard; this peer leads now.
  double filled(double now_s);
  /// This peer's term is over, for there is a later one. How often that was.
  std::size_t outbid() { return ++outbid_; }

 private:
  struct NotUnderWay {};
  struct AwaitsTerm {};
  struct Inquiry {
    Mandate mandate;
    std::set<PeerId> asked, awaited;
  };

  void inquire_of(Inquiry& inquiry, PeerId peer);

  const Membership& membership_;
  Outbox& outbox_;
  std::variant<NotUnderWay, AwaitsTerm, Inquiry> stage_;
  Term promised_;  // views of earlier terms are not adopted any more
  std::optional<PeerId> promised_to_;
  std::optional<ViewMessage> below_promise_;  // the last view that was not adopted because of that
  std::optional<double> vacant_since_s_;
  std::size_t outbid_ = 0;
};

}  // namespace swarmpi
