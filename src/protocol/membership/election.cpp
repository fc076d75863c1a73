#include "protocol/membership/election.hpp"

#include <algorithm>
#include <utility>

#include "core/check.hpp"

namespace swarmpi {

// ---- This peer is to lead

void Election::ask_for(Term term) {
  SWARMPI_CHECK(!under_way(), "a peer asks for one term at a time");
  stage_ = AwaitsTerm();
  outbox_.act(CreateTerm{term});
}

void Election::inquire(Term term, std::shared_ptr<const RestartPoint> restart) {
  SWARMPI_CHECK(!under_way(), "a peer inquires under one term at a time");
  promised_ = std::max(promised_, term);
  Inquiry inquiry{{term, membership_.newest_view(), std::move(restart)}, {}, {}};
  for (const auto& [peer, stages] : inquiry.mandate.view->members()) inquire_of(inquiry, peer);
  for (const PeerId peer : membership_.contacts()) inquire_of(inquiry, peer);
  stage_ = std::move(inquiry);
}

void Election::inquire_of(Inquiry& inquiry, PeerId peer) {
  if (peer == membership_.self() || membership_.is_dead(peer)) return;
  if (!inquiry.asked.insert(peer).second) return;
  inquiry.awaited.insert(peer);
  outbox_.send(peer, InquiryMessage{inquiry.mandate.term});
}

void Election::repeat_inquiry() {
  const auto* inquiry = std::get_if<Inquiry>(&stage_);
  for (const PeerId peer : awaited()) outbox_.send(peer, InquiryMessage{inquiry->mandate.term});
}

void Election::receive(const InquiryAnswer& message, PeerId from) {
  auto* inquiry = std::get_if<Inquiry>(&stage_);
  if (inquiry == nullptr || message.term != inquiry->mandate.term) return;
  inquiry->awaited.erase(from);
  if (message.view->number <= inquiry->mandate.view->number) return;
  for (const auto& [peer, stages] : message.view->members()) inquire_of(*inquiry, peer);
  inquiry->mandate.view = message.view;
  inquiry->mandate.restart = message.restart;
}

namespace {

const std::set<PeerId> kNobody;

}  // namespace

const std::set<PeerId>& Election::asked() const {
  const auto* inquiry = std::get_if<Inquiry>(&stage_);
  return inquiry == nullptr ? kNobody : inquiry->asked;
}

const std::set<PeerId>& Election::awaited() const {
  const auto* inquiry = std::get_if<Inquiry>(&stage_);
  return inquiry == nullptr ? kNobody : inquiry->awaited;
}

std::optional<Election::Mandate> Election::mandate() {
  auto* inquiry = std::get_if<Inquiry>(&stage_);
  if (inquiry == nullptr || !inquiry->awaited.empty()) return std::nullopt;
  Mandate mandate = std::move(inquiry->mandate);
  stage_ = NotUnderWay();
  if (!mandate.view->contains(membership_.self())) promised_ = mandate.view->number.term;
  return mandate;
}

// ---- Another is to lead

void Election::receive(const InquiryMessage& message, PeerId from,
                       std::shared_ptr<const RestartPoint> restart) {
  if (message.term < promised_) return;
  const ViewRef& view = membership_.view();
  // A peer that is not in the view will not lead: no promise to it may hold back the views of the
  // one that does.
  if (!view || view->contains(from)) {
    promised_ = message.term;
    promised_to_ = from;
  }
  outbox_.send(from, InquiryAnswer{message.term, view ? view : no_view(), std::move(restart)});
}

bool Election::admits(const ViewMessage& message) {
  if (message.view->number.term >= promised_) return true;
  below_promise_ = message;
  return false;
}

void Election::settled() {
  if (std::holds_alternative<Inquiry>(stage_)) stage_ = NotUnderWay();
  vacant_since_s_.reset();
}

std::optional<ViewMessage> Election::lost(PeerId peer) {
  if (auto* inquiry = std::get_if<Inquiry>(&stage_)) inquiry->awaited.erase(peer);
  if (promised_to_ != peer) return std::nullopt;
  promised_to_.reset();
  promised_ = membership_.view_number().term;
  std::optional<ViewMessage> held = std::exchange(below_promise_, std::nullopt);
  if (held && membership_.is_dead(held->view->leader())) held.reset();
  return held;
}

// ---- Leaders that are gone

double Election::filled(double now_s) {
  return std::exchange(vacant_since_s_, std::nullopt).value_or(now_s);
}

}  // namespace swarmpi
