#include <malloc.h>
#include <omp.h>
#include <dnnl.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "core/check.hpp"
#include "kernels/backend.hpp"
#include "kernels/block_sum.hpp"
#include "kernels/native/aligned_memory.hpp"
#include "kernels/native/attention/attention.hpp"
#include "kernels/native/bf16_product.hpp"
#include "kernels/native/codecs.hpp"
#include "kernels/native/column_sums.hpp"
#include "kernels/native/copy.hpp"
#include "kernels/native/embedding.hpp"
#include "kernels/native/group_max.hpp"
#include "kernels/native/head.hpp"
#include "kernels/native/layer_norm.hpp"
#include "kernels/native/optimizer.hpp"
#include "kernels/native/order_free_sums.hpp"
#include "kernels/native/parallel.hpp"
#include "kernels/native/pointwise.hpp"
#include "kernels/native/product.hpp"
#include "kernels/native/vector_hash.hpp"
#include "kernels/native/weight.hpp"
#include "kernels/native/weight_gradient.hpp"
#include "kernels/rounding_mode.hpp"

namespace swarmpi::kernels {

namespace native {

namespace {

/// Tall enough for fast products, and yet in a cache when they are read again.
constexpr std::int64_t kStripRows = 256;

/// Not for several threads at the same time: scratch memory is shared by all calls.
class NativeBackend final : public Backend {
 public:
  explicit NativeBackend(const BackendOptions& options)
      : options_(options),
        products_(options.precision),
        attention_(Attention::fastest(options.precision, products_.element() == Element::bf16,
                                      Bf16Products::has_amx())),
        head_(products_) {}

  std::string name() const override { return "native"; }
  Precision precision() const override { return options_.precision; }
  std::unique_ptr<Memory> allocate(std::size_t size_bytes) override {
    return std::make_unique<AlignedMemory>(size_bytes);
  }
  void upload(void* to, const void* from_host, std::size_t size_bytes) override {
    if (size_bytes > 0 && to != from_host) std::memcpy(to, from_host, size_bytes);
  }
  void download(void* to_host, const void* from, std::size_t size_bytes) const override {
    if (size_bytes > 0) std::memcpy(to_host, from, size_bytes);
  }
  const void* host_view(const void* from, std::size_t /*size_bytes*/,
                        void* /*room*/) const override {
    return from;
  }
  void* host_place(void* to, void* /*room*/) const override { return to; }
  /// On the calling thread alone: it may be any.
  std::uint64_t state_hash(const float* weights, const float* moment1, const float* moment2,
                           std::int64_t count, std::int64_t first_index) const override {
    if (moment1 == nullptr) return vector_hash_of_weights(weights, count, first_index);
    return vector_hash_of_state(weights, moment1, moment2, count, first_index);
  }
  std::unique_ptr<HostCopies> do_finish() override { return nullptr; }
  std::int64_t row_stride(std::int64_t columns) const override {
    return products_.stride(columns, Element::fp32);
  }
  Element factor_element() const override { return products_.element(); }
  std::int64_t factor_stride(std::int64_t columns) const override {
    return products_.element() == Element::bf16 ? products_.copy_stride(columns)
                                                : row_stride(columns);
  }
  void reserve(const WorkShape& shape) override { take_all(needs(shape)); }
  std::size_t scratch_bytes(const WorkShape& shape) override { return total_bytes(needs(shape)); }
  void prepare_thread() override {
    set_rounding_mode();
    omp_set_dynamic(0);
    omp_set_num_threads(options_.threads);
  }

  std::unique_ptr<Weight> make_weight(std::int64_t outputs, std::int64_t inputs) override {
    return std::make_unique<NativeWeight>(products_, outputs, inputs);
  }
  void do_refresh(Weight& weight, const float* master) override {
    static_cast<NativeWeight&>(weight).refresh(products_, master, strip_);
  }
  std::size_t weight_bytes(std::int64_t outputs, std::int64_t inputs) const override {
    return NativeWeight::bytes(products_, outputs, inputs);
  }

  void do_copy(Matrix to, ConstMatrix from) override { native::copy(to, from); }
  void do_copy_factor(FactorMatrix to, ConstMatrix from) override { native::copy_factor(to, from); }
  void do_zero(void* data, std::size_t size_bytes) override { native::zero(data, size_bytes); }
  void do_copy_out(float* to_host, ConstMatrix from) override {
    native::copy({to_host, from.rows, from.columns}, from);
  }
  void do_copy_in(Matrix to, const float* from_host) override {
    native::copy(to, {from_host, to.rows, to.columns});
  }

