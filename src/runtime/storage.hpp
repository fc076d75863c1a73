#pragma once
// Seam 4: storage. Takes the protocol's storing and loading actions, in order in each lane; each is
// answered by an event in the peer's inbox, or by StorageFailed, after which nothing more is
// stored.

#include <cstdint>
#include <limits>

#include "protocol/messages/progress_port.hpp"
#include "protocol/messages/record_port.hpp"
#include "protocol/messages/storage_port.hpp"
#include "protocol/messages/term_port.hpp"
#include "runtime/inbox.hpp"

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
  virtual void take(StoreProbe action) = 0;
  /// How far this lane has come.
  virtual LaneProgress progress(Lane) const {
    return {std::numeric_limits<std::int64_t>::max(), 0, ""};
  }
  /// What was asked of the lane and is not answered is not wanted any more: it gets no answer, and
  /// a call that hangs touches nothing when it returns.
  virtual void abandon(Lane) {}
};

/// Stores nothing, and reports everything as stored at once: for benchmarks and tests.
class NoStorage : public Storage {
 public:
  explicit NoStorage(Inbox& inbox) : inbox_(inbox) {}
  void take(CreateTerm action) override { inbox_.post(TermCreated{action.term, true}); }
  void take(StoreRecord action) override { inbox_.post(RecordDurable{action.number}); }
  void take(StoreStage action) override {
    inbox_.post(StageStored{action.step, action.stage, {"", 0, 0}, {}});
  }
  void take(StoreManifest action) override {
    inbox_.post(CheckpointDurable{Step(action.state.step)});
  }
  void take(StoreEnd) override { inbox_.post(EndDurable{}); }
  void take(LoadManifest) override { inbox_.post(ManifestLoaded{}); }
  void take(LoadStage action) override {
    inbox_.post(StageLoaded{action.incarnation, action.stage});
  }
  void take(StoreProbe) override { inbox_.post(ProbeStored{}); }

 private:
  Inbox& inbox_;
};

}  // namespace swarmpi
