#pragma once
// A weight matrix as products read it: the master itself in fp32, a rounded copy in bf16.

#include <cstdint>
#include <memory>

#include "kernels/backend.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/product.hpp"

namespace swarmpi::kernels::cuda {

class CudaWeight final : public Weight {
 public:
  CudaWeight(Device& device, Precision precision, std::int64_t outputs, std::int64_t inputs);

  std::vector<std::span<std::byte>> copies() override;
  void refresh(Device& device, const float* master);
  /// (N, K)
  ConstFactor view() const;
  std::int64_t outputs() const { return outputs_; }

  static std::size_t bytes(Precision precision, std::int64_t outputs, std::int64_t inputs);

 private:
  std::int64_t outputs_, inputs_;
  const float* master_ = nullptr;
  std::unique_ptr<DeviceMemory> copy_;  // bf16, rows padded
};

/// Elements of a row of bf16 factors: whole pieces of 16 bytes.
constexpr std::int64_t padded_bf16(std::int64_t columns) { return (columns + 7) / 8 * 8; }

}  // namespace swarmpi::kernels::cuda
