#include "protocol/membership/election.hpp"

#include <algorithm>
#include <utility>

#include "protocol/messages/term_port.hpp"
#include "protocol/messages/views.hpp"
#include "protocol/step/restart_point.hpp"

namespace swarmpi {

void Election::ask_for(Term term) {
  awaits_term_ = true;
  outbox_.act(CreateTerm{term});
}

void Election::inquire(Term term, std::shared_ptr<const RestartPoint> restart) {
  promised_ = std::max(promised_, term);
  inquiry_ = Inquiry{{term, membership_.newest_view(), std::move(restart)}, {}, {}};
  for (const auto& [peer, stages] : membership_.newest_view()->members()) inquire_of(peer);
  for (const PeerId peer : membership_.contacts()) inquire_of(peer);
}

void Election::inquire_of(PeerId peer) {
  if (peer == membership_.self() || membership_.is_dead(peer)) return;
  if (!inquiry_->asked.insert(peer).second) return;
  inquiry_->awaited.insert(peer);
  outbox_.send(peer, InquiryMessage{inquiry_->mandate.term});
}

void Election::repeat_inquiry() {
  if (!inquiry_) return;
  const InquiryMessage again{inquiry_->mandate.term};
  for (const PeerId peer : inquiry_->awaited) outbox_.send(peer, again);
}

void Election::receive(const InquiryAnswer& message, PeerId from) {
  if (!inquiry_ || message.term != inquiry_->mandate.term) return;
  inquiry_->awaited.erase(from);
  if (message.view->number <= inquiry_->mandate.view->number) return;
  for (const auto& [peer, stages] : message.view->members()) inquire_of(peer);
  inquiry_->mandate.view = message.view;
  inquiry_->mandate.restart = message.restart;
}

std::optional<Mandate> Election::mandate() {
  if (!inquiry_ || !inquiry_->awaited.empty()) return std::nullopt;
  Mandate mandate = std::move(inquiry_->mandate);
  inquiry_.reset();
  if (!mandate.view->contains(membership_.self())) promised_ = mandate.view->number.term;
  return mandate;
}

void Election::receive(const InquiryMessage& message, PeerId from,
                       const std::shared_ptr<const RestartPoint>& restart) {
  if (message.term < promised_) return;
  const ViewRef& view = membership_.view();
  // A peer that is not in the view will not lead: no promise to it may hold back the views of the
  // one that does.
  if (!view || view->contains(from)) {
    promised_ = message.term;
    promised_to_ = from;
  }
  outbox_.send(from, InquiryAnswer{message.term, view ? view : no_view(), restart});
}

bool Election::admits(const ViewMessage& message) {
  if (!is_barred(message.view->number.term)) return true;
  below_promise_ = message;
  return false;
}

void Election::settled() {
  inquiry_.reset();
  promised_to_.reset();
  vacant_since_s_.reset();
}

std::optional<ViewMessage> Election::lost(PeerId peer) {
  if (inquiry_) inquiry_->awaited.erase(peer);
  return abstains(peer);
}

std::optional<ViewMessage> Election::abstains(PeerId peer) {
  if (promised_to_ != peer) return std::nullopt;
  promised_to_.reset();
  promised_ = membership_.view_number().term;
  std::optional<ViewMessage> held = std::exchange(below_promise_, std::nullopt);
  if (held && membership_.is_dead(held->view->leader())) held.reset();
  return held;
}

double Election::filled(double now_s) {
  return std::exchange(vacant_since_s_, std::nullopt).value_or(now_s);
}

}  // namespace swarmpi
