#pragma once
// Memory: nobody is ever given more than fits into what it has said that it may take, or holds
// more; and a run ends for too little memory only where there is truly no other deal.

#include <map>
#include <set>
#include <string>

#include "core/status.hpp"
#include "protocol/membership/room.hpp"

namespace swarmpi {

/// Whether a run ended for too little memory.
bool lacked_memory(const Status& status);

class MemoryRoom {
 public:
  /// `stated`: the budgets of all peers; `first`: the view that the run begins with.
  MemoryRoom(const MemoryNeeds& needs, Budgets stated, const View& first);

  /// A leader publishes its next view.
  std::string published(const View& view) const;
  /// A peer's compute or storage is to make a stage that is to be learned or loaded.
  std::string allocates(PeerId peer, StageId stage, bool learns);
  void freed(PeerId peer, StageId stage) { held_[peer].erase(stage); }
  /// It has said that there is no memory left for it. How much less the leader takes it to have by
  /// then is its own affair: ends are not judged any more.
  void refused(PeerId peer, StageId stage) {
    held_[peer].erase(stage);
    somebody_refused_ = true;
  }
  /// A leader ends the run. `view`: the newest; `living`: of its members.
  std::string ends(const Status& status, const View& view, const std::set<PeerId>& living) const;

 private:
  const MemoryNeeds& needs_;
  Budgets stated_;
  std::map<PeerId, std::set<StageId>> held_;  // the stages that a peer has memory for
  bool somebody_refused_ = false;
};

}  // namespace swarmpi
