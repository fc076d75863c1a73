#include "transport/wire.hpp"

#include <string>
#include <utility>

#include "core/check.hpp"
#include "transport/wire_archive.hpp"

// fields(archive, object) names every field once, for writing and reading alike. The structured
// bindings do not compile when a type has gained or lost a field.

namespace swarmpi::wire {

template <class Archive, class T>
void fields(Archive& archive, T& value) requires Number<std::remove_const_t<T>> {
  archive.number(value);
}

void fields(auto& archive, Is<bool> auto& value) {
  auto byte = static_cast<std::uint8_t>(value);
  archive.number(byte);
  if constexpr (std::decay_t<decltype(archive)>::kReading) {
    if (byte > 1) archive.refuse("a yes or no is neither");
    value = byte == 1;
  }
}

// Enumerators count from 0 to `last`.
template <class Enum>
void enumerator(auto& archive, auto& value, Enum last) {
  auto byte = static_cast<std::uint8_t>(value);
  archive.number(byte);
  if constexpr (std::decay_t<decltype(archive)>::kReading) {
    if (byte > static_cast<std::uint8_t>(last)) archive.refuse("a choice is out of range");
    value = static_cast<Enum>(byte);
  }
}
void fields(auto& archive, Is<Purpose> auto& value) {
  enumerator(archive, value, Purpose::validate);
}
void fields(auto& archive, Is<ExitStatus> auto& value) {
  enumerator(archive, value, ExitStatus::stopped);
}

template <class Archive, class Tag, class Value>
void fields(Archive& archive, const Id<Tag, Value>& id) {
  archive(id.value);
}
template <class Archive, class Tag, class Value>
void fields(Archive& archive, Id<Tag, Value>& id) {
  archive(id.value);
}

void fields(auto& archive, Is<PayloadRef> auto& payload) { archive.payload(payload); }

// How many elements follow. None is smaller than a byte: a count beyond what is left is a lie.
std::size_t count(Reader& archive) {
  std::uint64_t value = 0;
  archive.number(value);
  if (value > archive.remaining()) archive.refuse("a list is longer than the message");
  return archive.good() ? static_cast<std::size_t>(value) : 0;
}
template <class T>
void list(Writer& archive, const T& values) {
  archive.number(static_cast<std::uint64_t>(values.size()));
  for (const auto& value : values) archive(value);
}

void fields(Writer& archive, const std::string& text) { list(archive, text); }
void fields(Reader& archive, std::string& text) {
  text.resize(count(archive));
  for (char& character : text) archive(character);
}

template <class T>
void fields(Writer& archive, const std::vector<T>& values) {
  list(archive, values);
}
template <class T>
void fields(Reader& archive, std::vector<T>& values) {
  values.clear();
  for (std::size_t left = count(archive); left > 0 && archive.good(); --left) {
    archive(values.emplace_back());
  }
}

void fields(Writer& archive, const Bitmap& bitmap) {
  archive.number(bitmap.size());
  for (std::int64_t first = 0; first < bitmap.size(); first += 8) {
    unsigned byte = 0;
    for (int bit = 0; bit < 8; ++bit) byte |= bitmap.contains(first + bit) ? 1U << bit : 0U;
    archive.number(static_cast<std::uint8_t>(byte));
  }
}
void fields(Reader& archive, Bitmap& bitmap) {
  std::int64_t size = 0;
  archive.number(size);
  const auto bytes_left = static_cast<std::int64_t>(archive.remaining());
  if (size < 0 || size / 8 > bytes_left) archive.refuse("a set of microbatches is out of range");
  if (!archive.good()) return;
  bitmap = Bitmap(size);
  for (std::int64_t first = 0; first < size; first += 8) {
    std::uint8_t byte = 0;
    archive.number(byte);
    for (int bit = 0; bit < 8; ++bit) {
      if ((byte >> bit & 1) == 0) continue;
      if (first + bit < size) {
        bitmap.insert(first + bit);
      } else {
        archive.refuse("a set of microbatches goes on after its end");
      }
    }
  }
}

// ---- names

void fields(auto& archive, Is<MicrobatchId> auto& object) {
  auto& [step, purpose, index] = object;
  archive(step, purpose, index);
}
void fields(auto& archive, Is<WorkId> auto& object) {
  auto& [microbatch, stage] = object;
  archive(microbatch, stage);
}
void fields(auto& archive, Is<SealId> auto& object) {
  auto& [incarnation, term, number] = object;
  archive(incarnation, term, number);
}
void fields(auto& archive, Is<ViewNumber> auto& object) {
  auto& [term, number] = object;
  archive(term, number);
}

// ---- parts of messages

void fields(Writer& archive, const View& view) {
  const auto& [number, members] = view;
  archive(number);
  archive.number(static_cast<std::uint64_t>(members.size()));
  for (const auto& [peer, stages] : members) {
    archive(peer);
    list(archive, stages);
  }
}
void fields(Reader& archive, View& view) {
  auto& [number, members] = view;
  archive(number);
  members.clear();
  for (std::size_t left = count(archive); left > 0 && archive.good(); --left) {
    PeerId peer;
    std::vector<StageId> stages;
    archive(peer, stages);
    members[peer] = {stages.begin(), stages.end()};
  }
}
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
void fields(auto& archive, Is<SealShare> auto& object) {
  auto& [stage, peer, microbatches] = object;
  archive(stage, peer, microbatches);
}
void fields(auto& archive, Is<CommitRecord> auto& object) {
  auto& [step, seal, loss, tokens, grad_norm, clip, lr, correction1, correction2, skipped,
         applied_updates, skips_in_a_row, next_exponents, flagged] = object;
  archive(step, seal, loss, tokens, grad_norm, clip, lr, correction1, correction2, skipped,
          applied_updates, skips_in_a_row, next_exponents, flagged);
}
void fields(Writer& archive, const std::shared_ptr<const CommitRecord>& record) {
  SWARMPI_CHECK(record, "a commit without its record");
  archive(*record);
}
void fields(Reader& archive, std::shared_ptr<const CommitRecord>& record) {
  CommitRecord read;
  archive(read);
  record = std::make_shared<const CommitRecord>(std::move(read));
}
void fields(auto& archive, Is<StoredFile> auto& object) {
  auto& [name, hash, size_bytes] = object;
  archive(name, hash, size_bytes);
}

// ---- messages, in the order of messages.hpp

void fields(auto& archive, Is<ViewMessage> auto& message) {
  auto& [view] = message;
  archive(view);
}
void fields(auto& archive, Is<IssueMessage> auto& message) {
  auto& [microbatch, sent_s] = message;
  archive(microbatch, sent_s);
}
void fields(auto& archive, Is<ForwardMessage> auto& message) {
  auto& [work, activations, sent_s] = message;
  archive(work, activations, sent_s);
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
  auto& [seal, step, shares, skipped] = message;
  archive(seal, step, shares, skipped);
}
void fields(auto& archive, Is<SealAnswer> auto& message) {
  auto& [seal, stage, frozen, carried] = message;
  archive(seal, stage, frozen, carried);
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
  auto& [seal, stage, squares] = message;
  archive(seal, stage, squares);
}
void fields(auto& archive, Is<CommitMessage> auto& message) {
  auto& [record] = message;
  archive(record);
}
void fields(auto& archive, Is<CheckpointMessage> auto& message) {
  auto& [step, stage] = message;
  archive(step, stage);
}
void fields(auto& archive, Is<StageStoredMessage> auto& message) {
  auto& [step, stage, file, tensor_hashes] = message;
  archive(step, stage, file, tensor_hashes);
}
void fields(auto& archive, Is<NoticeMessage> auto& message) {
  auto& [why] = message;
  archive(why);
}
void fields(auto& archive, Is<FailureMessage> auto& message) {
  auto& [code, why] = message;
  archive(code, why);
}
void fields(auto&, Is<HeartbeatMessage> auto& message) { static_assert(sizeof(message) == 1); }
void fields(auto& archive, Is<EndMessage> auto& message) {
  auto& [code, why] = message;
  archive(code, why);
}
void fields(auto&, Is<EndHeard> auto& message) { static_assert(sizeof(message) == 1); }

// ---- the whole

void fields(Writer& archive, const MessageBody& body) {
  archive.number(static_cast<std::uint8_t>(body.index()));
  std::visit([&](const auto& message) { archive(message); }, body);
}
template <std::size_t... kIndices>
void read_body(Reader& archive, MessageBody& body, std::size_t kind,
               std::index_sequence<kIndices...>) {
  ((kind == kIndices ? archive(body.emplace<kIndices>()) : void()), ...);
}
void fields(Reader& archive, MessageBody& body) {
  constexpr std::size_t kKinds = std::variant_size_v<MessageBody>;
  std::uint8_t kind = 0;
  archive.number(kind);
  if (kind >= kKinds) archive.refuse("a kind of message that is not known");
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
  if (const char* fault = archive.fault()) {
    return Status::failed(std::string("a message that cannot be read: ") + fault);
  }
  return message;
}

}  // namespace swarmpi
