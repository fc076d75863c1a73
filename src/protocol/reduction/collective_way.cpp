#include "protocol/reduction/collective_way.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/check.hpp"
#include "core/hash.hpp"
#include "protocol/messages/collective_port.hpp"
#include "protocol/messages/collectives.hpp"

namespace swarmpi {
namespace {

// The same at all replicas, and never the same for two reductions.
std::uint64_t ticket_of(const SumsForCollective& sums) {
  const std::array<std::int64_t, 4> words = {sums.seal.incarnation.value, sums.seal.term.value,
                                             sums.seal.number, sums.attempt};
  return hash_bytes(words.data(), sizeof(words));
}

bool includes(const std::set<PeerId>& heard, const std::vector<PeerId>& replicas) {
  return std::all_of(replicas.begin(), replicas.end(),
                     [&](PeerId peer) { return heard.contains(peer); });
}

}  // namespace

// ---- Making it

CollectiveWay::CollectiveWay(PeerId self, StageId stage, const View& view, Outbox& outbox)
    : self_(self),
      stage_(stage),
      view_(view.number),
      leader_(view.leader()),
      members_(view.replicas(stage)) {
  SWARMPI_CHECK(members_.size() > 1, "a replica alone has nobody to add up with");
  if (members_.front() == self_) outbox.act(MakeCollectiveId{stage_, view_});
}

void CollectiveWay::receive(const CollectiveIdMade& made, Outbox& outbox) {
  if (made.view != view_ || state_ != State::awaits_id) return;
  for (const PeerId peer : members_) {
    if (peer != self_) outbox.send(peer, CollectiveIdMessage{stage_, view_, made.id});
  }
  make(made.id, outbox);
}

void CollectiveWay::receive(const CollectiveIdMessage& message, Outbox& outbox) {
  if (message.view == view_ && state_ == State::awaits_id) make(message.id, outbox);
}

void CollectiveWay::make(const std::string& id, Outbox& outbox) {
  state_ = State::making;
  const auto place = std::find(members_.begin(), members_.end(), self_) - members_.begin();
  outbox.act(MakeCollective{stage_, view_, id, place, std::ssize(members_)});
}

void CollectiveWay::receive(const CollectiveReady& ready, Outbox& outbox) {
  if (ready.view != view_ || state_ != State::making) return;
  state_ = State::ready;
  tell(CollectiveNews::ready, {}, outbox);
}

// ---- Adding up

void CollectiveWay::consider(const SumsForCollective& sums, bool is_next, Outbox& outbox) {
  if (sums.view != view_) return;  // the round of tables that follows a view voids the seal
  if (state_ == State::over) {
    if (follows_a_death_ || !told_over_.insert(sums.seal).second) return;
    return tell(CollectiveNews::over, sums, outbox);
  }
  const bool told = sums_ && sums_->step >= sums.step;  // seals need not be in order of steps
  if (state_ != State::ready || !is_next || told) return;
  state_ = State::frozen;
  sums_ = sums;
  tell(CollectiveNews::frozen, sums, outbox);
}

void CollectiveWay::receive(const EnterMessage& message, Outbox& outbox) {
  if (state_ != State::frozen || message.seal != sums_->seal) return;
  state_ = State::entered;
  outbox.act(EnterCollective{stage_, view_, sums_->step, sums_->seal, ticket_of(*sums_)});
}

bool CollectiveWay::counts(const CollectiveDone& done) {
  if (state_ != State::entered) return false;
  if (done.view != view_ || done.seal != sums_->seal) return false;
  state_ = State::ready;
  return true;
}

// ---- The end of it

void CollectiveWay::receive(const CollectiveFailed& failed, Outbox& outbox) {
  if (failed.view != view_ || state_ == State::over) return;
  state_ = State::over;
  why_over_ = failed.why;
  tell(CollectiveNews::over, {}, outbox);
}

void CollectiveWay::seal_is_void(Step step, Outbox& outbox) {
  if (sums_ && sums_->step == step) abort("its seal is void", outbox);
}

void CollectiveWay::lost(PeerId peer, Outbox& outbox) {
  if (std::find(members_.begin(), members_.end(), peer) == members_.end()) return;
  follows_a_death_ = true;
  abort("a replica was lost", outbox);
}

void CollectiveWay::abort(const std::string& why, Outbox& outbox) {
  const State before = std::exchange(state_, State::over);
  if (before == State::over) return;
  why_over_ = why;
  if (before != State::awaits_id) outbox.act(AbortCollective{stage_, view_, why});
}

void CollectiveWay::tell(CollectiveNews news, const SumsForCollective& sums, Outbox& outbox) const {
  outbox.send(leader_, CollectiveWord{view_, stage_, news, sums.step, sums.seal, why_over_});
}

// ---- What the leader hears

void CollectiveBallot::begin(const ViewNumber& view) {
  *this = CollectiveBallot();
  view_ = view;
}

bool CollectiveBallot::enter(const CollectiveWord& word, PeerId from) {
  if (word.view != view_) return false;
  if (word.news == CollectiveNews::ready) ready_[word.stage].insert(from);
  if (word.news == CollectiveNews::frozen) frozen_[word.seal].insert(from);
  if (word.news == CollectiveNews::over) over_.insert(word.stage);
  return true;
}

bool CollectiveBallot::all_ready(StageId stage, const std::vector<PeerId>& replicas) const {
  const auto heard = ready_.find(stage);
  return replicas.size() > 1 && heard != ready_.end() && !over_.contains(stage) &&
         includes(heard->second, replicas);
}

bool CollectiveBallot::all_frozen(const SealId& seal, const std::vector<PeerId>& replicas) const {
  const auto heard = frozen_.find(seal);
  return heard != frozen_.end() && includes(heard->second, replicas);
}

}  // namespace swarmpi
