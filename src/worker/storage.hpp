#pragma once
// Seam 4: storage. Takes the protocol's storing actions in order; each is answered by an event in
// the peer's inbox, or by StorageFailed, after which nothing more is stored.

#include "swarm/ports.hpp"

namespace swarmpi {

class Storage {
 public:
  virtual ~Storage() = default;
  virtual void store(CreateTerm action) = 0;
  virtual void store(StoreRecord action) = 0;
  virtual void store(StoreStage action) = 0;
  virtual void store(StoreManifest action) = 0;
  virtual void store(StoreEnd action) = 0;
};

}  // namespace swarmpi