  void do_encode(std::byte* coded, ConstMatrix x, const Coding& coding) override {
    native::encode(coded, x, coding);
  }
  void do_decode(Matrix x, const std::byte* coded, const Coding& coding) override {
    native::decode(x, coded, coding);
  }

  void do_group_max_forward(Matrix y, ConstMatrix x) override { native::group_max_forward(y, x); }
  void do_group_max_backward(Matrix dx, ConstMatrix dy, ConstMatrix x) override {
    native::group_max_backward(dx, dy, x);
  }

  void do_embed_forward(Matrix x, const std::int32_t* tokens, const float* token_table,
                        const float* position_table, std::int64_t context) override {
    native::embed_forward(x, tokens, token_table, position_table, context);
  }
  void do_embed_backward(Matrix token_gradient, Matrix position_gradient, ConstMatrix dx,
                         const std::int32_t* tokens) override {
    native::embed_backward(token_gradient, position_gradient, dx, tokens);
  }

  void do_layer_norm_forward(FactorMatrix y, float* mean, float* rstd, ConstMatrix x,
                             const float* weight, const float* bias) override {
    native::layer_norm_forward(y, mean, rstd, x, weight, bias);
  }
  void do_layer_norm_backward(Matrix dx, FactorMatrix dx_factor, float* weight_gradient,
                              float* bias_gradient, Write write, ConstMatrix dy, ConstMatrix x,
                              const float* mean, const float* rstd, const float* weight) override {
    native::layer_norm_backward(dx, dx_factor, weight_gradient, bias_gradient, write, dy, x, mean,
                                rstd, weight, partials_);
  }

  void do_linear_forward(Matrix y, ConstFactor x, const Weight& weight, const float* bias,
                         ConstMatrix residual) override;
  void do_linear_forward_factor(FactorMatrix y, ConstFactor x, const Weight& weight,
                                const float* bias) override {
    products_.multiply_to_factor(y, rounded_x(x), own(weight).forward(), x.columns, bias);
  }
  void do_linear_gelu_forward(Matrix pre, FactorMatrix activated, ConstFactor x,
                              const Weight& weight, const float* bias) override {
    const Factor forward = own(weight).forward();
    if (products_.has_blocks(forward, x.columns)) {
      return products_.multiply_blocks(
          pre.rows, pre.columns, rounded_x(x), forward, x.columns, {}, [&](const AmxBlock& block) {
            bias_gelu(block.sums, block.of(activated), bias_at(bias, block.column));
            put(block.of(pre), block.sums, pre.rows * pre.columns);
          });
    }
    products_.multiply(pre, rounded_x(x), forward, x.columns, Write::set);
    bias_gelu(pre, activated, bias);
  }
  void do_linear_backward_input(Matrix dx, ConstFactor dy, const Weight& weight) override {
    products_.multiply(dx, rounded_dy(dy), own(weight).backward(), dy.columns, Write::set);
  }
  void do_linear_backward_input_factor(FactorMatrix dx, ConstFactor dy,
                                       const Weight& weight) override {
    products_.multiply_to_factor(dx, rounded_dy(dy), own(weight).backward(), dy.columns, nullptr);
  }
  void do_linear_gelu_backward_input(FactorMatrix dpre, ConstFactor dy, const Weight& weight,
                                     ConstMatrix pre) override;
  void do_linear_backward_weight(Matrix weight_gradient, float* bias_gradient, Write write,
                                 ConstFactor dy, ConstFactor x) override {
    products_.multiply(weight_gradient, rounded_dy(dy).transposed(), rounded_x(x), dy.rows, write);
    if (bias_gradient != nullptr) column_sums(bias_gradient, write, dy, partials_);
  }

  void do_attention_forward(FactorMatrix out, float* log_sum, ConstFactor qkv,
                            const AttentionShape& shape) override {
    attention_.forward(out, log_sum, qkv, shape);
  }
  void do_attention_backward(FactorMatrix dqkv, ConstFactor dout, ConstFactor qkv, ConstFactor out,
                             const float* log_sum, const AttentionShape& shape) override {
    attention_.backward(dqkv, dout, qkv, out, log_sum, shape);
  }

