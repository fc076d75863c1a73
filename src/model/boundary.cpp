#include "model/boundary.hpp"

#include "core/check.hpp"
#include "model/stage_shape.hpp"
#include "model/tensors.hpp"

namespace swarmpi {
namespace {

std::optional<kernels::Coding> coding_of(Codec codec, double fp16_scale) {
  const auto coding = [&](kernels::Codec of_kernels) {
    return kernels::Coding{of_kernels, static_cast<float>(fp16_scale)};
  };
  switch (codec) {
    case Codec::none:
      return std::nullopt;
    case Codec::fp16:
      return coding(kernels::Codec::fp16);
    case Codec::bf16:
      return coding(kernels::Codec::bf16);
    case Codec::uniform8:
      return coding(kernels::Codec::uniform8);
    case Codec::blockwise8:
      return coding(kernels::Codec::blockwise8);
    case Codec::int4:
      break;
  }
  SWARMPI_CHECK(false, "a codec that the deck does not take for boundaries");
}

}  // namespace

std::size_t BoundaryFormat::size_bytes() const {
  const std::int64_t count = rows_ * columns_;
  return coding_ ? kernels::coded_bytes(coding_->codec, count)
                 : static_cast<std::size_t>(count) * sizeof(float);
}

void BoundaryFormat::write(kernels::Backend& backend, std::byte* to,
                           kernels::ConstMatrix from) const {
  SWARMPI_CHECK(to != nullptr && from.rows == rows_ && from.columns == columns_,
                "a boundary's matrix and room for it");
  if (coding_) return backend.encode(to, from, *coding_);
  backend.copy_out(reinterpret_cast<float*>(to), from);
}

void BoundaryFormat::read(kernels::Backend& backend, kernels::Matrix to,
                          const std::byte* from) const {
  SWARMPI_CHECK(from != nullptr && to.rows == rows_ && to.columns == columns_,
                "a boundary's matrix and room for it");
  if (coding_) return backend.decode(to, from, *coding_);
  backend.copy_in(to, reinterpret_cast<const float*>(from));
}

std::optional<kernels::Coding> activation_coding(const SwarmConfig& swarm) {
  return coding_of(swarm.compress_activations, swarm.fp16_scale);
}

std::optional<kernels::Coding> gradient_coding(const SwarmConfig& swarm) {
  return coding_of(swarm.compress_gradients, swarm.fp16_scale);
}

BoundaryBytes boundary_bytes(const Config& config) {
  const StageShape shape(config, {});
  return {static_cast<std::int64_t>(shape.activations_format().size_bytes()),
          static_cast<std::int64_t>(shape.gradients_format().size_bytes())};
}

}  // namespace swarmpi
