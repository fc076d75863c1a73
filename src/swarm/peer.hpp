#pragma once
// One peer of the swarm: a state machine without I/O. Events in, actions out; the same code runs on
// a cluster and under a simulated clock, network and disk.

#include <optional>
#include <string>
#include <vector>

#include "swarm/heartbeats.hpp"
#include "swarm/leader.hpp"
#include "swarm/outbox.hpp"
#include "swarm/plan.hpp"
#include "swarm/ports.hpp"
#include "swarm/ranks.hpp"
#include "swarm/server.hpp"

namespace swarmpi {

class Peer {
 public:
  Peer(PeerId self, RunPlan plan, Roster roster, ResumeState resume);
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  /// What to do about `event`, which happened at `now_s`.
  Actions handle(const Event& event, double now_s);

  bool done() const { return finished_.has_value(); }
  /// How it ended. REQUIRES: done().
  const Status& status() const { return *finished_; }
  /// Whether it is this peer's to tell a person how the run ended: the leader's, or that of all
  /// who lost it: none of them knows who else is left.
  bool speaks() const;
  /// One line for messages about stalls: what this peer does or waits for.
  std::string waiting_for() const;

 private:
  void learn(const Event& event);
  void learn(const MessageArrived& arrived);
  void adopt(const ViewMessage& message);
  void start();
  void take_the_lead(const TermCreated& term);
  void ask_to_stop(const std::string& why);
  void report_failure(const Status& status);
  /// The run cannot go on without `peer`.
  void lost(PeerId peer, const std::string& how);
  void suspect_the_silent();
  void set_timer();
  /// Who leads, as far as this peer knows.
  PeerId leader_id() const;
  /// REQUIRES: this peer leads.
  Leader& leader();
  void finish(Status status);

  PeerId self_;
  RunPlan plan_;
  Roster roster_;
  ResumeState resume_;
  Outbox outbox_;
  double now_s_ = 0;
  std::optional<View> view_;
  std::vector<MessageArrived> early_;  // of a view that is not here yet
  std::optional<std::string> stop_;    // asked for before anybody led
  std::vector<PeerId> lost_;
  bool lost_leader_ = false;
  Heartbeats heartbeats_;
  std::optional<double> timer_s_;  // the last one set
  Server server_;
  std::optional<Leader> leader_;
  std::optional<Status> finished_;
};

}  // namespace swarmpi
