#pragma once
// What crosses the cuts between stages: a matrix (R, W) of activations on the way forward, one of
// their gradients on the way back, each coded as the deck says; W = C where nothing narrows it. The
// job that makes a matrix writes it in this format, the job that reads it decodes it, wherever both
// run: whether a boundary lies between peers or inside one changes no bit.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "config/config.hpp"
#include "kernels/backend.hpp"

namespace swarmpi {

/// How a matrix (rows, columns) crosses a cut, in one direction.
class BoundaryFormat {
 public:
  /// Without a coding: fp32, dense.
  BoundaryFormat(std::int64_t rows, std::int64_t columns, std::optional<kernels::Coding> coding)
      : rows_(rows), columns_(columns), coding_(coding) {}

  std::size_t size_bytes() const;
  // `to` and `from` lie on the host.
  /// `to` takes size_bytes(), which are there after the backend's finish().
  void write(kernels::Backend& backend, std::byte* to, kernels::ConstMatrix from) const;
  void read(kernels::Backend& backend, kernels::Matrix to, const std::byte* from) const;

 private:
  std::int64_t rows_;
  std::int64_t columns_;
  std::optional<kernels::Coding> coding_;
};

/// The coding of activations or of their gradients, by the deck; none: fp32.
std::optional<kernels::Coding> activation_coding(const SwarmConfig& swarm);
std::optional<kernels::Coding> gradient_coding(const SwarmConfig& swarm);

/// What crosses a cut for one microbatch.
struct BoundaryBytes {
  std::int64_t activations = 0;
  std::int64_t gradients = 0;

  std::int64_t both() const { return activations + gradients; }
};
BoundaryBytes boundary_bytes(const Config& config);

}  // namespace swarmpi
