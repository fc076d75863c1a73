#pragma once
// The file system that all peers share: what is durable. Whatever is still on its way when a peer
// is removed never gets here.

#include <map>
#include <set>
#include <vector>

#include "swarm/ports.hpp"

namespace swarmpi {

struct VirtualDisk {
  struct Checkpoint {
    ResumeState state;
    std::vector<StoredFile> files;
  };

  std::set<Term> terms;
  std::vector<StoreRecord> journal;
  std::vector<Checkpoint> checkpoints;  ///< whose manifests are written
  bool complete = false;
};

}  // namespace swarmpi
