#pragma once
// Seam 4: storage. Takes the protocol's storing and loading actions in order; each is answered by
// an event in the peer's inbox, or by StorageFailed, after which nothing more is stored.

#include "protocol/messages/ports.hpp"

namespace swarmpi {

class Storage {
 public:
  virtual ~Storage() = default;
  virtual void take(CreateTerm action) = 0;
  virtual void take(StoreRecord action) = 0;
  virtual void take(StoreStage action) = 0;
  virtual void take(StoreManifest action) = 0;
  virtual void take(StoreEnd action) = 0;
  virtual void take(LoadManifest action) = 0;
  virtual void take(LoadStage action) = 0;
};

}  // namespace swarmpi
