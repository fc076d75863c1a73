#pragma once
// What a peer can compute: one interface, several implementations (reference, native, CUDA).
// Plain: no library's types appear here. Shapes stand beside the buffers, with these letters:
//   B sequences of a microbatch, T positions (context), R = B*T rows, C width, H heads, V
//   vocabulary, N outputs and K inputs of a linear layer.
// All products obey the backend's precision: with bf16 both factors are rounded to bf16 (nearest,
// ties to even), products are accumulated in fp32; everything else is fp32. What is only ever a
// factor may be kept rounded (factor_element()): then sums over it, the gradients of biases and the
// products of attention's results with their gradients, are of the rounded values. Our own code
// allocates nothing in a call after reserve(); libraries may: oneDNN takes memory to pack factors
// in every product. Gradients are of the *sum* over the microbatch's tokens, in nats.
//
// A backend owns its memory, which need not be the host's: code on the host computes addresses
// there, and moves what lies there by upload(), download(), host_view(), host_place() and the
// operations alone.
// What an operation takes from the host (tokens, targets, rows, coded bytes) it has read when it
// returns. What it gives to the host (losses, contributions, squares, hashes, ratios, rows, coded
// bytes; "to the host" below) is there after the next finish(), and its place must live until then.
// Rows and coded bytes may come beside later operations: finish_beside_copies().

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/codecs.hpp"
#include "kernels/fixed_point.hpp"

namespace swarmpi::kernels {

/// A view of a row-major matrix whose rows may be padded: row r starts at data + r * stride.
template <class T>
struct MatrixView {
  T* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t stride = 0;  ///< elements from one row to the next, >= columns

  MatrixView() = default;
  MatrixView(T* d, std::int64_t r, std::int64_t c, std::int64_t s)
      : data(d), rows(r), columns(c), stride(s) {}
  MatrixView(T* d, std::int64_t r, std::int64_t c) : MatrixView(d, r, c, c) {}
  template <class U>
  requires(!std::is_same_v<T, U> && std::is_convertible_v<U*, T*>)
      MatrixView(const MatrixView<U>& m)  // NOLINT(google-explicit-constructor)
      : MatrixView(m.data, m.rows, m.columns, m.stride) {}

  T* row(std::int64_t r) const { return data + r * stride; }
  bool empty() const { return data == nullptr; }
};
using Matrix = MatrixView<float>;
using ConstMatrix = MatrixView<const float>;

enum class Precision : std::uint8_t { fp32, bf16 };
/// The newest instruction sets that oneDNN may use.
enum class MaxIsa : std::uint8_t { any, avx2, avx512, avx512_bf16, amx };

/// A view of a matrix that products multiply: fp32, or rounded to bf16 already. Rows as in
/// MatrixView, the stride in elements.
enum class Element : std::uint8_t { fp32, bf16 };
template <class Void>
struct FactorView {
  Void* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t stride = 0;
  Element element = Element::fp32;

  FactorView() = default;
  FactorView(Void* d, std::int64_t r, std::int64_t c, std::int64_t s, Element e)
      : data(d), rows(r), columns(c), stride(s), element(e) {}
  using Float = std::conditional_t<std::is_const_v<Void>, const float, float>;
  FactorView(Float* d, std::int64_t r, std::int64_t c) : FactorView(d, r, c, c, Element::fp32) {}
  template <class T>
  requires(std::is_convertible_v<T*, Void*>)
      FactorView(const MatrixView<T>& m)  // NOLINT(google-explicit-constructor)
      : FactorView(m.data, m.rows, m.columns, m.stride, Element::fp32) {}
  template <class Other>
  requires(!std::is_same_v<Void, Other> && std::is_convertible_v<Other*, Void*>)
      FactorView(const FactorView<Other>& f)  // NOLINT(google-explicit-constructor)
      : FactorView(f.data, f.rows, f.columns, f.stride, f.element) {}

