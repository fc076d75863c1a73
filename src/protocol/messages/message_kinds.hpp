#pragma once
// The names and wire numbers of all messages. Their structs are in one header a subject; a source
// includes only those whose fields it uses.

#include <cstdint>
#include <map>
#include <memory>

#include "core/ids.hpp"
#include "core/opaque_variant.hpp"

namespace swarmpi {

struct AbleMessage;
struct AbstainMessage;
struct BackwardMessage;
struct CheckpointMessage;
struct ChunkMessage;
struct ChunkRefused;
struct CollectiveIdMessage;
struct CollectiveWord;
struct CommitMessage;
struct DamagedMessage;
struct EndHeard;
struct EndMessage;
struct EnterMessage;
struct ExitMessage;
struct FailureMessage;
struct FencedMessage;
struct FetchMessage;
struct ForwardDone;
struct ForwardMessage;
struct HeartbeatMessage;
struct InquiryAnswer;
struct InquiryMessage;
struct IssueMessage;
struct JoinMessage;
struct LateMessage;
struct LearnedMessage;
struct LostMessage;
struct NoRoomMessage;
struct NoticeMessage;
struct PieceMessage;
struct PingMessage;
struct PongMessage;
struct RatiosMessage;
struct RedirectMessage;
struct ReducedMessage;
struct ReleaseMessage;
struct ReopenMessage;
struct ReportMessage;
struct ResendMessage;
struct ResignMessage;
struct SealMessage;
struct SealRefused;
struct ShareMessage;
struct StageStoredMessage;
struct SuspectMessage;
struct TableMessage;
struct TriedMessage;
struct TryMessage;
struct UnableMessage;
struct ViewMessage;
struct WeightsMessage;
struct WeightsPlaced;
struct WholeViewRequest;

struct MessageKinds
    : KindTable<KindRow<0, ViewMessage>, KindRow<49, WholeViewRequest>, KindRow<1, InquiryMessage>,
                KindRow<2, InquiryAnswer>, KindRow<23, JoinMessage>, KindRow<3, IssueMessage>,
                KindRow<4, ForwardMessage>, KindRow<8, ForwardDone>, KindRow<9, BackwardMessage>,
                KindRow<5, ResendMessage>, KindRow<6, RedirectMessage>, KindRow<7, UnableMessage>,
                KindRow<10, ReportMessage>, KindRow<11, SealMessage>, KindRow<12, ReopenMessage>,
                KindRow<13, SealRefused>, KindRow<14, ShareMessage>, KindRow<15, ChunkMessage>,
                KindRow<16, ChunkRefused>, KindRow<17, ReducedMessage>,
                KindRow<50, CollectiveIdMessage>, KindRow<51, CollectiveWord>,
                KindRow<52, EnterMessage>, KindRow<18, CommitMessage>, KindRow<47, WeightsMessage>,
                KindRow<48, WeightsPlaced>, KindRow<20, FetchMessage>, KindRow<21, PieceMessage>,
                KindRow<44, RatiosMessage>, KindRow<22, LearnedMessage>, KindRow<45, NoRoomMessage>,
                KindRow<46, DamagedMessage>, KindRow<24, CheckpointMessage>,
                KindRow<25, StageStoredMessage>, KindRow<29, HeartbeatMessage>,
                KindRow<30, PingMessage>, KindRow<31, PongMessage>, KindRow<32, SuspectMessage>,
                KindRow<33, FencedMessage>, KindRow<28, LostMessage>, KindRow<34, LateMessage>,
                KindRow<35, TryMessage>, KindRow<36, TriedMessage>, KindRow<37, ResignMessage>,
                KindRow<38, AbstainMessage>, KindRow<43, AbleMessage>, KindRow<27, FailureMessage>,
                KindRow<26, NoticeMessage>, KindRow<39, ReleaseMessage>, KindRow<40, EndMessage>,
                KindRow<41, EndHeard>, KindRow<42, ExitMessage>, KindRow<19, TableMessage>> {
  static constexpr std::size_t kBytes = 312;
};

/// The content of any message.
using MessageBody = OpaqueVariant<MessageKinds>;
extern template class OpaqueVariant<MessageKinds>;

struct Message;

// What messages contain.

enum class CollectiveNews : std::uint8_t;
enum class Phase : std::uint8_t;
enum class Task : std::uint8_t;
struct ChunkOrder;
struct ContributionFact;
struct GradientFacts;
struct HashFact;
struct LoadFact;
struct LossFact;
struct Path;
struct StageRow;
struct StageSeal;
struct StepFacts;
struct UseFact;
struct WorkRow;

/// The tables of a round, by peer.
using Tables = std::map<PeerId, TableMessage>;
/// Null where the routers choose.
using PathRef = std::shared_ptr<const Path>;

}  // namespace swarmpi
