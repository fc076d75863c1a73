#include "model/stage_gradient.hpp"

#include <algorithm>

#include "core/check.hpp"
#include "kernels/fixed_point.hpp"
#include "kernels/packed_sums.hpp"

namespace swarmpi {
namespace {

std::vector<Block> blocks_of(const StageTensors& tensors) {
  std::vector<std::int64_t> elements;
  for (std::size_t i = 0; i < tensors.size(); ++i) elements.push_back(tensors.info(i).count());
  return cut_into_blocks(elements);
}

std::int64_t count_of(const BlockRange& range) { return range.end - range.first; }

}  // namespace

StageGradient::StageGradient(const StageTensors& tensors, kernels::Backend& backend, int bits)
    : tensors_(tensors),
      backend_(backend),
      bits_(bits),
      blocks_(blocks_of(tensors)),
      gradient_(backend.allocate(static_cast<std::size_t>(tensors.elements()) * sizeof(float))),
      scratch_(backend.allocate(kScratchBytes)) {}

std::span<const Block> StageGradient::within(const BlockRange& range) const {
  SWARMPI_CHECK(0 <= range.first && range.first <= range.end &&
                    range.end <= static_cast<std::int64_t>(blocks_.size()),
                "blocks of this stage");
  return std::span(blocks_).subspan(static_cast<std::size_t>(range.first),
                                    static_cast<std::size_t>(count_of(range)));
}

template <class Visit>
void StageGradient::for_each_block(const std::int64_t* sums, const BlockRange& range,
                                   std::span<const PayloadRef> addends, const Visit& visit) {
  std::vector<kernels::SumsUnpacker> others;
  for (const PayloadRef& addend : addends) {
    others.emplace_back(std::span(addend->data(), addend->size_bytes()), count_of(range));
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
                                std::span<const PayloadRef> addends, PayloadPool& payloads) {
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
                                          std::span<const PayloadRef> addends,
                                          const Exponents& exponents, std::int64_t tokens) {
  std::vector<double> squares(static_cast<std::size_t>(count_of(range)));
  if (!addends.empty()) {
    for_each_block(sums, range, addends,
                   [&](std::size_t i, const Block& block, const std::int64_t* values) {
                     round(block, block.count, values, &squares[i], exponents, tokens);
                   });
    return squares;
  }
  // Neighbouring blocks of a tensor at once: a backend may deal them to its threads.
  const std::span<const Block> blocks = within(range);
  for (std::size_t i = 0, end = 0; i < blocks.size(); i = end) {
    std::int64_t count = 0;
    for (end = i; end < blocks.size() && blocks[end].tensor == blocks[i].tensor; ++end) {
      count += blocks[end].count;
    }
    round(blocks[i], count, sums + element(blocks[i]), &squares[i], exponents, tokens);
  }
  return squares;
}

void StageGradient::round(const Block& first, std::int64_t count, const std::int64_t* values,
                          double* squares, const Exponents& exponents, std::int64_t tokens) {
  float* const gradient = gradient_->as<float>() + element(first);
  const TensorInfo& info = tensors_.info(static_cast<std::size_t>(first.tensor));
  const std::int16_t exponent = exponents[static_cast<std::size_t>(info.id)];
  if (exponent == kernels::kNoExponent) {  // nothing was ever added
    backend_.zero(gradient, static_cast<std::size_t>(count) * sizeof(float));
    return;
  }
  backend_.round_sums(gradient, squares, values, count, kernels::quantum_exponent(exponent, bits_),
                      tokens);
}

void StageGradient::place(const BlockRange& range, const float* gradient) {
  for (const Block& block : within(range)) {
    std::copy_n(gradient, block.count, gradient_->as<float>() + element(block));
    gradient += block.count;
  }
}

void StageGradient::copy_out(const BlockRange& range, float* gradient) const {
  for (const Block& block : within(range)) {
    gradient = std::copy_n(data() + element(block), block.count, gradient);
  }
}

void StageGradient::clear() { backend_.zero(gradient_->data(), gradient_->size_bytes()); }

std::int64_t StageGradient::memory_bytes() const {
  return static_cast<std::int64_t>(gradient_->size_bytes() + scratch_->size_bytes());
}

}  // namespace swarmpi