  bool empty() const { return data == nullptr; }
  /// REQUIRES: it is fp32.
  auto matrix() const {
    if (element != Element::fp32) std::abort();
    return MatrixView<Float>(static_cast<Float*>(data), rows, columns, stride);
  }
};
using FactorMatrix = FactorView<void>;
using ConstFactor = FactorView<const void>;
constexpr std::size_t size_of(Element element) { return element == Element::bf16 ? 2 : 4; }

/// Whether a gradient replaces what is in its buffer, or is added (layers that share weights).
enum class Write : std::uint8_t { set, add };

/// Memory that belongs to a backend: aligned to 64 bytes or better, zeroed, huge pages advised
/// where they help. Its address is the backend's: the host may not read or write there.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual void* data() = 0;
  virtual std::size_t size_bytes() const = 0;
  template <class T>
  T* as() {
    return static_cast<T*>(data());
  }
};

/// A weight matrix (N, K) in whatever form the backend multiplies by: packed, padded, converted.
class Weight {
 public:
  virtual ~Weight() = default;
  /// What refresh() has made of the master, in the backend's memory; none where products read the
  /// master itself.
  virtual std::vector<std::span<std::byte>> copies() = 0;
};

/// Sizes that a backend must be ready for: the largest of each.
struct WorkShape {
  std::int64_t sequences = 1;   ///< B
  std::int64_t context = 1;     ///< T
  std::int64_t width = 1;       ///< C
  std::int64_t heads = 1;       ///< H
  std::int64_t hidden = 1;      ///< width of the feed-forward layer
  std::int64_t vocabulary = 1;  ///< V
};

/// In the place of a target: the row counts nothing in a loss.
inline constexpr std::int32_t kNoTarget = -1;

struct AttentionShape {
  std::int64_t sequences = 1;   ///< B
  std::int64_t context = 1;     ///< T: rows of each sequence
  std::int64_t heads = 1;       ///< H
  std::int64_t head_width = 1;  ///< C / H
};

/// One optimizer update of one tensor. Factors come from the commit record, so all peers use the
/// same bits.
struct UpdateParameters {
  float beta1 = 0, beta2 = 0, epsilon = 0;
  float lr = 0;
  float weight_decay = 0;                  ///< 0 for vectors: decay is on matrices only
  float clip = 1;                          ///< factor on the gradient
  float correction1 = 1, correction2 = 1;  ///< 1 - beta^t of the applied updates
};

/// The mean gradient over a step's tokens, not yet clipped: rounded already, or the integers that
/// rule 4 of the order-free sums makes it of.
struct ReducedGradient {
  const float* rounded = nullptr;      // (n), or null:
  const std::int64_t* sums = nullptr;  // (n)
  double quantum_per_token = 0;        ///< of `sums`: 2^q / tokens
};

/// Where an update reads and writes. `old_weights` and `new_weights` may be the same array.
struct UpdateBuffers {
  float* new_weights = nullptr;        // (n)
  const float* old_weights = nullptr;  // (n)
  float* moment1 = nullptr;            // (n)
  float* moment2 = nullptr;            // (n)
  ReducedGradient gradient;            // (n)
  std::int64_t count = 0;              ///< n
  std::int64_t first_index = 0;        ///< global index of element 0, for the state hash
  float* trust_ratio = nullptr;        ///< of LAMB: where it is put, if anywhere; to the host
  /// Of AdamW: where the state hash of what it read is put, if anywhere; to the host.
  std::uint64_t* hash_before = nullptr;
};

/// The copies of a weight (N, K) that an update changes, and where their hashes (hash_copies()) are
/// put, as it found them and as it left them; to the host.
struct UpdatedCopies {
  Weight* weight = nullptr;
  std::uint64_t* hash_before = nullptr;
  std::uint64_t* hash_after = nullptr;
};

/// Hears when an operation begins and ends, on the thread that calls it: for benchmarks and traces.
/// An operation is named as the function of Backend, by a string that lives as long as the program.
class OperationListener {
 public:
  virtual ~OperationListener() = default;
  virtual void begins(const char* operation) = 0;
  virtual void ends(const char* operation) = 0;
};

