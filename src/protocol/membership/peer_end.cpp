#include "protocol/membership/peer_end.hpp"

#include <utility>

namespace swarmpi {

Status fenced() {
  return Status::stopped("this peer was fenced: the other peers have continued without it");
}

void PeerEnd::tell(PeerId leader, Outbox& outbox) const {
  if (stop_) outbox.send(leader, NoticeMessage{*stop_});
  if (failure_) outbox.send(leader, FailureMessage{failure_->code(), failure_->message()});
}

std::optional<Status> PeerEnd::known() const { return heard_ ? status_of(*heard_) : failure_; }

bool PeerEnd::finish(Status status) {
  if (finished_) return false;
  finished_ = std::move(status);
  return true;
}

Status PeerEnd::as_heard() const {
  if (heard_) return status_of(*heard_);
  return Status::stopped("there is no run to join: no peer has answered");
}

}  // namespace swarmpi
