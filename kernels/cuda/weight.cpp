#include "kernels/cuda/weight.hpp"

#include "core/check.hpp"
#include "kernels/cuda/pointwise.hpp"

namespace swarmpi::kernels::cuda {

CudaWeight::CudaWeight(Device& device, Precision precision, std::int64_t outputs,
                       std::int64_t inputs)
    : outputs_(outputs), inputs_(inputs) {
  if (precision == Precision::fp32) return;
  copy_ = std::make_unique<DeviceMemory>(device.index(), bytes(precision, outputs, inputs));
}

std::size_t CudaWeight::bytes(Precision precision, std::int64_t outputs, std::int64_t inputs) {
  if (precision == Precision::fp32) return 0;
  return static_cast<std::size_t>(outputs * padded_bf16(inputs)) * sizeof(std::uint16_t);
}

std::vector<std::span<std::byte>> CudaWeight::copies() {
  if (copy_ == nullptr) return {};
  return {std::span(copy_->as<std::byte>(), copy_->size_bytes())};
}

void CudaWeight::refresh(Device& device, const float* master) {
  master_ = master;
  if (copy_ == nullptr) return;
  to_bf16(copy_->as<std::uint16_t>(), padded_bf16(inputs_), master, outputs_, inputs_, inputs_,
          device.compute());
}

ConstFactor CudaWeight::view() const {
  SWARMPI_CHECK(master_ != nullptr, "a weight that was refreshed");
  if (copy_ == nullptr) return {master_, outputs_, inputs_, inputs_, Element::fp32};
  return {copy_->as<std::uint16_t>(), outputs_, inputs_, padded_bf16(inputs_), Element::bf16};
}

}  // namespace swarmpi::kernels::cuda