class OperationScope {
 public:
  OperationScope(OperationListener* listener, const char* operation)
      : listener_(listener), operation_(operation) {
    if (listener_ != nullptr) listener_->begins(operation_);
  }
  ~OperationScope() {
    if (listener_ != nullptr) listener_->ends(operation_);
  }
  OperationScope(const OperationScope&) = delete;
  OperationScope& operator=(const OperationScope&) = delete;

 private:
  OperationListener* listener_;
  const char* operation_;
};

/// Memory of a device.
struct OwnMemory {
  std::size_t total_bytes = 0;
  std::size_t share_bytes = 0;  ///< of this process, with others on the same device
  std::size_t free_bytes = 0;   ///< now

  /// What one of so many ranks that share the device may take: its part, or what is free, without
  /// what contexts and libraries take, of every rank.
  std::size_t share_among(std::size_t ranks) const {
    constexpr std::size_t kBeside = std::size_t(1) << 30;
    const std::size_t part = total_bytes / ranks;
    const std::size_t there = part < free_bytes ? part : free_bytes;
    return there > 2 * kBeside ? there - kBeside : there / 2;
  }
};

/// Rows and coded bytes that come to the host beside later operations.
class HostCopies {
 public:
  virtual ~HostCopies() = default;
  /// Returns when all of them are there; false if they are not after so long. For any one thread,
  /// while the backend is.
  [[nodiscard]] virtual bool wait(double at_most_s) = 0;
  /// However long it takes.
  void wait() {
    constexpr double kAtATime = 3600;
    while (!wait(kAtATime)) continue;
  }
};

/// The operations are what is not virtual here: each tells the listener, and calls the function
/// do_NAME() that implementations override. Implementations call do_NAME() of each other, so that
/// an operation is never within another.
class Backend {
 public:
  virtual ~Backend() = default;

  /// From now on `listener` hears all operations; null: nobody. It must outlive them.
  void set_listener(OperationListener* listener) { listener_ = listener; }

  virtual std::string name() const = 0;
  virtual Precision precision() const = 0;
  /// What results depend on beside the code: device, driver, libraries; empty where the
  /// fingerprint finds it out by computing.
  virtual std::string identity() const { return {}; }
  virtual std::unique_ptr<Memory> allocate(std::size_t size_bytes) = 0;
  /// What there is for allocate(), where that is not the host's memory.
  virtual std::optional<OwnMemory> own_memory() const { return std::nullopt; }
  /// The GPU in whose memory that is, as CUDA counts them in this process.
  virtual std::optional<int> device() const { return std::nullopt; }
  /// Host memory that copies from and to this backend are fast with; zeroed. Any thread may call.
  virtual std::shared_ptr<std::byte> allocate_host(std::size_t size_bytes);

  // Any thread may call these five while nobody writes to what they read; each is done when it
  // returns. On the thread that computes they come after the operations before them.
  virtual void upload(void* to, const void* from_host, std::size_t size_bytes) = 0;
  virtual void download(void* to_host, const void* from, std::size_t size_bytes) const = 0;
  /// Bytes of the backend's memory where the host can read them: where they lie, or copied into
  /// `room`, of as many bytes.
  virtual const void* host_view(const void* from, std::size_t size_bytes, void* room) const = 0;
  /// Where the host can write what upload(to, ...) takes next: `to` itself, or `room`.
  virtual void* host_place(void* to, void* room) const = 0;
  /// The state hash (state_hash.hpp) of what lies there; without moments (null), of a version of
  /// the weights that is kept beside the newest.
  virtual std::uint64_t state_hash(const float* weights, const float* moment1, const float* moment2,
                                   std::int64_t count, std::int64_t first_index) const = 0;

