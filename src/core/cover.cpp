#include "core/cover.hpp"

#include <array>

#include "core/hash.hpp"

namespace swarmpi {
namespace {

std::uint64_t key_of(const MicrobatchId& microbatch) {
  const std::array<std::int64_t, 2> words{microbatch.step.value, microbatch.index};
  return hash_bytes(words.data(), sizeof words);
}

}  // namespace

Cover Cover::of_step(Step step, std::int64_t microbatches) {
  Cover all;
  for (std::int32_t index = 0; index < microbatches; ++index) {
    all.add({step, Purpose::train, index});
  }
  return all;
}

void Cover::add(const MicrobatchId& microbatch) {
  ++microbatches;
  keys += key_of(microbatch);
}

Cover& Cover::operator+=(const Cover& other) {
  microbatches += other.microbatches;
  keys += other.keys;
  return *this;
}

Cover with_addends(Cover own, std::span<const PartialSums> addends) {
  for (const PartialSums& addend : addends) own += addend.cover;
  return own;
}

Cover CoverBook::with(StageId stage, Step step, std::span<const PartialSums> addends) const {
  const auto own = covers_.find({stage, step});
  return with_addends(own == covers_.end() ? Cover() : own->second, addends);
}

}  // namespace swarmpi
