#include "data/dataset.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <ranges>
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

constexpr char kPaths[] = "data.paths", kValidationPaths[] = "data.validation_paths";

bool is_held_out(std::int64_t sequence, double fraction) {
  const std::uint64_t bits =
      random_bits(kHeldOutSeed, Stream::held_out, 0, static_cast<std::uint64_t>(sequence));
  return static_cast<double>(bits >> 11) * 0x1p-53 < fraction;
}

}  // namespace

struct Dataset::Impl {
  explicit Impl(const Config& config)
      : vocab(config.model.vocab),
        expected_hash(config.data.hash),
        seed(config.train.seed),
        context(config.model.context),
        microbatches(config.train.microbatches),
        microbatch_size(config.train.microbatch_size) {}

  TokenStream stream;                     // of data.paths; empty where nothing is to be trained on
  std::optional<TokenStream> validation;  // of data.validation_paths, where these are given
  std::int64_t vocab;
  std::string expected_hash;  // "" for any
  std::uint64_t seed;
  std::int64_t context;                 // T
  std::int64_t microbatches;            // M
  std::int64_t microbatch_size;         // B
  std::uint32_t sequences = 0;          // that `stream` is cut into
  std::vector<std::uint32_t> held_out;  // of these, rising; none where `validation` is given
  std::uint32_t validation_sequences = 0;

  /// How many sequences a stream is cut into.
  Result<std::uint32_t> sequences_of(const TokenStream& tokens, const std::string& key) const;
  Status open_train(const Config& config);
  Status open_validation(const Config& config, const std::vector<std::string>& paths,
                         const std::string& key);
  Status check_sizes(const Config& config) const;
  Result<std::uint64_t> hash() const;
  /// Errors: stopped, where one is not below `vocab`.
  Status check_tokens(const TokenStream& of, std::span<const std::int32_t> inputs,
                      std::span<const std::int32_t> targets) const;
  std::int64_t sequence_of(const MicrobatchId& id, std::int64_t row) const;
  const TokenStream& stream_of(Purpose purpose) const {
    return purpose == Purpose::validate && validation ? *validation : stream;
  }
  /// Rows of this microbatch beyond the last held-out sequence have none.
  bool has_targets(const MicrobatchId& id, std::int64_t row) const {
    return id.purpose == Purpose::train ||
           id.index * microbatch_size + row < std::int64_t{validation_sequences};
  }
  std::int64_t train_sequences() const { return std::int64_t{sequences} - std::ssize(held_out); }
  /// The sequence of the stream with this number among those that are not held out.
  std::int64_t train_sequence(std::int64_t number) const;
};

Result<std::uint32_t> Dataset::Impl::sequences_of(const TokenStream& tokens,
                                                  const std::string& key) const {
  // Sequence i needs tokens i*T .. i*T + T: the last one is the target of the last position.
  const std::int64_t count = std::max<std::int64_t>(tokens.tokens() - 1, 0) / context;
  if (count <= std::numeric_limits<std::uint32_t>::max()) return static_cast<std::uint32_t>(count);
  return Status::bad_input(key + ": more than 2^32 sequences; use a larger model.context");
}

Status Dataset::Impl::open_train(const Config& config) {
  Result<TokenStream> opened = TokenStream::open(kPaths, config.data.paths, config.data.format);
  if (!opened.ok()) return opened.status();
  stream = std::move(opened).value();
  const Result<std::uint32_t> cut = sequences_of(stream, kPaths);
  if (!cut.ok()) return cut.status();
  sequences = cut.value();
  if (!validation && config.data.validation_fraction > 0) {
    for (std::uint32_t i = 0; i < sequences; ++i) {
      if (is_held_out(i, config.data.validation_fraction)) held_out.push_back(i);
    }
    held_out.shrink_to_fit();
    validation_sequences = static_cast<std::uint32_t>(held_out.size());
  }
  return check_sizes(config);
}

Status Dataset::Impl::open_validation(const Config& config, const std::vector<std::string>& paths,
                                      const std::string& key) {
  Result<TokenStream> opened = TokenStream::open(key, paths, config.data.format);
  if (!opened.ok()) return opened.status();
  validation = std::move(opened).value();
  const Result<std::uint32_t> cut = sequences_of(*validation, key);
  if (!cut.ok()) return cut.status();
  validation_sequences = cut.value();
  if (validation_sequences == 0) {
    return Status::bad_input(
        fmt::format("{}: too short: {} tokens; a sequence has model.context + 1 = {}", key,
                    validation->tokens(), context + 1));
  }
  return {};
}

Status Dataset::Impl::check_sizes(const Config& config) const {
  auto total = fmt::format("{} tokens are {} sequences of model.context + 1 = {} tokens",
                           stream.tokens(), sequences, context + 1);
  if (!validation) {
    total += fmt::format(", of which data.validation_fraction = {:g} holds out {}",
                         config.data.validation_fraction, held_out.size());
  }
  if (train_sequences() < microbatch_size) {
    return Status::bad_input(
        fmt::format("data.paths: too short: {}; training needs at least "
                    "train.microbatch_size = {}",
                    total, microbatch_size));
  }
  if (config.output.validate_every > 0 && validation_sequences == 0) {
    return Status::bad_input(
        fmt::format("data.validation_fraction: too small: {}; validation needs at least 1", total));
  }
  return {};
}