  /// All operations so far are done, and what they give to the host is there.
  void finish() {
    const OperationScope scope(listener_, __func__);
    if (const auto copies = do_finish()) copies->wait();
  }
  /// The same, but what copy_out() and encode() give to the host may still be on its way there, and
  /// their places must live until these copies have been waited for. Null: all is there.
  std::unique_ptr<HostCopies> finish_beside_copies() {
    const OperationScope scope(listener_, __func__);
    return do_finish();
  }
  /// A later copy_in() or decode() will read so many bytes from there: they may be brought now,
  /// beside what is computed. Nobody writes to them while they are kept. Any thread may call.
  virtual void fetch_ahead(std::shared_ptr<const std::byte> /*from_host*/,
                           std::size_t /*size_bytes*/) {}
  /// Elements from row to row that this backend likes for activations of `columns` columns.
  virtual std::int64_t row_stride(std::int64_t columns) const = 0;
  /// How this backend likes what is only ever a factor, and the elements from row to row then.
  virtual Element factor_element() const = 0;
  virtual std::int64_t factor_stride(std::int64_t columns) const = 0;
  /// Takes all scratch memory for work of this shape. To be called before any work.
  virtual void reserve(const WorkShape& shape) = 0;
  /// What reserve() takes. Libraries may take some megabytes beside it.
  virtual std::size_t scratch_bytes(const WorkShape& shape) = 0;
  /// To be called by every thread that will compute, before it does (rounding mode, thread counts).
  virtual void prepare_thread() = 0;

  // Weights: `master` is dense (N, K), fp32. refresh() after every change of the master, which must
  // stay where it is: a backend that multiplies fp32 may read it in every product.
  virtual std::unique_ptr<Weight> make_weight(std::int64_t outputs, std::int64_t inputs) = 0;
  void refresh(Weight& weight, const float* master) {
    const OperationScope scope(listener_, __func__);
    do_refresh(weight, master);
  }
  /// What make_weight() takes.
  virtual std::size_t weight_bytes(std::int64_t outputs, std::int64_t inputs) const = 0;

  /// Copies the elements of a matrix of the same shape; paddings stay as they are.
  void copy(Matrix to, ConstMatrix from) {
    const OperationScope scope(listener_, __func__);
    do_copy(to, from);
  }
  /// The same into a factor's storage, rounded where that is bf16.
  void copy_factor(FactorMatrix to, ConstMatrix from) {
    const OperationScope scope(listener_, __func__);
    do_copy_factor(to, from);
  }
  void zero(void* data, std::size_t size_bytes) {
    const OperationScope scope(listener_, __func__);
    do_zero(data, size_bytes);
  }

  /// Rows, dense and in fp32, to the host and back.
  void copy_out(float* to_host, ConstMatrix from) {
    const OperationScope scope(listener_, __func__);
    do_copy_out(to_host, from);
  }
  void copy_in(Matrix to, const float* from_host) {
    const OperationScope scope(listener_, __func__);
    do_copy_in(to, from_host);
  }
  /// x for the wire, to the host: `coded` takes the coded_bytes() of its elements, at any
  /// alignment.
  void encode(std::byte* coded, ConstMatrix x, const Coding& coding) {
    const OperationScope scope(listener_, __func__);
    do_encode(coded, x, coding);
  }
  /// The way back, into a matrix of as many elements.
  void decode(Matrix x, const std::byte* coded, const Coding& coding) {
    const OperationScope scope(listener_, __func__);
    do_decode(x, coded, coding);
  }

  // tokens, targets and rows lie on the host.

  // Embedding: x(r) = tokens_table[token(r)] + positions[r % T].
  void embed_forward(Matrix x, const std::int32_t* tokens, const float* token_table,
                     const float* position_table, std::int64_t context) {
    const OperationScope scope(listener_, __func__);
    do_embed_forward(x, tokens, token_table, position_table, context);
  }
  /// token_gradient (V, C) and position_gradient (T, C) are set; rows are added in index order.
  /// `tokens` may be numbered otherwise: rows of token_gradient.
  void embed_backward(Matrix token_gradient, Matrix position_gradient, ConstMatrix dx,
                      const std::int32_t* tokens) {
    const OperationScope scope(listener_, __func__);
    do_embed_backward(token_gradient, position_gradient, dx, tokens);
  }

