#include "data/dataset.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "core/check.hpp"
#include "core/hash.hpp"
#include "core/random.hpp"
#include "data/permutation.hpp"
#include "data/token_stream.hpp"
#include "kernels/backend.hpp"

namespace swarmpi {
namespace {

/// Not train.seed: what is held out must not depend on it, or runs with two seeds could not be
/// compared.
constexpr std::uint64_t kHeldOutSeed = 0;

bool is_held_out(std::int64_t sequence, double fraction) {
  const std::uint64_t bits =
      random_bits(kHeldOutSeed, Stream::held_out, 0, static_cast<std::uint64_t>(sequence));
  return static_cast<double>(bits >> 11) * 0x1p-53 < fraction;
}

}  // namespace

struct Dataset::Impl {
  TokenStream stream;
  std::int64_t vocab = 0;
  std::string expected_hash;  // "" for any
  std::uint64_t seed = 0;
  std::int64_t context = 0;          // T
  std::int64_t microbatches = 0;     // M
  std::int64_t microbatch_size = 0;  // B
  std::vector<std::uint32_t> train, held_out;

  void split(std::int64_t sequences, double fraction);
  Status check_sizes(const Config& config) const;
  std::int64_t sequence_of(const MicrobatchId& id, std::int64_t row) const;
  /// Rows of this microbatch beyond the last held-out sequence have none.
  bool has_targets(const MicrobatchId& id, std::int64_t row) const {
    return id.purpose == Purpose::train ||
           id.index * microbatch_size + row < static_cast<std::int64_t>(held_out.size());
  }
};

void Dataset::Impl::split(std::int64_t sequences, double fraction) {
  for (std::int64_t i = 0; i < sequences; ++i) {
    (is_held_out(i, fraction) ? held_out : train).push_back(static_cast<std::uint32_t>(i));
  }
}

Status Dataset::Impl::check_sizes(const Config& config) const {
  const auto size = static_cast<std::size_t>(microbatch_size);
  const auto total = fmt::format(
      "{} tokens are {} sequences of model.context + 1 = {} tokens, of which "
      "data.validation_fraction = {:g} holds out {}",
      stream.tokens(), train.size() + held_out.size(), context + 1, config.data.validation_fraction,
      held_out.size());
  if (train.size() < size) {
    return Status::bad_input(
        fmt::format("data.paths: too short: {}; training needs at least "
                    "train.microbatch_size = {}",
                    total, size));
  }
  if (config.output.validate_every > 0 && held_out.empty()) {
    return Status::bad_input(
        fmt::format("data.validation_fraction: too small: {}; validation needs at least 1", total));
  }
  return {};
}

std::int64_t Dataset::Impl::sequence_of(const MicrobatchId& id, std::int64_t row) const {
  if (id.purpose == Purpose::validate) {
    const auto place = static_cast<std::size_t>(id.index * microbatch_size + row);
    return held_out[std::min(place, held_out.size() - 1)];
  }
  const std::int64_t step = std::max<std::int64_t>(id.step.value, 1);
  const std::int64_t number = ((step - 1) * microbatches + id.index) * microbatch_size + row;
  const auto size = static_cast<std::int64_t>(train.size());
  const Permutation order(train.size(), seed, static_cast<std::uint64_t>(number / size));
  return train[order(static_cast<std::uint64_t>(number % size))];
}

Dataset::Dataset(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Dataset::~Dataset() = default;
Dataset::Dataset(Dataset&&) noexcept = default;
Dataset& Dataset::operator=(Dataset&&) noexcept = default;

Result<Dataset> Dataset::open(const Config& config) {
  Result<TokenStream> stream = TokenStream::open(config.data);
  if (!stream.ok()) return stream.status();
  auto impl = std::make_unique<Impl>();
  impl->stream = std::move(stream).value();
  impl->vocab = config.model.vocab;
  impl->expected_hash = config.data.hash;
  impl->seed = config.train.seed;
  impl->context = config.model.context;
  impl->microbatches = config.train.microbatches;
  impl->microbatch_size = config.train.microbatch_size;

  // Sequence i needs tokens i*T .. i*T + T: the last one is the target of the last position.
  const std::int64_t sequences =
      std::max<std::int64_t>(impl->stream.tokens() - 1, 0) / impl->context;
  if (sequences > std::numeric_limits<std::uint32_t>::max()) {
    return Status::bad_input("data.paths: more than 2^32 sequences; use a larger model.context");
  }
  impl->split(sequences, config.data.validation_fraction);
  if (const Status status = impl->check_sizes(config); !status.ok()) return status;
  return Dataset(std::move(impl));
}

Result<std::uint64_t> Dataset::scan() const {
  const Result<std::uint64_t> hash = impl_->stream.scan(impl_->vocab);
  if (!hash.ok() || impl_->expected_hash.empty()) return hash;
  if (impl_->expected_hash == hex(hash.value())) return hash;
  return Status::bad_input("data.hash: the data has hash " + hex(hash.value()) +
                           ", but the deck asks for " + impl_->expected_hash);
}

std::string Dataset::identity() const { return impl_->stream.identity(); }

std::int64_t Dataset::tokens() const { return impl_->stream.tokens(); }
std::int64_t Dataset::train_sequences() const {
  return static_cast<std::int64_t>(impl_->train.size());
}
std::int64_t Dataset::validation_sequences() const {
  return static_cast<std::int64_t>(impl_->held_out.size());
}
std::int64_t Dataset::validation_microbatches() const {
  const std::int64_t size = impl_->microbatch_size;
  return (validation_sequences() + size - 1) / size;
}
std::int64_t Dataset::validation_tokens() const { return validation_sequences() * impl_->context; }

Status Dataset::microbatch(const MicrobatchId& id, std::span<std::int32_t> inputs,
                           std::span<std::int32_t> targets) const {
  const auto context = static_cast<std::size_t>(impl_->context);
  const auto size = static_cast<std::size_t>(impl_->microbatch_size);
  SWARMPI_CHECK(inputs.size() == size * context && targets.size() == size * context,
                "buffers of (microbatch_size, context) tokens");
  const std::int64_t count =
      id.purpose == Purpose::validate ? validation_microbatches() : impl_->microbatches;
  SWARMPI_CHECK(id.index >= 0 && id.index < count, "no such microbatch");
  for (std::size_t i = 0; i < size; ++i) {
    const auto row = static_cast<std::int64_t>(i);
    const std::int64_t first = impl_->sequence_of(id, row) * impl_->context;
    const auto targets_of_row = targets.subspan(i * context, context);
    Status status = impl_->stream.read(first, inputs.subspan(i * context, context));
    if (status.ok()) status = impl_->stream.read(first + 1, targets_of_row);
    if (!status.ok()) return status;
    if (!impl_->has_targets(id, row)) std::ranges::fill(targets_of_row, kernels::kNoTarget);
  }
  return {};
}

bool Dataset::can_be_read_anew() const { return impl_->stream.can_be_read_anew(); }

}  // namespace swarmpi
