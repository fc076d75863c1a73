#pragma once
// The protocol's whole contact with the world: events in, actions out. Behind the actions stand
// three of the seams (transport, compute, storage); the fourth, the clock, is the `now_s` of every
// call. An action that is answered names the event that answers it. Their structs are in one header
// a seam, those of jobs in one a subject; a source includes only those whose fields it uses.
// Torture's hash and its moments of faults use the numbers.

#include <cstdint>
#include <optional>
#include <vector>

#include "core/ids.hpp"
#include "core/opaque_variant.hpp"

namespace swarmpi {

struct ApplyJob;
struct BackwardJob;
struct CopyWeightsJob;
struct DropJob;
struct ForwardJob;
struct GatherJob;
struct PlaceJob;
struct PlaceWeightsJob;
struct PrepareJob;
struct ReadJob;
struct ReduceJob;
struct ShareJob;
struct TryJob;
struct UpdateJob;
struct WriteJob;

struct JobKinds
    : KindTable<KindRow<0, ForwardJob>, KindRow<1, BackwardJob>, KindRow<2, ShareJob>,
                KindRow<3, ReduceJob>, KindRow<4, PlaceJob>, KindRow<5, GatherJob>,
                KindRow<6, ApplyJob>, KindRow<7, PrepareJob>, KindRow<8, ReadJob>,
                KindRow<9, WriteJob>, KindRow<10, DropJob>, KindRow<11, TryJob>,
                KindRow<12, UpdateJob>, KindRow<13, PlaceWeightsJob>, KindRow<14, CopyWeightsJob>> {
  static constexpr std::size_t kBytes = 136;
};
using Job = OpaqueVariant<JobKinds>;
extern template class OpaqueVariant<JobKinds>;
/// That it works on.
StageId stage_of(const Job& job);

struct ApplyResult;
struct BackwardResult;
struct DropResult;
struct ForwardResult;
struct GatherResult;
struct PlaceResult;
struct PlaceWeightsResult;
struct PrepareResult;
struct ReadResult;
struct ReduceResult;
struct ShareResult;
struct TryResult;
struct WeightsResult;
struct WriteResult;

struct JobResultKinds
    : KindTable<KindRow<0, ForwardResult>, KindRow<1, BackwardResult>, KindRow<2, ShareResult>,
                KindRow<3, ReduceResult>, KindRow<4, PlaceResult>, KindRow<5, GatherResult>,
                KindRow<6, ApplyResult>, KindRow<7, PrepareResult>, KindRow<8, ReadResult>,
                KindRow<9, WriteResult>, KindRow<10, DropResult>, KindRow<11, TryResult>,
                KindRow<12, WeightsResult>, KindRow<13, PlaceWeightsResult>> {
  static constexpr std::size_t kBytes = 112;
};
using JobResult = OpaqueVariant<JobResultKinds>;
extern template class OpaqueVariant<JobResultKinds>;

struct CheckpointDamaged;
struct CheckpointDropped;
struct CheckpointDurable;
struct CollectiveDone;
struct CollectiveFailed;
struct CollectiveIdMade;
struct CollectiveReady;
struct EndDurable;
struct JobFinished;
struct KillFailed;
struct ManifestLoaded;
struct MessageArrived;
struct PeerLost;
struct PeerSpawned;
struct ProbeStored;
struct RecordDurable;
struct SpawnFailed;
struct StageLoaded;
struct StageStored;
struct Started;
struct StopRequested;
struct StorageFailed;
struct TermCreated;
struct TermOver;
struct TimerDue;
struct WorkProbed;

struct EventKinds
    : KindTable<KindRow<0, Started>, KindRow<1, MessageArrived>, KindRow<2, JobFinished>,
                KindRow<3, PeerLost>, KindRow<4, KillFailed>, KindRow<5, TermCreated>,
                KindRow<6, RecordDurable>, KindRow<7, StageStored>, KindRow<8, CheckpointDurable>,
                KindRow<9, ManifestLoaded>, KindRow<10, StageLoaded>, KindRow<11, StorageFailed>,
                KindRow<12, TermOver>, KindRow<13, EndDurable>, KindRow<14, StopRequested>,
                KindRow<15, PeerSpawned>, KindRow<16, SpawnFailed>, KindRow<17, TimerDue>,
                KindRow<18, CheckpointDropped>, KindRow<19, CheckpointDamaged>,
                KindRow<20, ProbeStored>, KindRow<21, WorkProbed>, KindRow<22, CollectiveIdMade>,
                KindRow<23, CollectiveReady>, KindRow<24, CollectiveDone>,
                KindRow<25, CollectiveFailed>> {
  static constexpr std::size_t kBytes = 352;
};
using Event = OpaqueVariant<EventKinds>;
extern template class OpaqueVariant<EventKinds>;

struct AbandonLane;
struct AbortCollective;
struct CreateTerm;
struct EnterCollective;
struct Finish;
struct KillPeer;
struct LoadManifest;
struct LoadStage;
struct MakeCollective;
struct MakeCollectiveId;
struct ProbeWork;
struct Send;
struct SetTimer;
struct SpawnPeer;
struct StartJob;
struct StoreEnd;
struct StoreManifest;
struct StoreProbe;
struct StoreRecord;
struct StoreStage;

struct ActionKinds
    : KindTable<KindRow<0, Send>, KindRow<1, StartJob>, KindRow<2, KillPeer>, KindRow<3, SpawnPeer>,
                KindRow<4, CreateTerm>, KindRow<5, StoreRecord>, KindRow<6, StoreStage>,
                KindRow<7, StoreManifest>, KindRow<8, LoadManifest>, KindRow<9, LoadStage>,
                KindRow<10, StoreEnd>, KindRow<11, SetTimer>, KindRow<12, Finish>,
                KindRow<13, StoreProbe>, KindRow<14, AbandonLane>, KindRow<15, ProbeWork>,
                KindRow<16, MakeCollectiveId>, KindRow<17, MakeCollective>,
                KindRow<18, EnterCollective>, KindRow<19, AbortCollective>> {
  static constexpr std::size_t kBytes = 352;
};
using Action = OpaqueVariant<ActionKinds>;
extern template class OpaqueVariant<ActionKinds>;
using Actions = std::vector<Action>;

/// The two lanes of storage, each with calls of its own, one at a time: of whoever leads (terms,
/// rows, manifests, the end), and of stages.
enum class Lane : std::uint8_t { run, stages };
constexpr Lane last_of(Lane) { return Lane::stages; }
/// Which lane of storage an action is for, if it asks storage for an answer.
std::optional<Lane> lane_of(const Action& action);

// What jobs, events and actions contain.

struct LaneProgress;
struct MissedUpdate;
struct PartialState;

}  // namespace swarmpi