  // LayerNorm over rows, epsilon 1e-5. mean, rstd: (R).
  void layer_norm_forward(FactorMatrix y, float* mean, float* rstd, ConstMatrix x,
                          const float* weight, const float* bias) {
    const OperationScope scope(listener_, __func__);
    do_layer_norm_forward(y, mean, rstd, x, weight, bias);
  }
  /// dx += gradient through the norm (dx already holds the residual's); dx_factor: a copy of dx as
  /// a factor, or empty; weight_gradient, bias_gradient: (C).
  void layer_norm_backward(Matrix dx, FactorMatrix dx_factor, float* weight_gradient,
                           float* bias_gradient, Write write, ConstMatrix dy, ConstMatrix x,
                           const float* mean, const float* rstd, const float* weight) {
    const OperationScope scope(listener_, __func__);
    do_layer_norm_backward(dx, dx_factor, weight_gradient, bias_gradient, write, dy, x, mean, rstd,
                           weight);
  }

  /// y = x W^T + bias + residual; bias (N) may be null, residual (R, N) may be empty or be y
  /// itself.
  void linear_forward(Matrix y, ConstFactor x, const Weight& weight, const float* bias,
                      ConstMatrix residual) {
    const OperationScope scope(listener_, __func__);
    do_linear_forward(y, x, weight, bias, residual);
  }
  /// y = x W^T + bias, for products.
  void linear_forward_factor(FactorMatrix y, ConstFactor x, const Weight& weight,
                             const float* bias) {
    const OperationScope scope(listener_, __func__);
    do_linear_forward_factor(y, x, weight, bias);
  }
  /// pre = x W^T + bias; activated = gelu(pre) (tanh form).
  void linear_gelu_forward(Matrix pre, FactorMatrix activated, ConstFactor x, const Weight& weight,
                           const float* bias) {
    const OperationScope scope(listener_, __func__);
    do_linear_gelu_forward(pre, activated, x, weight, bias);
  }
  /// dx = dy W.
  void linear_backward_input(Matrix dx, ConstFactor dy, const Weight& weight) {
    const OperationScope scope(listener_, __func__);
    do_linear_backward_input(dx, dy, weight);
  }
  /// The same for products.
  void linear_backward_input_factor(FactorMatrix dx, ConstFactor dy, const Weight& weight) {
    const OperationScope scope(listener_, __func__);
    do_linear_backward_input_factor(dx, dy, weight);
  }
  /// dpre = (dy W) * gelu'(pre).
  void linear_gelu_backward_input(FactorMatrix dpre, ConstFactor dy, const Weight& weight,
                                  ConstMatrix pre) {
    const OperationScope scope(listener_, __func__);
    do_linear_gelu_backward_input(dpre, dy, weight, pre);
  }
  /// weight_gradient (N, K) = dy^T x; bias_gradient (N) = column sums of dy, or null.
  void linear_backward_weight(Matrix weight_gradient, float* bias_gradient, Write write,
                              ConstFactor dy, ConstFactor x) {
    const OperationScope scope(listener_, __func__);
    do_linear_backward_weight(weight_gradient, bias_gradient, write, dy, x);
  }

  /// Causal multi-head attention. qkv: (R, 3C) with q, k, v side by side, head h at columns h*C/H
  /// of each. out: (R, C); log_sum: (B, H, T), for the backward pass.
  void attention_forward(FactorMatrix out, float* log_sum, ConstFactor qkv,
                         const AttentionShape& shape) {
    const OperationScope scope(listener_, __func__);
    do_attention_forward(out, log_sum, qkv, shape);
  }
  void attention_backward(FactorMatrix dqkv, ConstFactor dout, ConstFactor qkv, ConstFactor out,
                          const float* log_sum, const AttentionShape& shape) {
    const OperationScope scope(listener_, __func__);
    do_attention_backward(dqkv, dout, qkv, out, log_sum, shape);
  }

