#pragma once
// Static pipelines, as views, messages and jobs show them: they are as many as there can be, each
// microbatch stays in its own, the method's order of passes holds, and a death is answered by going
// back, by nothing else.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "protocol/messages/message_kinds.hpp"
#include "protocol/messages/port_kinds.hpp"
#include "protocol/run_plan.hpp"

namespace swarmpi {

class StaticPipelines {
 public:
  /// `first`: the view that the run is to begin with. The plan outlives it; with method "swarm" no
  /// rule is checked.
  StaticPipelines(const RunPlan& plan, ViewRef first, Incarnation incarnation);

  /// The peer may leave the run: nobody owes it a place in a pipeline.
  void ask_to_leave(PeerId peer) { may_leave_.insert(peer); }
  /// A death was heard of, true or not.
  void lost_somebody() { nobody_is_lost_ = false; }
  /// One of two members that live and hold each other for dead asks to lead: it goes back without
  /// the other, which may depose it and do the same, though a leader that had heard of neither
  /// death has dealt the stages since. From now on who leaves may cost something; no other rule is
  /// off.
  void two_may_lead() { two_may_lead_ = true; }
  /// `committed`: the last step.
  std::string sends(PeerId peer, const Send& send, Step committed);
  std::string starts(PeerId peer, const Job& job);
  void finished(PeerId peer, const JobResult& result);

 private:
  /// What a peer does in the incarnation that it is in.
  struct PeerState {
    Incarnation incarnation;
    bool has_view = false;
    /// The view that dealt the pipelines; null if a death had broken them before the peer came to
    /// this incarnation.
    ViewRef dealt;
    std::set<std::pair<WorkId, bool>> begun;                         // passes; whether backward
    std::map<std::pair<Step, StageId>, std::int64_t> forwards_done;  // of training
    // Of training: forward pass done, backward pass not.
    std::map<StageId, std::set<MicrobatchId>> open;
    bool job_is_old = false;  // that runs: it began in an earlier incarnation
  };

  /// With its table a peer says that it has adopted a view.
  void enter(PeerId peer, const Message& message);
  /// The pipelines that a leader works with; null if a death may have broken them before it led.
  ViewRef dealt_by(PeerId leader, const Message& message) const;
  std::string publishes(const ViewMessage& message, Incarnation incarnation, Step committed);
  std::string check_deal(const View& view) const;
  std::string check_roles(const View& view, const View& dealt) const;
  static std::string check_way(const ViewRef& dealt, PeerId to, const WorkId& work, bool has_path);
  std::string check_decision(const ViewRef& dealt, const Message& message) const;
  std::string starts_forward(PeerState& state, const WorkId& work) const;
  std::string starts_backward(PeerState& state, PeerId peer, const WorkId& work) const;

  const RunPlan& plan_;
  Incarnation first_incarnation_;
  std::int64_t first_pipelines_;
  ViewRef first_;
  std::set<PeerId> may_leave_;
  bool nobody_is_lost_ = true;  // since the stages were dealt last
  bool two_may_lead_ = false;
  std::map<ViewNumber, ViewRef> views_;      // that were published
  std::map<Term, Incarnation> incarnation_;  // of each leader's last view
  std::map<Term, ViewRef> dealt_in_;         // the last view of each that dealt all to stages anew
  std::set<ViewNumber> deals_;               // all such views
  std::map<PeerId, PeerState> peers_;
};

}  // namespace swarmpi
