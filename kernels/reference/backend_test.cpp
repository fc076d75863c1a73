#include "kernels/backend.hpp"

#include <cstdint>

#include "kernels/reference/test_support.hpp"
#include "kernels/rounding_mode.hpp"

namespace swarmpi::kernels::backend_test {
namespace {

TEST(ReferenceBackend, MemoryIsAlignedAndZeroed) {
  const auto backend = make_reference_backend({});
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{1000003}}) {
    const auto memory = backend->allocate(size);
    EXPECT_EQ(memory->size_bytes(), size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory->data()) % 64, 0u);
    const auto* bytes = memory->as<unsigned char>();
    EXPECT_TRUE(std::all_of(bytes, bytes + size, [](unsigned char b) { return b == 0; }));
  }
}

TEST(ReferenceBackend, SaysWhatItIs) {
  BackendOptions options;
  options.precision = Precision::bf16;
  const auto backend = make_reference_backend(options);
  EXPECT_EQ(backend->name(), "reference");
  EXPECT_EQ(backend->precision(), Precision::bf16);
  EXPECT_EQ(backend->row_stride(1024), 1024);
  backend->prepare_thread();
  EXPECT_TRUE(rounding_mode_is_default());
}

TEST(ReferenceBackend, AWeightIsWhatTheLastRefreshGaveIt) {
  const auto backend = make_reference_backend({});
  const auto weight = backend->make_weight(1, 2);
  const std::vector<float> x = {1.0f, 10.0f};
  std::vector<float> master = {2.0f, 3.0f}, y(1);
  backend->refresh(*weight, master.data());
  master = {4.0f, 5.0f};
  backend->linear_forward(view(y, 1, 1), view(x, 1, 2), *weight, nullptr, {});
  EXPECT_EQ(y[0], 32.0f);
  backend->refresh(*weight, master.data());
  backend->linear_forward(view(y, 1, 1), view(x, 1, 2), *weight, nullptr, {});
  EXPECT_EQ(y[0], 54.0f);
}

}  // namespace
}  // namespace swarmpi::kernels::backend_test