  /// Maxout: y (R, G) is the largest of each group of neighbouring columns of x (R, C), C / G each;
  /// NaN where one is in it.
  void group_max_forward(Matrix y, ConstMatrix x) {
    const OperationScope scope(listener_, __func__);
    do_group_max_forward(y, x);
  }
  /// dx (R, C) is set: dy where the largest stands, of equal ones the first; else 0.
  void group_max_backward(Matrix dx, ConstMatrix dy, ConstMatrix x) {
    const OperationScope scope(listener_, __func__);
    do_group_max_backward(dx, dy, x);
  }

  /// loss: the sum over rows of -log softmax(x W^T)[target], nats, to the host. W: (V, C). A row
  /// without a target (kNoTarget) counts nothing.
  void head_loss(double& loss, ConstFactor x, const Weight& weight, const std::int32_t* targets) {
    const OperationScope scope(listener_, __func__);
    do_head_loss(loss, x, weight, targets);
  }
  /// The same loss with its gradients: dx (R, C) and weight_gradient (V, C) are set. REQUIRES:
  /// every row has a target.
  void head_loss_backward(double& loss, Matrix dx, Matrix weight_gradient, ConstFactor x,
                          const Weight& weight, const std::int32_t* targets) {
    const OperationScope scope(listener_, __func__);
    do_head_loss_backward(loss, dx, weight_gradient, x, weight, targets);
  }

  // What a microbatch did goes to the host.

  /// Rules 2 and 3 of order-free sums: measures the gradient and adds it to `sums` (dense, rows *
  /// columns) in units of 2^q, q = quantum_exponent(exponent, bits); adds nothing if flagged. With
  /// Write::set what was in `sums` counts as zero. `exponent` may be kNoExponent.
  void add_gradient(Contribution& did, std::int64_t* sums, Write write, ConstMatrix gradient,
                    std::int16_t exponent, int bits) {
    const OperationScope scope(listener_, __func__);
    do_add_gradient(did, sums, write, gradient, exponent, bits);
  }
  /// add_gradient() with Write::add where few rows of a tensor have a gradient: row i of `gradient`
  /// is that of row rows[i], each at most once.
  void add_row_gradients(Contribution& did, std::int64_t* sums, ConstMatrix gradient,
                         const std::int32_t* rows, std::int16_t exponent, int bits) {
    const OperationScope scope(listener_, __func__);
    do_add_row_gradients(did, sums, gradient, rows, exponent, bits);
  }
  /// The rows of a weight's gradient, out of so many, that add_weight_gradient() makes at a time.
  virtual std::int64_t weight_gradient_rows(std::int64_t rows) const { return rows; }
  /// linear_backward_weight() and add_gradient() in one, for a gradient (N, K) that is not kept.
  /// room: at least (weight_gradient_rows(N), K), undefined afterwards. bias_gradient (N) is set,
  /// or null.
  void add_weight_gradient(Contribution& did, std::int64_t* sums, Write write, Matrix room,
                           float* bias_gradient, ConstFactor dy, ConstFactor x,
                           std::int16_t exponent, int bits) {
    const OperationScope scope(listener_, __func__);
    do_add_weight_gradient(did, sums, write, room, bias_gradient, dy, x, exponent, bits);
  }
  /// Rule 4: gradient = fp32(double(sum) * quantum_per_token), where it is not null. squares
  /// (ceil(count / 4096)): the sum of the squares of each block of 4096, in double, to the host.
  void round_sums(float* gradient, double* squares, const std::int64_t* sums, std::int64_t count,
                  double quantum_per_token) {
    const OperationScope scope(listener_, __func__);
    do_round_sums(gradient, squares, sums, count, quantum_per_token);
  }

  // Hashes go to the host.