  void do_head_loss(double& loss, ConstFactor x, const Weight& weight,
                    const std::int32_t* targets) override {
    loss = head_.loss(x, own(weight), targets);
  }
  void do_head_loss_backward(double& loss, Matrix dx, Matrix weight_gradient, ConstFactor x,
                             const Weight& weight, const std::int32_t* targets) override {
    loss = head_.loss_backward(dx, weight_gradient, x, own(weight), targets);
  }

  void do_add_gradient(Contribution& did, std::int64_t* sums, Write write, ConstMatrix gradient,
                       std::int16_t exponent, int bits) override {
    did = native::add_gradient(sums, write, gradient, exponent, bits, partials_);
  }
  void do_add_row_gradients(Contribution& did, std::int64_t* sums, ConstMatrix gradient,
                            const std::int32_t* rows, std::int16_t exponent, int bits) override {
    did = native::add_row_gradients(sums, gradient, rows, exponent, bits, partials_);
  }
  std::int64_t weight_gradient_rows(std::int64_t rows) const override;
  void do_add_weight_gradient(Contribution& did, std::int64_t* sums, Write write, Matrix room,
                              float* bias_gradient, ConstFactor dy, ConstFactor x,
                              std::int16_t exponent, int bits) override;
  void do_round_sums(float* gradient, double* squares, const std::int64_t* sums, std::int64_t count,
                     double quantum_per_token) override {
    native::round_sums(gradient, squares, sums, count, quantum_per_token);
  }
  void do_update_adamw(std::uint64_t& hash, const UpdateBuffers& buffers,
                       const UpdateParameters& parameters) override {
    hash = native::update_adamw(buffers, parameters, partials_);
  }
  void do_update_adamw_and_copies(std::uint64_t& hash, const UpdateBuffers& buffers,
                                  const UpdateParameters& parameters,
                                  const UpdatedCopies& copies) override;
  void do_update_lamb(std::uint64_t& hash, const UpdateBuffers& buffers,
                      const UpdateParameters& parameters) override {
    hash = native::update_lamb(buffers, parameters, partials_);
  }
  void do_hash_weights(std::uint64_t& hash, const float* weights, std::int64_t count,
                       std::int64_t first_index) override {
    hash = native::hash_weights(weights, count, first_index, partials_);
  }
  void do_hash_copies(std::uint64_t& hash, Weight& weight) override {
    hash = 0;
    for (const std::span<std::byte> copy : weight.copies()) {
      hash = joined_hash(hash, native::hash_bytes(copy, partials_));
    }
  }

 private:
  static const NativeWeight& own(const Weight& weight) {
    return static_cast<const NativeWeight&>(weight);
  }
  static const float* bias_at(const float* bias, std::int64_t column) {
    return bias == nullptr ? nullptr : bias + column;
  }
  std::array<Need, 10> needs(const WorkShape& shape);
  Need partials_need(const WorkShape& shape);
  Need strip_need(const WorkShape& shape);
  Factor rounded_x(ConstFactor x) { return products_.factor(x, x_copy_); }
  Factor rounded_dy(ConstFactor dy) { return products_.factor(dy, dy_copy_); }

