#include "model/stage_gradient.hpp"

#include <algorithm>
#include <numeric>

#include "core/check.hpp"
#include "core/hash.hpp"
#include "kernels/block_sum.hpp"
#include "kernels/fixed_point.hpp"
#include "kernels/fixed_point_element.hpp"
#include "kernels/packed_sums.hpp"

namespace swarmpi {
namespace {

std::vector<Block> tensor_blocks(const StageTensors& tensors) {
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

/// What the host reads at a time of the backend's memory.
constexpr std::int64_t kStripElements = std::int64_t{1} << 17;

std::size_t bytes_of_floats(std::int64_t count) {
  return static_cast<std::size_t>(count) * sizeof(float);
}
std::size_t bytes_of_sums(std::int64_t count) {
  return static_cast<std::size_t>(count) * sizeof(std::int64_t);
}

std::vector<kernels::SumsUnpacker> unpackers(std::span<const PartialSums> addends,
                                             std::int64_t blocks) {
  std::vector<kernels::SumsUnpacker> list;
  for (const PartialSums& addend : addends) {
    list.emplace_back(std::span(addend.sums->data(), addend.sums->size_bytes()), blocks);
  }
  return list;
}

void finish(const std::vector<kernels::SumsUnpacker>& unpackers) {
  for (const kernels::SumsUnpacker& unpacker : unpackers) unpacker.finish();
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
      blocks_(tensor_blocks(tensors)),
      first_blocks_(first_blocks_of(blocks_, tensors.size())),
      in_sums_(blocks_.size()),
      quanta_per_token_(tensors.size()),
      unused_squares_(blocks_.size()),
      end_owned_(tensors.elements()),
      scratch_(backend.allocate(static_cast<std::size_t>(scratch_bytes(tensors)))) {}

std::int64_t StageGradient::scratch_bytes(const StageTensors& tensors) {
  return std::min(kStripElements, tensors.elements()) *
         static_cast<std::int64_t>(sizeof(std::int64_t));
}

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

template <class Together>
std::vector<BlockRange> StageGradient::cut(const BlockRange& range,
                                           const Together& together) const {
  std::vector<BlockRange> parts;
  std::int64_t number = range.first;
  for (const Block& block : within(range)) {
    const bool joins =
        !parts.empty() &&
        element(block) + block.count - first_element(parts.back()) <= kStripElements &&
        together(static_cast<std::size_t>(number - 1), static_cast<std::size_t>(number));
    if (!joins) parts.push_back({number, number});
    parts.back().end = ++number;
  }
  return parts;
}

std::vector<BlockRange> StageGradient::strips_of(const BlockRange& range) const {
  return cut(range, [](std::size_t, std::size_t) { return true; });
}

std::vector<BlockRange> StageGradient::runs_of(const BlockRange& range) const {
  return cut(range, [this](std::size_t a, std::size_t b) {
    return blocks_[a].tensor == blocks_[b].tensor && in_sums_[a] == in_sums_[b];
  });
}

std::int64_t StageGradient::first_element(const BlockRange& range) const {
  return element(blocks_[static_cast<std::size_t>(range.first)]);
}

std::int64_t StageGradient::elements(const BlockRange& range) const {
  const Block& last = blocks_[static_cast<std::size_t>(range.end - 1)];
  return element(last) + last.count - first_element(range);
}

void* StageGradient::host_room() const {
  if (host_room_ == nullptr) {
    host_room_ = backend_.allocate_host(static_cast<std::size_t>(scratch_bytes(tensors_)));
  }
  return host_room_.get();
}

void StageGradient::set_in_sums(const BlockRange& range, bool in_sums) {
  std::fill(in_sums_.begin() + range.first, in_sums_.begin() + range.end, in_sums);
}

double StageGradient::quantum_per_token(const BlockRange& run) const {
  const Block& block = blocks_[static_cast<std::size_t>(run.first)];
  return quanta_per_token_[static_cast<std::size_t>(block.tensor)];
}

template <class Visit>
void StageGradient::for_each_block(const std::int64_t* sums, const BlockRange& range,
                                   std::span<const PartialSums> addends, const Visit& visit) {
  std::vector<kernels::SumsUnpacker> others = unpackers(addends, count_of(range));
  std::vector<std::int64_t> together(others.empty() ? 0 : kernels::kSumBlock);
  std::size_t i = 0;
  for (const BlockRange& strip : strips_of(range)) {
    const std::int64_t first = first_element(strip);
    const auto* const own = static_cast<const std::int64_t*>(
        backend_.host_view(sums + first, bytes_of_sums(elements(strip)), host_room()));
    for (const Block& block : within(strip)) {
      const std::int64_t* values = own + (element(block) - first);
      for (kernels::SumsUnpacker& other : others) {
        other.add(together.data(), values, block.count);
        values = together.data();
      }
      visit(i++, block, values);
    }
  }
  finish(others);
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
  set_quanta(range, exponents, tokens);
  return addends.empty() ? keep_in_sums(sums, range) : add_and_round(sums, range, addends);
}

std::vector<double> StageGradient::round(const std::int64_t* sums, const BlockRange& range,
                                         const Exponents& exponents, std::int64_t tokens) {
  set_quanta(range, exponents, tokens);
  return round_tensors(sums, range, false);
}

void StageGradient::set_quanta(const BlockRange& range, const Exponents& exponents,
                               std::int64_t tokens) {
  for (const Block& block : within(range)) {
    const auto place = static_cast<std::size_t>(block.tensor);
    const std::int16_t exponent = exponents[static_cast<std::size_t>(tensors_.info(place).id)];
    // Where no exponent is set nothing was ever added: the sums are zero.
    quanta_per_token_[place] = kernels::quantum_per_token(
        exponent == kernels::kNoExponent ? 0 : kernels::quantum_exponent(exponent, bits_), tokens);
  }
}

std::vector<double> StageGradient::add_and_round(const std::int64_t* sums, const BlockRange& range,
                                                 std::span<const PartialSums> addends) {
  std::vector<double> squares(static_cast<std::size_t>(count_of(range)));
  std::vector<kernels::SumsUnpacker> others = unpackers(addends, count_of(range));
  for (const BlockRange& strip : strips_of(range)) {
    const std::int64_t first = first_element(strip);
    const std::size_t size_bytes = bytes_of_sums(elements(strip));
    auto* const together =
        static_cast<std::int64_t*>(backend_.host_place(scratch_->data(), host_room()));
    const auto* const own =
        static_cast<const std::int64_t*>(backend_.host_view(sums + first, size_bytes, host_room()));
    for (const Block& block : within(strip)) {
      const std::int64_t at = element(block) - first;
      const std::int64_t* values = own + at;
      for (kernels::SumsUnpacker& other : others) {
        other.add(together + at, values, block.count);
        values = together + at;
      }
    }
    backend_.upload(scratch_->data(), together, size_bytes);
    for (const BlockRange& run : runs_of(strip)) {
      const std::int64_t begin = first_element(run);
      backend_.round_sums(
          room_at(begin), &squares[static_cast<std::size_t>(run.first - range.first)],
          scratch_->as<std::int64_t>() + (begin - first), elements(run), quantum_per_token(run));
    }
    set_in_sums(strip, false);
  }
  finish(others);
  backend_.finish();
  return squares;
}

std::vector<double> StageGradient::keep_in_sums(const std::int64_t* sums, const BlockRange& range) {
  sums_ = sums;
  return round_tensors(sums, range, true);
}

std::vector<double> StageGradient::round_tensors(const std::int64_t* sums, const BlockRange& range,
                                                 bool keeps) {
  std::vector<double> squares(static_cast<std::size_t>(count_of(range)));
  // Neighbouring blocks of a tensor at once: a backend may deal them to its threads.
  const std::span<const Block> blocks = within(range);
  for (std::size_t i = 0, end = 0; i < blocks.size(); i = end) {
    std::int64_t count = 0;
    for (end = i; end < blocks.size() && blocks[end].tensor == blocks[i].tensor; ++end) {
      count += blocks[end].count;
    }
    const std::int64_t first = element(blocks[i]);
    backend_.round_sums(keeps ? nullptr : room_at(first), &squares[i], sums + first, count,
                        quanta_per_token_[static_cast<std::size_t>(blocks[i].tensor)]);
  }
  set_in_sums(range, keeps);
  backend_.finish();
  return squares;
}

void StageGradient::round_own(const BlockRange& run, float* gradient) const {
  backend_.round_sums(gradient, &unused_squares_[static_cast<std::size_t>(run.first)],
                      sums_ + first_element(run), elements(run), quantum_per_token(run));
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
  const BlockRange blocks{static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end)};
  for (const BlockRange& run : runs_of(blocks)) {
    if (in_sums_[static_cast<std::size_t>(run.first)]) round_own(run, room_at(first_element(run)));
  }
  set_in_sums(blocks, false);
  return {room_at(offset), nullptr, 0};
}

std::uint64_t StageGradient::place(const BlockRange& range, const float* gradient) {
  std::uint64_t hash = 0;
  for (const BlockRange& strip : strips_of(range)) {
    for (const BlockRange& run : runs_of(strip)) {
      const std::int64_t count = elements(run);
      backend_.upload(room_at(first_element(run)), gradient, bytes_of_floats(count));
      gradient += count;
    }
    hash = hash_strip(hash, strip);
    set_in_sums(strip, false);
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
  for (const BlockRange& strip : strips_of(range)) hash = hash_strip(hash, strip);
  return hash;
}

std::uint64_t StageGradient::hash_strip(std::uint64_t hash, const BlockRange& strip) const {
  const std::int64_t first = first_element(strip);
  const auto* const values =
      static_cast<const float*>(backend_.host_view(gradient_->as<float>() + first - first_owned_,
                                                   bytes_of_floats(elements(strip)), host_room()));
  for (const Block& block : within(strip)) {
    hash = hash_on(hash, values + (element(block) - first), block.count);
  }
  return hash;
}

void StageGradient::copy_out(const BlockRange& range, float* gradient) const {
  for (const BlockRange& run : runs_of(range)) {
    const std::int64_t count = elements(run);
    if (in_sums_[static_cast<std::size_t>(run.first)]) {
      round_own(run, scratch_->as<float>());
      backend_.download(gradient, scratch_->data(), bytes_of_floats(count));
    } else if (gradient_ == nullptr) {
      std::fill_n(gradient, count, 0.0f);
    } else {
      backend_.download(gradient, gradient_->as<float>() + first_element(run) - first_owned_,
                        bytes_of_floats(count));
    }
    gradient += count;
  }
  backend_.finish();
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