  /// AdamW (Loshchilov and Hutter, 2019). hash: the state hash of what it wrote (state_hash.hpp).
  void update_adamw(std::uint64_t& hash, const UpdateBuffers& buffers,
                    const UpdateParameters& parameters) {
    const OperationScope scope(listener_, __func__);
    do_update_adamw(hash, buffers, parameters);
  }
  /// hash_copies(), update_adamw(), refresh() and hash_copies() in one. REQUIRES: the buffers are a
  /// whole matrix, the weight's master.
  void update_adamw_and_copies(std::uint64_t& hash, const UpdateBuffers& buffers,
                               const UpdateParameters& parameters, const UpdatedCopies& copies) {
    const OperationScope scope(listener_, __func__);
    do_update_adamw_and_copies(hash, buffers, parameters, copies);
  }
  /// LAMB (You et al., 2020), one bounded trust ratio for the tensor, norms over blocks of 4096.
  void update_lamb(std::uint64_t& hash, const UpdateBuffers& buffers,
                   const UpdateParameters& parameters) {
    const OperationScope scope(listener_, __func__);
    do_update_lamb(hash, buffers, parameters);
  }

  /// The hash of weights that are kept beside those that an update has written (state_hash.hpp).
  void hash_weights(std::uint64_t& hash, const float* weights, std::int64_t count,
                    std::int64_t first_index) {
    const OperationScope scope(listener_, __func__);
    do_hash_weights(hash, weights, count, first_index);
  }
  /// Of the copies that refresh() has made, 0 if there are none. Of their bytes as they lie: to be
  /// compared with what it was before on the same machine, and with nothing else.
  void hash_copies(std::uint64_t& hash, Weight& weight) {
    const OperationScope scope(listener_, __func__);
    do_hash_copies(hash, weight);
  }

 private:
  virtual void do_refresh(Weight& weight, const float* master) = 0;
  virtual void do_copy(Matrix to, ConstMatrix from) = 0;
  virtual void do_copy_factor(FactorMatrix to, ConstMatrix from) = 0;
  virtual void do_zero(void* data, std::size_t size_bytes) = 0;
  virtual std::unique_ptr<HostCopies> do_finish() = 0;
  virtual void do_copy_out(float* to_host, ConstMatrix from) = 0;
  virtual void do_copy_in(Matrix to, const float* from_host) = 0;
  virtual void do_encode(std::byte* coded, ConstMatrix x, const Coding& coding) = 0;
  virtual void do_decode(Matrix x, const std::byte* coded, const Coding& coding) = 0;
  virtual void do_embed_forward(Matrix x, const std::int32_t* tokens, const float* token_table,
                                const float* position_table, std::int64_t context) = 0;
  virtual void do_embed_backward(Matrix token_gradient, Matrix position_gradient, ConstMatrix dx,
                                 const std::int32_t* tokens) = 0;
  virtual void do_layer_norm_forward(FactorMatrix y, float* mean, float* rstd, ConstMatrix x,
                                     const float* weight, const float* bias) = 0;
  virtual void do_layer_norm_backward(Matrix dx, FactorMatrix dx_factor, float* weight_gradient,
                                      float* bias_gradient, Write write, ConstMatrix dy,
                                      ConstMatrix x, const float* mean, const float* rstd,
                                      const float* weight) = 0;
  virtual void do_linear_forward(Matrix y, ConstFactor x, const Weight& weight, const float* bias,
                                 ConstMatrix residual) = 0;
  virtual void do_linear_forward_factor(FactorMatrix y, ConstFactor x, const Weight& weight,
                                        const float* bias) = 0;
  virtual void do_linear_gelu_forward(Matrix pre, FactorMatrix activated, ConstFactor x,
                                      const Weight& weight, const float* bias) = 0;
  virtual void do_linear_backward_input(Matrix dx, ConstFactor dy, const Weight& weight) = 0;
  virtual void do_linear_backward_input_factor(FactorMatrix dx, ConstFactor dy,
                                               const Weight& weight) = 0;
  virtual void do_linear_gelu_backward_input(FactorMatrix dpre, ConstFactor dy,
                                             const Weight& weight, ConstMatrix pre) = 0;
  virtual void do_linear_backward_weight(Matrix weight_gradient, float* bias_gradient, Write write,
                                         ConstFactor dy, ConstFactor x) = 0;
  virtual void do_attention_forward(FactorMatrix out, float* log_sum, ConstFactor qkv,
                                    const AttentionShape& shape) = 0;
  virtual void do_attention_backward(FactorMatrix dqkv, ConstFactor dout, ConstFactor qkv,
                                     ConstFactor out, const float* log_sum,
                                     const AttentionShape& shape) = 0;
  virtual void do_group_max_forward(Matrix y, ConstMatrix x) = 0;
  virtual void do_group_max_backward(Matrix dx, ConstMatrix dy, ConstMatrix x) = 0;
  virtual void do_head_loss(double& loss, ConstFactor x, const Weight& weight,
                            const std::int32_t* targets) = 0;
  virtual void do_head_loss_backward(double& loss, Matrix dx, Matrix weight_gradient, ConstFactor x,
                                     const Weight& weight, const std::int32_t* targets) = 0;
  virtual void do_add_gradient(Contribution& did, std::int64_t* sums, Write write,
                               ConstMatrix gradient, std::int16_t exponent, int bits) = 0;
  virtual void do_add_row_gradients(Contribution& did, std::int64_t* sums, ConstMatrix gradient,
                                    const std::int32_t* rows, std::int16_t exponent, int bits) = 0;
  virtual void do_add_weight_gradient(Contribution& did, std::int64_t* sums, Write write,
                                      Matrix room, float* bias_gradient, ConstFactor dy,
                                      ConstFactor x, std::int16_t exponent, int bits) {
    const Matrix gradient(room.data, dy.columns, x.columns, room.stride);
    do_linear_backward_weight(gradient, bias_gradient, Write::set, dy, x);
    do_add_gradient(did, sums, write, gradient, exponent, bits);
  }
  virtual void do_round_sums(float* gradient, double* squares, const std::int64_t* sums,
                             std::int64_t count, double quantum_per_token) = 0;
  virtual void do_update_adamw(std::uint64_t& hash, const UpdateBuffers& buffers,
                               const UpdateParameters& parameters) = 0;
  virtual void do_update_adamw_and_copies(std::uint64_t& hash, const UpdateBuffers& buffers,
                                          const UpdateParameters& parameters,
                                          const UpdatedCopies& copies) {
    do_hash_copies(*copies.hash_before, *copies.weight);
    do_update_adamw(hash, buffers, parameters);
    do_refresh(*copies.weight, buffers.new_weights);
    do_hash_copies(*copies.hash_after, *copies.weight);
  }
  virtual void do_update_lamb(std::uint64_t& hash, const UpdateBuffers& buffers,
                              const UpdateParameters& parameters) = 0;
  virtual void do_hash_weights(std::uint64_t& hash, const float* weights, std::int64_t count,
                               std::int64_t first_index) = 0;
  virtual void do_hash_copies(std::uint64_t& hash, Weight& weight) = 0;

