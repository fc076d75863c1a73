#pragma once
// Which state each replica and learner holds of each stage.

#include <map>
#include <set>
#include <string>
#include <utility>

#include "core/ids.hpp"
#include "protocol/messages/port_kinds.hpp"
#include "protocol/step/state_hash.hpp"

namespace swarmpi {

class StageStates {
 public:
  explicit StageStates(Step resumed_from) : resumed_from_(resumed_from) {}

  /// Leaves it to the core to find replicas whose states differ.
  void ignore_differences() { ignores_differences_ = true; }
  std::string starts(PeerId peer, const Job& job);
  std::string applied(PeerId peer, const ApplyResult& result);
  /// A learner has completed tensors, which are as the others hold them.
  std::string written(PeerId peer, const WriteResult& result) const;
  /// The state is to be written.
  std::string stores(PeerId peer, const StoreStage& store);
  void stored(PeerId peer, StageId stage) { storing_.erase({peer, stage}); }
  /// The peer's storage hangs: nothing that it was to write counts any more.
  void abandons(PeerId peer) {
    std::erase_if(storing_, [peer](const auto& held) { return held.first == peer; });
  }
  void loads(PeerId peer, const LoadStage& load);
  void loaded(PeerId peer, StageId stage);
  void died(PeerId peer);
  /// The last step in the state.
  Step step_of(PeerId peer, StageId stage) const;

 private:
  using Held = std::pair<PeerId, StageId>;

  Step resumed_from_;
  bool ignores_differences_ = false;
  std::map<Held, Step> applied_;                          // last step in the state
  std::set<Held> applying_;                               // an update runs
  std::set<Held> storing_;                                // the state is being written
  std::map<Held, Step> loading_;                          // the state of this step
  std::map<std::pair<Step, StageId>, StateHash> states_;  // of the first replica
};

}  // namespace swarmpi
