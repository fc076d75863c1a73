#include "model/stage_gradient.hpp"

#include <algorithm>
#include <numeric>

#include "core/check.hpp"
#include "core/hash.hpp"
#include "kernels/fixed_point.hpp"
#include "kernels/fixed_point_element.hpp"
#include "kernels/packed_sums.hpp"

namespace swarmpi {
namespace {

std::vector<Block> blocks_of(const StageTensors& tensors) {
  std::vector<std::int64_t> elements;
  for (std::size_t i = 0; i < tensors.size(); ++i) elements.push_back(tensors.info(i).count());
  return cut_into_blocks(elements);
}

std::vector<std::size_t> first_blocks_of(const std::vector<Block>& blocks, std::size_t tensors) {
  std::vector<std::size_t> first(tensors + 1);
  for (const Block& block : blocks) ++first[static_cast<std::size_t>(block.tensor) + 1];
  std::partial_sum(first.begin(), first.end(), first.begin());
  return first;
}

/// Of blocks one after another, wherever they lie.
std::uint64_t hash_on(std::uint64_t hash, const float* block, std::int64_t count) {
  return hash_bytes(block, static_cast<std::size_t>(count) * sizeof(float), hash);
}

std::int64_t count_of(const BlockRange& range) { return range.end - range.first; }

}  // namespace

StageGradient::StageGradient(const StageTensors& tensors, kernels::Backend& backend, int bits)
    : tensors_(tensors),
      backend_(backend),
      bits_(bits),
      blocks_(blocks_of(tensors)),
      first_blocks_(first_blocks_of(blocks_, tensors.size())),
      in_sums_(blocks_.size()),
      quanta_per_token_(tensors.size()),
      end_owned_(tensors.elements()),
      scratch_(backend.allocate(kScratchBytes)) {}

void StageGradient::own(const BlockRange& blocks) {
  clear();
  first_owned_ = end_owned_ = 0;
  if (blocks.first == blocks.end) return;
  const Block& last = blocks_[static_cast<std::size_t>(blocks.end - 1)];
  first_owned_ = element(blocks_[static_cast<std::size_t>(blocks.first)]);
  end_owned_ = element(last) + last.count;
}

std::span<const Block> StageGradient::within(const BlockRange& range) const {
  SWARMPI_CHECK(0 <= range.first && range.first <= range.end &&
                    range.end <= static_cast<std::int64_t>(blocks_.size()),
                "blocks of this stage");
  return std::span(blocks_).subspan(static_cast<std::size_t>(range.first),
                                    static_cast<std::size_t>(count_of(range)));
}

template <class Visit>
void StageGradient::for_each_block(const std::int64_t* sums, const BlockRange& range,
                                   std::span<const PartialSums> addends, const Visit& visit) {
  std::vector<kernels::SumsUnpacker> others;
  for (const PartialSums& addend : addends) {
    others.emplace_back(std::span(addend.sums->data(), addend.sums->size_bytes()), count_of(range));
  }
  std::size_t i = 0;
  for (const Block& block : within(range)) {
    const std::int64_t* values = sums + element(block);
    if (!others.empty()) {
      auto* const together = scratch_->as<std::int64_t>();
      std::copy_n(values, block.count, together);
      for (kernels::SumsUnpacker& other : others) other.add_to(together, block.count);
      values = together;
    }
    visit(i++, block, values);
  }
  for (const kernels::SumsUnpacker& other : others) other.finish();
}

// Adding up twice takes less than a place to keep the sums of many blocks would: what comes packed
// is short, and a block stays in the cache.
PayloadRef StageGradient::share(const std::int64_t* sums, const BlockRange& range,
                                std::span<const PartialSums> addends, PayloadPool& payloads) {
  std::vector<std::uint8_t> widths(static_cast<std::size_t>(count_of(range)));
  std::size_t size_bytes = kernels::packed_frame_bytes(count_of(range));
  for_each_block(sums, range, addends,
                 [&](std::size_t i, const Block& block, const std::int64_t* values) {
                   widths[i] = kernels::bits_in_use(values, block.count);
                   size_bytes += kernels::packed_block_bytes(block.count, widths[i]);
                 });
  const std::shared_ptr<Payload> payload = payloads.take(size_bytes);
  kernels::SumsPacker packer(std::span(payload->data(), payload->size_bytes()), widths);
  for_each_block(sums, range, addends,
                 [&](std::size_t, const Block& block, const std::int64_t* values) {
                   packer.add(values, block.count);
                 });
  packer.finish();
  return payload;
}

std::vector<double> StageGradient::reduce(const std::int64_t* sums, const BlockRange& range,
                                          std::span<const PartialSums> addends,
                                          const Exponents& exponents, std::int64_t tokens) {
  for (const Block& block : within(range)) {
    const auto place = static_cast<std::size_t>(block.tensor);
    const std::int16_t exponent = exponents[static_cast<std::size_t>(tensors_.info(place).id)];
    // Where no exponent is set nothing was ever added: the sums are zero.
    quanta_per_token_[place] = kernels::quantum_per_token(
        exponent == kernels::kNoExponent ? 0 : kernels::quantum_exponent(exponent, bits_), tokens);
  }
  if (addends.empty()) return keep_in_sums(sums, range);
  std::vector<double> squares(static_cast<std::size_t>(count_of(range)));
  for_each_block(sums, range, addends,
                 [&](std::size_t i, const Block& block, const std::int64_t* values) {
                   backend_.round_sums(room_at(element(block)), &squares[i], values, block.count,
                                       quanta_per_token_[static_cast<std::size_t>(block.tensor)]);
                   in_sums_[static_cast<std::size_t>(range.first) + i] = false;
                 });
  return squares;
}

std::vector<double> StageGradient::keep_in_sums(const std::int64_t* sums, const BlockRange& range) {
  std::vector<double> squares(static_cast<std::size_t>(count_of(range)));
  sums_ = sums;
  // Neighbouring blocks of a tensor at once: a backend may deal them to its threads.
  const std::span<const Block> blocks = within(range);
  for (std::size_t i = 0, end = 0; i < blocks.size(); i = end) {
    std::int64_t count = 0;
    for (end = i; end < blocks.size() && blocks[end].tensor == blocks[i].tensor; ++end) {
      count += blocks[end].count;
      in_sums_[static_cast<std::size_t>(range.first) + end] = true;
    }
    backend_.round_sums(nullptr, &squares[i], sums + element(blocks[i]), count,
                        quanta_per_token_[static_cast<std::size_t>(blocks[i].tensor)]);
  }
  return squares;
}

void StageGradient::round_own(const Block& block, float* gradient) const {
  double unused = 0;
  backend_.round_sums(gradient, &unused, sums_ + element(block), block.count,
                      quanta_per_token_[static_cast<std::size_t>(block.tensor)]);
}

float* StageGradient::room_at(std::int64_t element) {
  SWARMPI_CHECK(first_owned_ <= element && element < end_owned_, "an element there is room for");
  if (gradient_ == nullptr) {
    const auto elements = static_cast<std::size_t>(end_owned_ - first_owned_);
    gradient_ = backend_.allocate(elements * sizeof(float));
  }
  return gradient_->as<float>() + element - first_owned_;
}

kernels::ReducedGradient StageGradient::of(std::size_t place, std::int64_t first,
                                           std::int64_t count) {
  const std::int64_t offset = tensors_.offset(place) + first;
  const auto block_of = [&](std::int64_t element) {
    return first_blocks_[place] + static_cast<std::size_t>(element / kernels::kSumBlock);
  };
  const std::size_t begin = block_of(first), end = block_of(first + count - 1) + 1;
  const auto from = in_sums_.begin() + static_cast<std::ptrdiff_t>(begin);
  const auto to = in_sums_.begin() + static_cast<std::ptrdiff_t>(end);
  if (std::find(from, to, false) == to) {
    return {nullptr, sums_ + offset, quanta_per_token_[place]};
  }
  for (std::size_t i = begin; i < end; ++i) {
    if (in_sums_[i]) round_own(blocks_[i], room_at(element(blocks_[i])));
    in_sums_[i] = false;
  }
  return {room_at(offset), nullptr, 0};
}

std::uint64_t StageGradient::place(const BlockRange& range, const float* gradient) {
  auto i = static_cast<std::size_t>(range.first);
  std::uint64_t hash = 0;
  for (const Block& block : within(range)) {
    float* const in_place = room_at(element(block));
    std::copy_n(gradient, block.count, in_place);
    hash = hash_on(hash, in_place, block.count);
    gradient += block.count;
    in_sums_[i++] = false;
  }
  return hash;
}

std::uint64_t StageGradient::hash_of(const BlockRange& range, const float* gradient) const {
  std::uint64_t hash = 0;
  for (const Block& block : within(range)) {
    hash = hash_on(hash, gradient, block.count);
    gradient += block.count;
  }
  return hash;
}

std::uint64_t StageGradient::hash_in_place(const BlockRange& range) const {
  std::uint64_t hash = 0;
  for (const Block& block : within(range)) {
    hash = hash_on(hash, gradient_->as<float>() + element(block) - first_owned_, block.count);
  }
  return hash;
}

void StageGradient::copy_out(const BlockRange& range, float* gradient) const {
  auto i = static_cast<std::size_t>(range.first);
  for (const Block& block : within(range)) {
    if (in_sums_[i++]) {
      round_own(block, gradient);
    } else if (gradient_ == nullptr) {
      std::fill_n(gradient, block.count, 0.0f);
    } else {
      std::copy_n(gradient_->as<float>() + element(block) - first_owned_, block.count, gradient);
    }
    gradient += block.count;
  }
}

void StageGradient::clear() {
  std::fill(in_sums_.begin(), in_sums_.end(), false);
  gradient_.reset();
}

std::int64_t StageGradient::memory_bytes() const {
  return static_cast<std::int64_t>((gradient_ ? gradient_->size_bytes() : 0) +
                                   scratch_->size_bytes());
}

}  // namespace swarmpi
