#pragma once
// Compute and storage for benchmarks of the protocol and the transport: no arithmetic, nothing
// stored.

#include <functional>

#include "protocol/peer.hpp"
#include "runtime/compute.hpp"
#include "runtime/inbox.hpp"
#include "runtime/storage.hpp"
#include "transport/transport.hpp"

namespace swarmpi {

/// Reports everything as stored at once.
class NoStorage final : public Storage {
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

 private:
  Inbox& inbox_;
};

/// Passes and updates without arithmetic; boundary tensors have their real size and undefined
/// content.
class NullCompute final : public Compute {
 public:
  NullCompute(const RunPlan& plan, std::size_t boundary_bytes, PayloadPool& payloads, Inbox& inbox)
      : plan_(plan), boundary_bytes_(boundary_bytes), payloads_(payloads), inbox_(inbox) {}
  void start(Job job) override;

 private:
  JobResult run(const ForwardJob& job);
  JobResult run(const BackwardJob& job);
  JobResult run(const ShareJob& job);
  JobResult run(const ReduceJob& job);
  JobResult run(const PlaceJob& job);
  JobResult run(const GatherJob& job);
  JobResult run(const PrepareJob& job);
  JobResult run(const ReadJob& job);
  JobResult run(const WriteJob& job);
  JobResult run(const DropJob& job);
  JobResult run(const ApplyJob& job);
  std::size_t tensors(StageId stage) const;

  const RunPlan& plan_;
  std::size_t boundary_bytes_;
  PayloadPool& payloads_;
  Inbox& inbox_;
};

}  // namespace swarmpi
