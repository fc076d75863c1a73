#include "kernels/backend.hpp"

#include <cstring>
#include <new>

namespace swarmpi::kernels {

std::shared_ptr<std::byte> Backend::allocate_host(std::size_t size_bytes) {
  constexpr std::align_val_t kAlignment{64};
  auto* const data = static_cast<std::byte*>(::operator new(size_bytes, kAlignment));
  std::memset(data, 0, size_bytes);
  return {data, [=](std::byte* memory) { ::operator delete(memory, kAlignment); }};
}

}  // namespace swarmpi::kernels
