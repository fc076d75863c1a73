#pragma once
// How a peer's part in the run comes to its end: what it was asked, what has failed here, what it
// has heard, and how it finished.

#include <optional>
#include <string>

#include "core/status.hpp"
#include "protocol/messages/outbox.hpp"

namespace swarmpi {

/// How a peer ends that the others have taken for dead.
Status fenced();

class PeerEnd {
 public:
  // ---- What is to come

  /// A signal or a notice has asked this peer to stop, or it cannot continue: each leader is told.
  void stop_asked(const std::string& why) { stop_ = why; }
  void failed(const Status& status) { failure_ = status; }
  void tell(PeerId leader, Outbox& outbox) const;
  /// The end of the run was heard. All leave as it says once they may.
  void heard(const EndMessage& end) { heard_ = end; }
  const std::optional<EndMessage>& heard() const { return heard_; }
  /// How the run is to end, as was heard, or, if nothing was, as the failure here demands.
  std::optional<Status> known() const;

  // ---- Finishing

  /// It is not waited for longer that somebody lets this peer finish; nothing: it is.
  void set_deadline(std::optional<double> at_s) { deadline_s_ = at_s; }
  std::optional<double> deadline_s() const { return deadline_s_; }
  /// The first call counts. Whether this is it.
  bool finish(Status status);
  const std::optional<Status>& finished() const { return finished_; }
  /// How it finishes with what was heard; without that, no run has let it join.
  Status as_heard() const;

 private:
  std::optional<std::string> stop_;
  std::optional<Status> failure_;
  std::optional<EndMessage> heard_;
  std::optional<double> deadline_s_;
  std::optional<Status> finished_;
};

}  // namespace swarmpi
