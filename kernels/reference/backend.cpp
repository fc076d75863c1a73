#include "kernels/backend.hpp"

#include "kernels/reference/reference_backend.hpp"

namespace swarmpi::kernels {

std::unique_ptr<Backend> make_reference_backend(const BackendOptions& options) {
  return std::make_unique<reference::ReferenceBackend>(options.precision);
}

}  // namespace swarmpi::kernels
