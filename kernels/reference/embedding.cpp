#include "kernels/reference/embedding.hpp"

#include <algorithm>

namespace swarmpi::kernels::reference {

template <class S>
void embed_forward(MatrixView<S> x, const std::int32_t* tokens, const S* token_table,
                   const S* position_table, std::int64_t context) {
  for (std::int64_t r = 0; r < x.rows; ++r) {
    const S* token = token_table + tokens[r] * x.columns;
    const S* position = position_table + r % context * x.columns;
    for (std::int64_t c = 0; c < x.columns; ++c) x.row(r)[c] = token[c] + position[c];
  }
}

template <class S>
void embed_backward(MatrixView<S> token_gradient, MatrixView<S> position_gradient,
                    MatrixView<const S> dx, const std::int32_t* tokens) {
  const std::int64_t width = dx.columns;
  for (std::int64_t v = 0; v < token_gradient.rows; ++v) {
    std::fill_n(token_gradient.row(v), width, S(0));
  }
  for (std::int64_t t = 0; t < position_gradient.rows; ++t) {
    std::fill_n(position_gradient.row(t), width, S(0));
  }
  for (std::int64_t r = 0; r < dx.rows; ++r) {
    S* token = token_gradient.row(tokens[r]);
    S* position = position_gradient.row(r % position_gradient.rows);
    for (std::int64_t c = 0; c < width; ++c) {
      token[c] += dx.row(r)[c];
      position[c] += dx.row(r)[c];
    }
  }
}

// NOLINTBEGIN(bugprone-macro-parentheses): S is a type
#define SWARMPI_INSTANTIATE(S)                                                        \
  template void embed_forward(MatrixView<S>, const std::int32_t*, const S*, const S*, \
                              std::int64_t);                                          \
  template void embed_backward(MatrixView<S>, MatrixView<S>, MatrixView<const S>,     \
                               const std::int32_t*);
// NOLINTEND(bugprone-macro-parentheses)
SWARMPI_INSTANTIATE(float)
SWARMPI_INSTANTIATE(double)
#undef SWARMPI_INSTANTIATE

}  // namespace swarmpi::kernels::reference
