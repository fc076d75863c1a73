#pragma once
// Watches a world and says when a peer does what the protocol forbids, whatever comes of it.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "simulator/world.hpp"
#include "swarm/plan.hpp"

namespace swarmpi {

/// What of a run must not depend on who computes it.
struct Story {
  std::vector<StepRow> rows;
  std::vector<ValidationRow> validation;
  std::map<Step, std::shared_ptr<const CommitRecord>> commits;
};

class Referee final : public Observer {
 public:
  /// Knows of one run from its start, or from the checkpoint it goes on from.
  Referee(const RunPlan& plan, const Roster& roster, const ResumeState& resume,
          const VirtualDisk& disk);

  /// Leaves it to the core to find replicas that differ.
  void overlook_states() { overlooks_states_ = true; }

  void happened(double now_s, PeerId peer, const Event& event) override;
  void asked(double now_s, PeerId peer, const Action& action) override;

  /// The first breach of a rule; "" while there is none.
  const std::string& breach() const { return breach_; }
  /// What must hold once everybody is done: "" or what is wrong.
  std::string at_the_end(const VirtualWorld& world) const;
  /// The commits that were announced.
  const std::map<Step, std::shared_ptr<const CommitRecord>>& commits() const { return commits_; }
  std::int64_t jobs() const { return jobs_; }

 private:
  using Held = std::pair<PeerId, StageId>;

  void finished(PeerId peer, const JobResult& result);
  void applied(PeerId peer, const ApplyResult& result);
  void started(PeerId peer, const Job& job);
  void stores(PeerId peer, const StoreStage& store);
  void sends(PeerId peer, const Message& message);
  void finishes(PeerId peer, const Status& status);
  void rule(bool kept, const char* what, PeerId peer, const std::string& about);

  const RunPlan& plan_;
  const VirtualDisk& disk_;
  std::set<PeerId> spares_;
  std::size_t peers_;
  Step resumed_from_;

  std::set<PeerId> computing_;
  std::set<Held> applying_;                                 // an update runs
  std::set<Held> storing_;                                  // the state is being written
  std::map<Held, std::int64_t> applied_;                    // last step in the state
  std::set<MicrobatchId> in_flight_;                        // issued, not through
  std::map<std::pair<PeerId, WorkId>, int> passes_;         // jobs begun
  std::map<std::pair<Step, StageId>, ApplyResult> states_;  // of the first replica
  std::map<PeerId, std::set<ViewNumber>> views_heard_;
  std::set<ViewNumber> views_;
  std::map<Step, std::shared_ptr<const CommitRecord>> commits_;
  std::map<PeerId, Status> ended_;
  std::int64_t records_asked_ = 0;
  std::int64_t jobs_ = 0;
  bool overlooks_states_ = false;
  std::string breach_;
};

}  // namespace swarmpi
