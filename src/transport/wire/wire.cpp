#include "transport/wire/wire.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/check.hpp"
#include "transport/wire/archive.hpp"
#include "transport/wire/fields.hpp"

// fields(archive, object) names every field once, for writing and reading alike. The structured
// bindings do not compile when a type has gained or lost a field.

namespace swarmpi::wire {

// ---- parts of messages

void fields(Writer& archive, const ViewRef& view) {
  archive(view->number, view->members(), view->learners(), view->leaving());
}
void fields(Reader& archive, ViewRef& view) {
  ViewNumber number;
  View::Roles members, learners, leaving;
  archive(number, members, learners, leaving);
  view = share({number, std::move(members), std::move(learners), std::move(leaving)});
}
void fields(auto& archive, Is<Path> auto& object) {
  auto& [planned_in, holders, last] = object;
  archive(planned_in, holders, last);
}
void fields(Writer& archive, const PathRef& path) { write_or_null(archive, path); }
void fields(Reader& archive, PathRef& path) { read_or_null(archive, path); }
void fields(auto& archive, Is<kernels::Contribution> auto& object) {
  auto& [exponent, nonfinite, overflow] = object;
  archive(exponent, nonfinite, overflow);
}
void fields(auto& archive, Is<ContributionFact> auto& object) {
  auto& [work, tensors] = object;
  archive(work, tensors);
}
void fields(auto& archive, Is<LossFact> auto& object) {
  auto& [microbatch, nats] = object;
  archive(microbatch, nats);
}
void fields(auto& archive, Is<HashFact> auto& object) {
  auto& [step, stage, tensors] = object;
  archive(step, stage, tensors);
}
void fields(auto& archive, Is<PeerRow> auto& object) {
  auto& [step, peer, stage, compute_s, idle_s, communication_s, recovery_s, repeated, queue,
         bytes_sent, bytes_received, microbatches] = object;
  archive(step, peer, stage, compute_s, idle_s, communication_s, recovery_s, repeated, queue,
          bytes_sent, bytes_received, microbatches);
}
void fields(auto& archive, Is<UseFact> auto& object) {
  auto& [row] = object;
  archive(row);
}
void fields(auto& archive, Is<StepFacts> auto& object) {
  auto& [loss_nats, validation_nats, measured, flagged] = object;
  archive(loss_nats, validation_nats, measured, flagged);
}
using FactsRef = std::shared_ptr<const StepFacts>;
void fields(Writer& archive, const FactsRef& facts) { write_or_null(archive, facts); }
void fields(Reader& archive, FactsRef& facts) { read_or_null(archive, facts); }
void fields(auto& archive, Is<SealShare> auto& object) {
  auto& [peer, microbatches] = object;
  archive(peer, microbatches);
}
void fields(auto& archive, Is<ChunkFact> auto& object) {
  auto& [chunk, from, to] = object;
  archive(chunk, from, to);
}
void fields(auto& archive, Is<StageSeal> auto& object) {
  auto& [stage, seal, replicas, shares, chunk_replicas, finished_chunks, learners] = object;
  archive(stage, seal, replicas, shares, chunk_replicas, finished_chunks, learners);
}
void fields(auto& archive, Is<CommitRecord> auto& object) {
  auto& [step, term, time_s, hash_before, loss, validation_loss, tokens, grad_norm, clip, lr,
         correction1, correction2, skipped, applied_updates, skips_in_a_row, next_exponents,
         exponents_between, flagged] = object;
  archive(step, term, time_s, hash_before, loss, validation_loss, tokens, grad_norm, clip, lr,
          correction1, correction2, skipped, applied_updates, skips_in_a_row, next_exponents,
          exponents_between, flagged);
}
void fields(Writer& archive, const CommitRef& record) {
  SWARMPI_CHECK(record, "a CommitMessage without its record");
  archive(*record);
}
void fields(Reader& archive, CommitRef& record) { record = read_shared<CommitRecord>(archive); }
void fields(auto& archive, Is<WorkRow> auto& object) {
  auto& [work, phase, sent_to, planned_in, last, path_broken, keeps_output, gives_gradient] =
      object;
  archive(work, phase, sent_to, planned_in, last, path_broken, keeps_output, gives_gradient);
}
void fields(auto& archive, Is<StageRow> auto& object) {
  auto& [step, stage, contributed, tensors, frozen, chunk_replicas, chunks] = object;
  archive(step, stage, contributed, tensors, frozen, chunk_replicas, chunks);
}
void fields(auto& archive, Is<FactsRow> auto& object) {
  auto& [step, facts] = object;
  archive(step, facts);
}
void fields(auto& archive, Is<StoredFile> auto& object) {
  auto& [name, hash, size_bytes] = object;
  archive(name, hash, size_bytes);
}
void fields(auto& archive, Is<ResumeState> auto& object) {
  auto& [step, applied_updates, skips_in_a_row, incarnation, exponents, state_hash, time_s] =
      object;
  archive(step, applied_updates, skips_in_a_row, incarnation, exponents, state_hash, time_s);
}
void fields(auto& archive, Is<RestartPoint> auto& object) {
  auto& [state, files] = object;
  archive(state, files);
}
using RestartRef = std::shared_ptr<const RestartPoint>;
void fields(Writer& archive, const RestartRef& checkpoint) { write_or_null(archive, checkpoint); }
void fields(Reader& archive, RestartRef& checkpoint) { read_or_null(archive, checkpoint); }

// ---- messages, in the order of messages.hpp

void fields(auto& archive, Is<ViewMessage> auto& message) {
  auto& [view, restart] = message;
  archive(view, restart);
}
void fields(auto& archive, Is<InquiryMessage> auto& message) {
  auto& [term] = message;
  archive(term);
}
void fields(auto& archive, Is<InquiryAnswer> auto& message) {
  auto& [term, view, restart] = message;
  archive(term, view, restart);
}
void fields(auto& archive, Is<IssueMessage> auto& message) {
  auto& [microbatch, sent_s, path] = message;
  archive(microbatch, sent_s, path);
}
void fields(auto& archive, Is<ForwardMessage> auto& message) {
  auto& [work, activations, sent_s, path] = message;
  archive(work, activations, sent_s, path);
}
void fields(auto& archive, Is<ResendMessage> auto& message) {
  auto& [work, path] = message;
  archive(work, path);
}
void fields(auto& archive, Is<RedirectMessage> auto& message) {
  auto& [work] = message;
  archive(work);
}
void fields(auto& archive, Is<UnableMessage> auto& message) {
  auto& [work] = message;
  archive(work);
}
void fields(auto& archive, Is<ForwardDone> auto& message) {
  auto& [work, queue_s, compute_s, sent_s] = message;
  archive(work, queue_s, compute_s, sent_s);
}
void fields(auto& archive, Is<BackwardMessage> auto& message) {
  auto& [work, gradient] = message;
  archive(work, gradient);
}
void fields(auto& archive, Is<ReportMessage> auto& message) {
  auto& [contributions, losses, hashes, uses] = message;
  archive(contributions, losses, hashes, uses);
}
void fields(auto& archive, Is<SealMessage> auto& message) {
  auto& [step, stages, skipped, facts] = message;
  archive(step, stages, skipped, facts);
}
void fields(auto& archive, Is<ReopenMessage> auto& message) {
  auto& [step, stage] = message;
  archive(step, stage);
}
void fields(auto& archive, Is<SealRefused> auto& message) {
  auto& [seal, step, stage, carried] = message;
  archive(seal, step, stage, carried);
}
void fields(auto& archive, Is<ShareMessage> auto& message) {
  auto& [seal, stage, chunk, sums] = message;
  archive(seal, stage, chunk, sums);
}
void fields(auto& archive, Is<ChunkMessage> auto& message) {
  auto& [seal, stage, chunk, squares, gradient] = message;
  archive(seal, stage, chunk, squares, gradient);
}
void fields(auto& archive, Is<ReducedMessage> auto& message) {
  auto& [step, stage, squares] = message;
  archive(step, stage, squares);
}
void fields(auto& archive, Is<CommitMessage> auto& message) {
  auto& [record, written, checkpointed] = message;
  archive(record, written, checkpointed);
}
void fields(auto& archive, Is<TableMessage> auto& message) {
  auto& [view, incarnation, commits, written, checkpointed, hashes, losses, facts, stages, works,
         reduced, learned, end] = message;
  archive(view, incarnation, commits, written, checkpointed, hashes, losses, facts, stages, works,
          reduced, learned, end);
}
void fields(auto& archive, Is<FetchMessage> auto& message) {
  auto& [stage, tensor, at_least] = message;
  archive(stage, tensor, at_least);
}
void fields(auto& archive, Is<TensorMessage> auto& message) {
  auto& [stage, tensor, step, state] = message;
  archive(stage, tensor, step, state);
}
void fields(auto& archive, Is<LearnedMessage> auto& message) {
  auto& [stage, step, tensors] = message;
  archive(stage, step, tensors);
}
void fields(auto& archive, Is<JoinMessage> auto& message) {
  auto& [peer] = message;
  archive(peer);
}
void fields(auto& archive, Is<CheckpointMessage> auto& message) {
  auto& [step, stage] = message;
  archive(step, stage);
}
void fields(auto& archive, Is<StageStoredMessage> auto& message) {
  auto& [step, stage, stored, file, tensor_hashes] = message;
  archive(step, stage, stored, file, tensor_hashes);
}
void fields(auto& archive, Is<NoticeMessage> auto& message) {
  auto& [why] = message;
  archive(why);
}
void fields(auto& archive, Is<FailureMessage> auto& message) {
  auto& [code, why] = message;
  archive(code, why);
}
void fields(auto& archive, Is<LostMessage> auto& message) {
  auto& [peer, left] = message;
  archive(peer, left);
}
void fields(auto&, Is<HeartbeatMessage> auto& message) { static_assert(sizeof(message) == 1); }
void fields(auto& archive, Is<PingMessage> auto& message) {
  auto& [sent_s] = message;
  archive(sent_s);
}
void fields(auto& archive, Is<PongMessage> auto& message) {
  auto& [sent_s] = message;
  archive(sent_s);
}
void fields(auto& archive, Is<SuspectMessage> auto& message) {
  auto& [peer] = message;
  archive(peer);
}
void fields(auto&, Is<ReleaseMessage> auto& message) { static_assert(sizeof(message) == 1); }
void fields(auto&, Is<FencedMessage> auto& message) { static_assert(sizeof(message) == 1); }
void fields(auto& archive, Is<EndMessage> auto& message) {
  auto& [code, why] = message;
  archive(code, why);
}
void fields(auto&, Is<EndHeard> auto& message) { static_assert(sizeof(message) == 1); }
void fields(auto&, Is<ExitMessage> auto& message) { static_assert(sizeof(message) == 1); }

// ---- the whole

void fields(Writer& archive, const MessageBody& body) {
  archive.number(static_cast<std::uint8_t>(body.index()));
  std::visit([&](const auto& message) { archive(message); }, body);
}
// The name of a type in this namespace, from the compiler's name of this function: "... M =
// swarmpi::ViewMessage; ..." or "... M = swarmpi::ViewMessage]".
template <class M>
std::string type_name() {
  const std::string_view function = __PRETTY_FUNCTION__;
  const std::size_t begin =
      function.find("M = swarmpi::") + std::string_view("M = swarmpi::").size();
  return std::string(function.substr(begin, function.find_first_of(";]", begin) - begin));
}
template <std::size_t kIndex>
void read_alternative(Reader& archive, MessageBody& body) {
  archive.begin(type_name<std::variant_alternative_t<kIndex, MessageBody>>());
  archive(body.emplace<kIndex>());
}
template <std::size_t... kIndices>
void read_body(Reader& archive, MessageBody& body, std::size_t kind,
               std::index_sequence<kIndices...>) {
  ((kind == kIndices ? read_alternative<kIndices>(archive, body) : void()), ...);
}
void fields(Reader& archive, MessageBody& body) {
  constexpr std::size_t kKinds = std::variant_size_v<MessageBody>;
  std::uint8_t kind = 0;
  archive.number(kind);
  if (kind >= kKinds) archive.refuse("kind of message", kind);
  if (archive.good()) read_body(archive, body, kind, std::make_index_sequence<kKinds>());
}
void fields(auto& archive, Is<Message> auto& object) {
  auto& [incarnation, view, body] = object;
  archive(incarnation, view, body);
}

}  // namespace swarmpi::wire

namespace swarmpi {

Packed pack(const Message& message) {
  wire::Writer archive;
  archive(message);
  return {archive.take_bytes(), archive.take_payload()};
}

Result<Message> unpack(std::span<const std::byte> header, PayloadRef payload) {
  wire::Reader archive(header, std::move(payload));
  Message message;
  archive(message);
  if (const std::string error = archive.error(); !error.empty()) {
    return Status::failed(error);
  }
  return message;
}

}  // namespace swarmpi