  OperationListener* listener_ = nullptr;
};

struct BackendOptions {
  Precision precision = Precision::fp32;
  int threads = 1;  ///< of the native kernels
  MaxIsa max_isa = MaxIsa::any;
  bool tf32 = false;  ///< of CUDA's: products of fp32 may round their factors to TF32
};

/// Serial loops with portable bits: the oracle. Never optimised.
std::unique_ptr<Backend> make_reference_backend(const BackendOptions& options);
/// oneDNN for products; the outer loops of all else are Kokkos', or OpenMP's where that has no
/// threads. One in a process; options are fixed by
/// the first. REQUIRES: native_problem() of these options is empty (native_problem.hpp).
std::unique_ptr<Backend> make_native_backend(const BackendOptions& options);
/// cuBLASLt for products, our own kernels for all else, on one GPU of this host: of several ranks
/// each takes the next. REQUIRES: cuda_problem() is empty.
std::unique_ptr<Backend> make_cuda_backend(const BackendOptions& options);
/// Why no GPU can be used in this process, with the remedy; empty: one can.
std::string cuda_problem();
/// The GPU that make_cuda_backend() takes, its driver and libraries. REQUIRES: as there.
std::string cuda_description();
/// How many ranks of this host compute on that GPU, as launchers tell. REQUIRES: as there.
int ranks_on_cuda_device();
/// How many GPUs this process sees. REQUIRES: as there.
int cuda_devices();

}  // namespace swarmpi::kernels
