#pragma once
// One peer of the swarm: a state machine without I/O. Events in, actions out; the same code runs on
// a cluster and under a simulated clock, network and disk.

#include <optional>
#include <string>
#include <vector>

#include "swarm/leader.hpp"
#include "swarm/outbox.hpp"
#include "swarm/plan.hpp"
#include "swarm/ports.hpp"
#include "swarm/server.hpp"

namespace swarmpi {

/// Who is there at the start, and where the run stands.
struct Roster {
  std::vector<PeerId> workers;
  std::vector<PeerId> spares;
  Term first_term;  ///< number of the first leadership: one above the journal's highest
};

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
  /// One line for messages about stalls: what this peer does or waits for.
  std::string waiting_for() const;

 private:
  void learn(const Event& event, double now_s);
  void learn(const MessageArrived& arrived);
  void start();
  void take_the_lead(const TermCreated& term, double now_s);
  /// REQUIRES: this peer leads.
  Leader& leader();
  void finish(Status status);

  PeerId self_;
  RunPlan plan_;
  Roster roster_;
  ResumeState resume_;
  Outbox outbox_;
  std::optional<View> view_;
  Server server_;
  std::optional<Leader> leader_;
  std::optional<Status> finished_;
};

}  // namespace swarmpi