Result<std::uint64_t> Dataset::Impl::hash() const {
  if (!validation) return stream.scan(vocab);
  const Result<std::uint64_t> of_held_out = validation->scan(vocab);
  if (!of_held_out.ok() || stream.tokens() == 0) return of_held_out;
  const Result<std::uint64_t> of_train = stream.scan(vocab);
  if (!of_train.ok()) return of_train;
  const std::uint64_t both[] = {of_train.value(), of_held_out.value()};
  return hash_bytes(both, sizeof both);
}

std::int64_t Dataset::Impl::sequence_of(const MicrobatchId& id, std::int64_t row) const {
  if (id.purpose == Purpose::validate) {
    const std::int64_t place =
        std::min(id.index * microbatch_size + row, std::int64_t{validation_sequences} - 1);
    return validation ? place : std::int64_t{held_out[static_cast<std::size_t>(place)]};
  }
  const std::int64_t step = std::max<std::int64_t>(id.step.value, 1);
  const std::int64_t number = ((step - 1) * microbatches + id.index) * microbatch_size + row;
  const std::int64_t size = train_sequences();
  const Permutation order(static_cast<std::uint64_t>(size), seed,
                          static_cast<std::uint64_t>(number / size));
  return train_sequence(
      static_cast<std::int64_t>(order(static_cast<std::uint64_t>(number % size))));
}

// Before the i-th that is held out, held_out[i] - i are not.
std::int64_t Dataset::Impl::train_sequence(std::int64_t number) const {
  const std::ranges::iota_view places(std::int64_t{0}, std::ssize(held_out));
  const auto behind = std::ranges::partition_point(places, [&](std::int64_t i) {
    return std::int64_t{held_out[static_cast<std::size_t>(i)]} - i <= number;
  });
  return number + (behind - places.begin());
}

// scan() has seen that all are, but a file may be written to in a way that its time does not tell.
Status Dataset::Impl::check_tokens(const TokenStream& of, std::span<const std::int32_t> inputs,
                                   std::span<const std::int32_t> targets) const {
  for (const auto tokens : {inputs, targets}) {
    for (const std::int32_t token : tokens) {
      if (token >= 0 && token < vocab) continue;
      return Status::stopped(fmt::format(
          "{}: changed since the run began: token {} is not below model.vocab = {}; restore the "
          "files, then resume",
          of.key(), token, vocab));
    }
  }
  return {};
}

Dataset::Dataset(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Dataset::~Dataset() = default;
Dataset::Dataset(Dataset&&) noexcept = default;
Dataset& Dataset::operator=(Dataset&&) noexcept = default;

Result<Dataset> Dataset::open(const Config& config) {
  auto impl = std::make_unique<Impl>(config);
  if (const auto& paths = config.data.validation_paths; !paths.empty()) {
    if (Status status = impl->open_validation(config, paths, kValidationPaths); !status.ok()) {
      return status;
    }
  }
  if (Status status = impl->open_train(config); !status.ok()) return status;
  return Dataset(std::move(impl));
}

Result<Dataset> Dataset::open_held_out(const Config& config, const std::vector<std::string>& paths,
                                       const std::string& key) {
  auto impl = std::make_unique<Impl>(config);
  if (Status status = impl->open_validation(config, paths, key); !status.ok()) return status;
  return Dataset(std::move(impl));
}

Result<std::uint64_t> Dataset::scan() const {
  const Result<std::uint64_t> hash = impl_->hash();
  if (!hash.ok() || impl_->expected_hash.empty()) return hash;
  if (impl_->expected_hash == hex(hash.value())) return hash;
  return Status::bad_input("data.hash: the data has hash " + hex(hash.value()) +
                           ", but the deck asks for " + impl_->expected_hash);
}

std::vector<std::string> Dataset::warnings() const {
  std::vector<std::string> lines = impl_->stream.warnings();
  if (!impl_->validation) return lines;
  for (std::vector<std::string> more :
       {impl_->validation->warnings(),
        impl_->validation->warnings_of_shared_files(impl_->stream)}) {
    lines.insert(lines.end(), more.begin(), more.end());
  }
  return lines;
}

std::string Dataset::identity() const {
  const std::string own = impl_->stream.identity();
  if (!impl_->validation || own.empty()) return own;
  const std::string of_validation = impl_->validation->identity();
  return of_validation.empty() ? "" : own + "/" + of_validation;
}

std::int64_t Dataset::tokens() const { return impl_->stream.tokens(); }
std::int64_t Dataset::train_sequences() const { return impl_->train_sequences(); }
std::int64_t Dataset::validation_sequences() const { return impl_->validation_sequences; }
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
  SWARMPI_CHECK(id.purpose == Purpose::validate || impl_->train_sequences() > 0,
                "data to train on");
  for (std::size_t i = 0; i < size; ++i) {
    const auto row = static_cast<std::int64_t>(i);
    const std::int64_t first = impl_->sequence_of(id, row) * impl_->context;
    const auto targets_of_row = targets.subspan(i * context, context);
    const TokenStream& stream = impl_->stream_of(id.purpose);
    Status status = stream.read(first, inputs.subspan(i * context, context));
    if (status.ok()) status = stream.read(first + 1, targets_of_row);
    if (!status.ok()) return status;
    if (const Status known =
            impl_->check_tokens(stream, inputs.subspan(i * context, context), targets_of_row);
        !known.ok()) {
      return known;
    }
    if (!impl_->has_targets(id, row)) std::ranges::fill(targets_of_row, kernels::kNoTarget);
  }
  return {};
}

bool Dataset::can_be_read_anew() const {
  return impl_->stream.can_be_read_anew() &&
         (!impl_->validation || impl_->validation->can_be_read_anew());
}

}  // namespace swarmpi
