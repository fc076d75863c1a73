#pragma once
// The file system that all peers share: what is durable. Whatever is still on its way when its
// writer dies never gets here.

#include <map>
#include <set>
#include <vector>

#include "swarm/ports.hpp"

namespace swarmpi {

struct VirtualDisk {
  struct Entry {
    PeerId writer;
    Term term;  ///< that the writer led
    StoreRecord record;
  };

  std::set<Term> terms;
  std::vector<Entry> journal;
  std::vector<RestartPoint> checkpoints;  ///< whose manifests are written
  bool complete = false;
};

}  // namespace swarmpi
