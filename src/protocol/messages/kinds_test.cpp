// Torture's hash, and its moments of faults, use these numbers: they are those of commit db79bc35.

#include <gtest/gtest.h>

#include "protocol/messages/port_kinds.hpp"

namespace swarmpi::kinds_test {
namespace {

template <class Kinds, class... InOrder>
constexpr bool are_numbered_in_order() {
  std::size_t number = 0;
  return ((kNumberIn<Kinds, InOrder> == number++) && ...) && number == Kinds::kCount;
}

TEST(Kinds, JobsAndResultsHaveTheirNumbers) {
  EXPECT_TRUE(
      (are_numbered_in_order<JobKinds, ForwardJob, BackwardJob, ShareJob, ReduceJob, PlaceJob,
                             GatherJob, ApplyJob, PrepareJob, ReadJob, WriteJob, DropJob, TryJob,
                             UpdateJob, PlaceWeightsJob, CopyWeightsJob>()));
  EXPECT_TRUE((are_numbered_in_order<JobResultKinds, ForwardResult, BackwardResult, ShareResult,
                                     ReduceResult, PlaceResult, GatherResult, ApplyResult,
                                     PrepareResult, ReadResult, WriteResult, DropResult, TryResult,
                                     WeightsResult, PlaceWeightsResult>()));
}

TEST(Kinds, EventsAndActionsHaveTheirNumbers) {
  EXPECT_TRUE(
      (are_numbered_in_order<EventKinds, Started, MessageArrived, JobFinished, PeerLost, KillFailed,
                             TermCreated, RecordDurable, StageStored, CheckpointDurable,
                             ManifestLoaded, StageLoaded, StorageFailed, TermOver, EndDurable,
                             StopRequested, PeerSpawned, SpawnFailed, TimerDue, CheckpointDropped,
                             CheckpointDamaged, ProbeStored, WorkProbed, CollectiveIdMade,
                             CollectiveReady, CollectiveDone, CollectiveFailed>()));
  EXPECT_TRUE((
      are_numbered_in_order<ActionKinds, Send, StartJob, KillPeer, SpawnPeer, CreateTerm,
                            StoreRecord, StoreStage, StoreManifest, LoadManifest, LoadStage,
                            StoreEnd, SetTimer, Finish, StoreProbe, AbandonLane, ProbeWork,
                            MakeCollectiveId, MakeCollective, EnterCollective, AbortCollective>()));
}

}  // namespace
}  // namespace swarmpi::kinds_test
