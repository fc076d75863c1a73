#include "kernels/cuda/group_max.hpp"

#include "kernels/cuda/reduce.cuh"

namespace swarmpi::kernels::cuda {

namespace {

//--------------------------------------------------------------------------------------------------
// Kernels

__device__ bool is_nan(float x) { return x != x; }

/// Whether `later` takes the place of the largest so far, `best`, as in group_max_element.hpp.
__device__ bool is_larger(float later, float best) {
  return later > best || (is_nan(later) && !is_nan(best));
}

/// The largest of a group and its place.
struct Largest {
  float value;
  int place;
};

__device__ Largest largest_of(const float* group, int size) {
  Largest largest = {group[0], 0};
  for (int i = 1; i < size; ++i) {
    const float x = group[i];
    if (is_larger(x, largest.value)) largest = {x, i};
  }
  return largest;
}
template <int kSize>
__device__ Largest largest_of_few(const float* group) {
  float x[kSize];
  if constexpr (kSize == 2) {
    const float2 pair = *reinterpret_cast<const float2*>(group);
    x[0] = pair.x;
    x[1] = pair.y;
  } else {
    const float4 four = *reinterpret_cast<const float4*>(group);
    x[0] = four.x;
    x[1] = four.y;
    x[2] = four.z;
    x[3] = four.w;
  }
  Largest largest = {x[0], 0};
#pragma unroll
  for (int i = 1; i < kSize; ++i) {
    if (is_larger(x[i], largest.value)) largest = {x[i], i};
  }
  return largest;
}

/// Of groups of kSize = 2 or 4 columns, aligned to so many, or of `size` columns where kSize is 1.
template <int kSize>
struct Forward {
  static constexpr int kWidth = 1;
  Rows<float> y;
  Rows<const float> x;
  int size;

  __device__ Nothing columns(std::int64_t, std::int64_t) const { return {}; }
  __device__ float load(std::int64_t r, std::int64_t c, std::int64_t) const {
    const float* const group = x.row(r) + c * size;
    if constexpr (kSize == 1) return largest_of(group, size).value;
    return largest_of_few<kSize>(group).value;
  }
  __device__ void store(std::int64_t r, std::int64_t c, std::int64_t, float largest,
                        Nothing) const {
    y.row(r)[c] = largest;
  }
};

template <int kSize>
struct Backward {
  static constexpr int kWidth = 1;
  Rows<float> dx;
  Rows<const float> dy;
  Rows<const float> x;
  int size;

  __device__ Nothing columns(std::int64_t, std::int64_t) const { return {}; }
  /// The slope and where it goes.
  __device__ Largest load(std::int64_t r, std::int64_t c, std::int64_t) const {
    const float* const group = x.row(r) + c * size;
    const float slope = dy.row(r)[c];
    if constexpr (kSize == 1) return {slope, largest_of(group, size).place};
    return {slope, largest_of_few<kSize>(group).place};
  }
  __device__ void store(std::int64_t r, std::int64_t c, std::int64_t, Largest slope,
                        Nothing) const {
    float* const group = dx.row(r) + c * size;
    const auto at = [&](int i) { return i == slope.place ? slope.value : 0.0f; };
    if constexpr (kSize == 2) {
      *reinterpret_cast<float2*>(group) = make_float2(at(0), at(1));
    } else if constexpr (kSize == 4) {
      store_whole(group, {at(0), at(1), at(2), at(3)});
    } else {
      for (int i = 0; i < size; ++i) group[i] = at(i);
    }
  }
};

//--------------------------------------------------------------------------------------------------
// Launchers

template <template <int> class Op, class... Fields>
void launch_groups(bool aligned, std::int64_t rows, std::int64_t groups, int size,
                   cudaStream_t stream, const Fields&... fields) {
  if (aligned && size == 2) {
    launch_pointwise(Op<2>{fields..., size}, rows, groups, stream);
  } else if (aligned && size == 4) {
    launch_pointwise(Op<4>{fields..., size}, rows, groups, stream);
  } else {
    launch_pointwise(Op<1>{fields..., size}, rows, groups, stream);
  }
}

}  // namespace

void group_max_forward(Matrix y, ConstMatrix x, cudaStream_t stream) {
  if (y.columns == 0) return;
  const auto size = static_cast<int>(x.columns / y.columns);
  launch_groups<Forward>(is_aligned(x), y.rows, y.columns, size, stream, rows_of(y), rows_of(x));
}

void group_max_backward(Matrix dx, ConstMatrix dy, ConstMatrix x, cudaStream_t stream) {
  if (dy.columns == 0) return;
  const auto size = static_cast<int>(x.columns / dy.columns);
  launch_groups<Backward>(is_aligned(dx) && is_aligned(x), dy.rows, dy.columns, size, stream,
                          rows_of(dx), rows_of(dy), rows_of(x));
}

}  // namespace swarmpi::kernels::cuda
