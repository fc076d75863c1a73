#include "kernels/reference/embedding.hpp"

#include "kernels/reference/test_support.hpp"

namespace swarmpi::kernels::reference::embedding_test {
namespace {

TEST(Embedding, GradientsMatchFiniteDifferences) {
  TestRandom random(20);
  for (const auto& size :
       {std::array<std::int64_t, 4>{1, 1, 1, 1}, {2, 3, 5, 4}, {3, 7, 1, 11}, {1, 13, 17, 2}}) {
    const std::int64_t b = size[0], t = size[1], c = size[2], v = size[3];
    auto table = random.values<double>(v * c);
    auto positions = random.values<double>(t * c);
    const auto tokens = random.tokens(b * t, v);
    const auto dx = random.values<double>(b * t * c);
    std::vector<double> x(dx.size());
    std::vector<double> dtable(table.size(), 7.0), dpositions(positions.size(), 7.0);
    const auto loss = [&] {
      embed_forward<double>(view(x, b * t, c), tokens.data(), table.data(), positions.data(), t);
      return dot(x, dx);
    };
    embed_backward<double>(view(dtable, v, c), view(dpositions, t, c), view(dx, b * t, c),
                           tokens.data());
    expect_gradient("tokens", table, dtable, loss);
    expect_gradient("positions", positions, dpositions, loss);
  }
}

}  // namespace
}  // namespace swarmpi::kernels::reference::embedding_test
