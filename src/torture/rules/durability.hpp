#pragma once
// What must be durable before somebody relies on it.

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "core/ids.hpp"
#include "core/status.hpp"
#include "simulation/virtual_disk.hpp"

namespace swarmpi {

class Durability {
 public:
  /// The disk outlives it.
  Durability(const VirtualDisk& disk, Step resumed_from)
      : disk_(disk), resumed_from_(resumed_from) {}

  void stores(PeerId peer, const StoreRecord& record);
  /// Storage has refused the rows that are not written yet: they are for whoever leads next.
  void refused(PeerId peer);
  /// Nobody waits for the rows of a peer that is dead or has left.
  void forget(PeerId peer) { asked_.erase(peer); }
  /// Rows and a checkpoint count as durable.
  std::string announces(const CommitMessage& commit);
  /// A member finishes.
  std::string finishes(const Status& status, Step last_commit);

 private:
  void read_journal();

  const VirtualDisk& disk_;
  Step resumed_from_;
  std::size_t journal_read_ = 0;
  std::set<std::int64_t> rows_;             // of steps
  std::map<PeerId, std::int64_t> asked_;    // rows of steps and validation that each asked to write
  std::map<PeerId, std::int64_t> written_;  // of these
};

}  // namespace swarmpi
