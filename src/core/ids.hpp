#pragma once
// The numbers that name things. Each is a type of its own, so that a stage is never taken for a
// peer.

#include <compare>
#include <cstdint>
#include <functional>
#include <ostream>

#include "core/field_list.hpp"

namespace swarmpi {

template <class Tag, class Value>
struct Id {
  Value value{};

  constexpr Id() = default;
  constexpr explicit Id(Value v) : value(v) {}
  constexpr auto operator<=>(const Id&) const = default;
  constexpr Id next() const { return Id(value + 1); }

  friend std::ostream& operator<<(std::ostream& out, const Id& id) { return out << +id.value; }
};

/// A process of the swarm; never used again after its death.
using PeerId = Id<struct PeerTag, std::int32_t>;
/// A pipeline stage, 0 .. stages-1.
using StageId = Id<struct StageTag, std::int32_t>;
/// An optimizer step. Step 0 measures the exponents of step 1 and changes nothing.
using Step = Id<struct StepTag, std::int64_t>;
/// One leadership; numbers go on over resumes.
using Term = Id<struct TermTag, std::int64_t>;
/// One history: grows when the run falls back to a checkpoint. Older messages are dropped.
using Incarnation = Id<struct IncarnationTag, std::int64_t>;

/// What a microbatch is for. Validation has no backward pass and adds no gradient.
enum class Purpose : std::uint8_t { train, validate };
constexpr Purpose last_of(Purpose) { return Purpose::validate; }

/// One microbatch of one step, whose content follows from these three numbers and the seed alone.
struct MicrobatchId {
  Step step;
  Purpose purpose = Purpose::train;
  std::int32_t index = 0;

  auto operator<=>(const MicrobatchId&) const = default;
};
SWARMPI_FIELDS(MicrobatchId, step, purpose, index);

/// A microbatch in a stage: the key of every action of the protocol.
struct WorkId {
  MicrobatchId microbatch;
  StageId stage;

  auto operator<=>(const WorkId&) const = default;
};
SWARMPI_FIELDS(WorkId, microbatch, stage);

/// Names one seal for ever, over leaders and fallbacks.
struct SealId {
  Incarnation incarnation;
  Term term;
  std::int64_t number = 0;

  auto operator<=>(const SealId&) const = default;
};
SWARMPI_FIELDS(SealId, incarnation, term, number);

}  // namespace swarmpi

template <class Tag, class Value>
struct std::hash<swarmpi::Id<Tag, Value>> {
  std::size_t operator()(const swarmpi::Id<Tag, Value>& id) const noexcept {
    return std::hash<Value>{}(id.value);
  }
};
