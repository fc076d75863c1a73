#include <cmath>
#include <limits>

#include "kernels/reference/test_support.hpp"

namespace swarmpi::kernels::group_max_test {
namespace {

using Row = std::vector<float>;

Row largest(const Row& x, std::int64_t size) {
  const auto columns = static_cast<std::int64_t>(x.size());
  Row y(x.size() / static_cast<std::size_t>(size));
  make_reference_backend({})->group_max_forward(view(y, 1, columns / size), view(x, 1, columns));
  return y;
}

Row gradient(const Row& dy, const Row& x) {
  Row dx(x.size(), 9);
  make_reference_backend({})->group_max_backward(view(dx, 1, static_cast<std::int64_t>(dx.size())),
                                                 view(dy, 1, static_cast<std::int64_t>(dy.size())),
                                                 view(x, 1, static_cast<std::int64_t>(x.size())));
  return dx;
}

TEST(GroupMax, OfNeighboursTheLargestGoesOnAndGetsTheGradient) {
  const Row x{1, 2, 3, -4, -6, -5};
  EXPECT_EQ(largest(x, 3), (Row{3, -4}));
  EXPECT_EQ(largest(x, 2), (Row{2, 3, -5}));
  EXPECT_EQ(largest(x, 1), x);
  EXPECT_EQ(gradient({10, 20}, x), (Row{0, 0, 10, 20, 0, 0}));
}

TEST(GroupMax, OfEqualOnesTheFirst) {
  EXPECT_EQ(gradient({1, 2}, {7, 7, 0.0f, -0.0f}), (Row{1, 0, 2, 0}));
  EXPECT_EQ(gradient({1}, {-1, 5, 5, 5}), (Row{0, 1, 0, 0}));
}

TEST(GroupMax, ANanIsNotLost) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(largest({nan, 1}, 2)[0]));
  EXPECT_TRUE(std::isnan(largest({1, nan}, 2)[0]));
  EXPECT_EQ(gradient({3}, {1, nan, nan}), (Row{0, 3, 0}));
}

}  // namespace
}  // namespace swarmpi::kernels::group_max_test
