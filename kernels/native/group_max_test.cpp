// Maxout boundaries: the native kernels give the reference's bits, NaN and ties included.

#include <cmath>
#include <limits>

#include "kernels/native/test_support.hpp"

namespace swarmpi::kernels::group_max_test {
namespace {

class GroupMaxTest : public testing::TestWithParam<std::int64_t> {
 protected:
  std::unique_ptr<Backend> reference_ = make_reference_backend({});
  std::unique_ptr<Backend> native_ = make_native_backend({});
};

TEST_P(GroupMaxTest, BothBackendsGiveTheSameBits) {
  const std::int64_t groups = 37, columns = groups * GetParam(), rows = 70;
  Padded x(rows, columns, columns + 3), dy(rows, groups, groups + 1);
  TestRandom random(3);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      const std::int64_t kind = random.below(20);
      const float few = static_cast<float>(random.below(3) - 1);  // ties, among them -0 and 0
      x.matrix().row(r)[c] = kind == 0   ? nan
                             : kind == 1 ? infinity
                             : kind == 2 ? -infinity
                             : kind == 3 ? -0.0f
                                         : few;
    }
    for (std::int64_t c = 0; c < groups; ++c) {
      dy.matrix().row(r)[c] = static_cast<float>(random.uniform());
    }
  }
  Padded y(rows, groups, groups + 2), expected_y(rows, groups, groups + 2);
  native_->group_max_forward(y.matrix(), x.matrix());
  reference_->group_max_forward(expected_y.matrix(), x.matrix());
  EXPECT_TRUE(same_bits(y.elements(), expected_y.elements()));
  Padded dx(rows, columns, columns + 5), expected_dx(rows, columns, columns + 5);
  native_->group_max_backward(dx.matrix(), dy.matrix(), x.matrix());
  reference_->group_max_backward(expected_dx.matrix(), dy.matrix(), x.matrix());
  EXPECT_TRUE(same_bits(dx.elements(), expected_dx.elements()));
}

INSTANTIATE_TEST_SUITE_P(Sizes, GroupMaxTest, testing::Values(1, 2, 3, 4, 8));

}  // namespace
}  // namespace swarmpi::kernels::group_max_test