  BackendOptions options_;
  Products products_;
  Attention attention_;
  LossHead head_;
  Scratch x_copy_;
  Scratch dy_copy_;
  Scratch partials_;
  // (kStripRows, hidden) of products that are rounded after more is done to them; weights on their
  // way into panels.
  Scratch strip_;
};

void NativeBackend::do_linear_forward(Matrix y, ConstFactor x, const Weight& weight,
                                      const float* bias, ConstMatrix residual) {
  const Factor factor = rounded_x(x);
  const Factor forward = own(weight).forward();
  if (products_.has_blocks(forward, x.columns)) {
    products_.multiply_blocks(y.rows, y.columns, factor, forward, x.columns, AmxReads::of(residual),
                              [&](const AmxBlock& block) {
                                if (bias != nullptr) add_bias(block.sums, bias + block.column);
                                if (!residual.empty())
                                  add_residual(block.sums, block.of(residual), nullptr);
                                put(block.of(y), block.sums, y.rows * y.columns);
                              });
  } else if (residual.empty()) {
    products_.multiply(y, factor, forward, x.columns, Write::set);
    add_bias(y, bias);
  } else if (products_.rounds() && residual.data != y.data) {
    products_.multiply(y, factor, forward, x.columns, Write::set);
    add_residual(y, residual, bias);
  } else {  // products in fp32 add to what is there as fast as they set it
    set_residual(y, residual, bias);
    products_.multiply(y, factor, forward, x.columns, Write::add);
  }
}

void NativeBackend::do_linear_gelu_backward_input(FactorMatrix dpre, ConstFactor dy,
                                                  const Weight& weight, ConstMatrix pre) {
  if (dpre.element == Element::fp32) {
    do_linear_backward_input(dpre.matrix(), dy, weight);
    return scale_by_gelu_slope(dpre, dpre.matrix(), pre);
  }
  const Factor factor = rounded_dy(dy);
  const Factor backward = own(weight).backward();
  if (products_.has_blocks(backward, dy.columns)) {
    return products_.multiply_blocks(dpre.rows, dpre.columns, factor, backward, dy.columns,
                                     AmxReads::of(pre), [&](const AmxBlock& block) {
                                       scale_by_gelu_slope(block.of(dpre), block.sums,
                                                           block.of(pre));
                                     });
  }
  const std::int64_t stride = row_stride(dpre.columns);
  float* const room = strip_.take_array<float>(std::min(dpre.rows, kStripRows) * stride);
  for (std::int64_t first = 0; first < dpre.rows; first += kStripRows) {
    const std::int64_t rows = std::min(kStripRows, dpre.rows - first);
    const Matrix slopes(room, rows, dpre.columns, stride);
    products_.multiply(slopes, products_.part(factor, first), backward, dy.columns, Write::set);
    auto* const to = static_cast<std::uint16_t*>(dpre.data) + first * dpre.stride;
    scale_by_gelu_slope({to, rows, dpre.columns, dpre.stride, dpre.element}, slopes,
                        {pre.row(first), rows, pre.columns, pre.stride});
  }
}

// Products of bf16 take longer in strips than what follows them gains, but for those in tiles. A
// strip for each thread: the fewer there are, the less the threads wait for one another.
std::int64_t NativeBackend::weight_gradient_rows(std::int64_t rows) const {
  if (products_.element() == Element::bf16 && !products_.has_tiles()) return rows;
  return std::min(rows, kStripRows * options_.threads);
}

void NativeBackend::do_add_weight_gradient(Contribution& did, std::int64_t* sums, Write write,
                                           Matrix room, float* bias_gradient, ConstFactor dy,
                                           ConstFactor x, std::int16_t exponent, int bits) {
  if (bias_gradient != nullptr) column_sums(bias_gradient, Write::set, dy, partials_);
  const Factor dy_factor = rounded_dy(dy), x_factor = rounded_x(x);
  if (products_.has_blocks(x_factor, dy.rows)) {
    const GradientBlocks blocks{products_, dy_factor, x_factor, dy.rows, dy.columns, x.columns};
    did = add_blocks(sums, write, blocks, exponent, bits, partials_);
    return;
  }
  const std::int64_t strip_rows = weight_gradient_rows(dy.columns);
  SWARMPI_CHECK(room.rows >= strip_rows && room.columns == x.columns, "room for a strip");
  GradientStrips strips{products_, dy_factor,  x_factor,
                        dy.rows,   dy.columns, {room.data, strip_rows, room.columns, room.stride}};
  did = add_strips(sums, write, strips, exponent, bits, partials_);
}

void NativeBackend::do_update_adamw_and_copies(std::uint64_t& hash, const UpdateBuffers& buffers,
                                               const UpdateParameters& parameters,
                                               const UpdatedCopies& copies) {
  auto& weight = static_cast<NativeWeight&>(*copies.weight);
  if (!weight.is_packed()) {
    do_hash_copies(*copies.hash_before, weight);
    do_update_adamw(hash, buffers, parameters);
    do_refresh(weight, buffers.new_weights);
    return do_hash_copies(*copies.hash_after, weight);
  }
  const std::int64_t rows = weight.outputs(), columns = buffers.count / rows;
  auto* const hashes = partials_.take_array<UpdateHashes>(rows);
  const auto found =
      weight.make_and_refresh(products_, buffers.new_weights, strip_, [&](std::int64_t row) {
        hashes[row] = update_adamw_part(buffers, parameters, row * columns, (row + 1) * columns);
      });
  *copies.hash_before = found.before;
  *copies.hash_after = found.after;
  UpdateHashes sum;
  for (std::int64_t r = 0; r < rows; ++r) sum += hashes[r];
  if (buffers.hash_before != nullptr) *buffers.hash_before = sum.before;
  hash = sum.after;
}

std::array<Need, 10> NativeBackend::needs(const WorkShape& s) {
  const std::int64_t rows = s.sequences * s.context;
  const std::int64_t widest = std::max(3 * s.width, s.hidden);
  const auto head = head_.needs(rows, s.width, s.vocabulary);
  return {attention_.need({s.sequences, s.context, s.heads, s.width / s.heads}),
          head[0],
          head[1],
          head[2],
          head[3],
          products_.factor_need(rows, widest, x_copy_),
          products_.factor_need(rows, widest, dy_copy_),
          products_.blocks_need(),
          partials_need(s),
          strip_need(s)};
}

Need NativeBackend::strip_need(const WorkShape& s) {
  if (products_.element() == Element::fp32) return {strip_, 0};
  const std::int64_t rows = std::min(s.sequences * s.context, kStripRows);
  const auto slopes = static_cast<std::size_t>(rows * row_stride(s.hidden)) * sizeof(float);
  return {strip_, std::max(slopes, NativeWeight::scratch_bytes(
                                       products_, std::max({3 * s.width, s.hidden, s.vocabulary}),
                                       std::max(s.width, s.hidden)))};
}

Need NativeBackend::partials_need(const WorkShape& s) {
  const std::int64_t widest = std::max(3 * s.width, s.hidden);
  const auto stride = [](std::int64_t columns) { return padded_stride(columns, sizeof(float)); };
  const std::int64_t row_blocks = blocks_of(s.sequences * s.context, kSumRows);
  const std::int64_t sums = row_blocks * std::max(stride(widest), 4 * stride(s.width));
  // Passes over whole tensors: a number for each of some rows, or three for each block of elements.
  const std::int64_t tallest = std::max({widest, s.vocabulary, s.context});
  const std::int64_t largest_tensor = tallest * s.width;
  return {partials_, std::max({static_cast<std::size_t>(sums) * sizeof(float),
                               static_cast<std::size_t>(tallest) * sizeof(UpdateHashes),
                               static_cast<std::size_t>(3 * blocks_of(largest_tensor, kSumBlock)) *
                                   sizeof(double)})};
}

/// None where nothing is capped: what oneDNN 2 calls `all` is `isa_default` in oneDNN 3.
std::optional<dnnl::cpu_isa> cap_of(MaxIsa max_isa) {
  switch (max_isa) {
    case MaxIsa::avx2:
      return dnnl::cpu_isa::avx2;
    case MaxIsa::avx512:
      return dnnl::cpu_isa::avx512_core;
    case MaxIsa::avx512_bf16:
      return dnnl::cpu_isa::avx512_core_bf16;
    case MaxIsa::any:
    case MaxIsa::amx:
      break;
  }
  return std::nullopt;
}

/// oneDNN takes a cap only before its first use: that of the first backend holds.
void cap_isa(MaxIsa max_isa) {
  static const MaxIsa first = [&] {
    const std::optional<dnnl::cpu_isa> isa = cap_of(max_isa);
    if (!isa) return max_isa;
    const dnnl::status status = dnnl::set_max_cpu_isa(*isa);
    SWARMPI_CHECK(status == dnnl::status::success, "oneDNN was used before max_isa was set");
    return max_isa;
  }();
  SWARMPI_CHECK(first == max_isa, "the first backend of this process has another max_isa");
}

/// oneDNN takes memory in every product and frees it again. With glibc's own thresholds, pieces of
/// some megabytes would come from the system each time, page by page.
void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int kLargestThreshold = 32 << 20;  // glibc takes no larger one
  mallopt(M_MMAP_THRESHOLD, kLargestThreshold);
  mallopt(M_TRIM_THRESHOLD, 4 * kLargestThreshold);
#endif
}

}  // namespace

}  // namespace native

std::unique_ptr<Backend> make_native_backend(const BackendOptions& options) {
  native::keep_freed_memory();
  native::cap_isa(options.max_isa);
  native::start_workers(options.threads);
  return std::make_unique<native::NativeBackend>(options);
}

}  // namespace swarmpi::kernels
