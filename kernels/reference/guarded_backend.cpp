#include "kernels/reference/guarded_backend.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "kernels/block_sum.hpp"
#include "kernels/reference/reference_backend.hpp"

namespace swarmpi::kernels {

namespace {

/// All memory of a backend: one stretch of pages, which can be touched while a Pass lives.
class Pages {
 public:
  Pages() : start_(map()) {}
  ~Pages() { munmap(start_, kReserved); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  /// Zeroed.
  std::byte* take(std::size_t size_bytes) {
    const std::lock_guard lock(mutex_);
    const std::size_t size = rounded_up(size_bytes);
    if (const auto found = free_.find(size); found != free_.end()) {
      return free_.extract(found).mapped();
    }
    if (used_ + size > kReserved) std::abort();
    std::byte* const taken = start_ + used_;
    used_ += size;
    if (passes_ > 0) protect(PROT_READ | PROT_WRITE);
    return taken;
  }
  void give_back(std::byte* pages, std::size_t size_bytes) {
    const std::lock_guard lock(mutex_);
    const std::size_t size = rounded_up(size_bytes);
    madvise(pages, size, MADV_DONTNEED);  // zeroes them
    free_.emplace(size, pages);
  }

  class Pass {
   public:
    explicit Pass(Pages& pages) : pages_(pages) {
      const std::lock_guard lock(pages_.mutex_);
      if (pages_.passes_++ == 0) pages_.protect(PROT_READ | PROT_WRITE);
    }
    ~Pass() {
      const std::lock_guard lock(pages_.mutex_);
      if (--pages_.passes_ == 0) pages_.protect(PROT_NONE);
    }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

   private:
    Pages& pages_;
  };

 private:
  static constexpr std::size_t kReserved = std::size_t{1} << 32;
  static constexpr std::size_t kPage = 4096;

  static std::byte* map() {
    void* const mapped =
        mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) std::abort();
    return static_cast<std::byte*>(mapped);
  }
  static std::size_t rounded_up(std::size_t size_bytes) {
    return (std::max<std::size_t>(size_bytes, 1) + kPage - 1) / kPage * kPage;
  }
  void protect(int protection) {
    if (used_ > 0 && mprotect(start_, used_, protection) != 0) std::abort();
  }

  std::byte* const start_;
  std::mutex mutex_;
  std::size_t used_ = 0;                         // guarded by mutex_, as all below
  std::multimap<std::size_t, std::byte*> free_;  // by size
  int passes_ = 0;
};

class GuardedMemory final : public Memory {
 public:
  GuardedMemory(Pages& pages, std::size_t size_bytes)
      : pages_(pages), size_bytes_(size_bytes), data_(pages.take(size_bytes)) {}
  ~GuardedMemory() override { pages_.give_back(data_, size_bytes_); }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  void* data() override { return data_; }
  std::size_t size_bytes() const override { return size_bytes_; }

 private:
  Pages& pages_;
  std::size_t size_bytes_;
  std::byte* data_;
};

// What stands where a result will be.
void spoil(double& value) { value = std::numeric_limits<double>::quiet_NaN(); }
void spoil(float& value) { value = std::numeric_limits<float>::quiet_NaN(); }
void spoil(std::uint64_t& value) { value = 0xdeaddeaddeaddeadu; }
void spoil(std::byte& value) { value = std::byte{0xde}; }
void spoil(Contribution& did) { did = {.exponent = 0x5ead, .overflow = true}; }

struct Result {
  void* place;
  std::vector<std::byte> bytes;
};

void put(const std::vector<Result>& results) {
  for (const auto& [place, bytes] : results) std::memcpy(place, bytes.data(), bytes.size());
}

/// Rows and coded bytes, which are there when somebody has waited for them.
class LateResults final : public HostCopies {
 public:
  explicit LateResults(std::vector<Result> results) : results_(std::move(results)) {}
  bool wait(double /*at_most_s*/) override {
    put(results_);
    return true;
  }

 private:
  std::vector<Result> results_;
};

class GuardedBackend final : public reference::ReferenceBackend {
  using Base = reference::ReferenceBackend;

 public:
  using Base::Base;

  std::string name() const override { return "guarded reference"; }
  std::unique_ptr<Memory> allocate(std::size_t size_bytes) override {
    return std::make_unique<GuardedMemory>(pages_, size_bytes);
  }
  void upload(void* to, const void* from_host, std::size_t size_bytes) override {
    const Pass pass(pages_);
    Base::upload(to, from_host, size_bytes);
  }
  void download(void* to_host, const void* from, std::size_t size_bytes) const override {
    const Pass pass(pages_);
    Base::download(to_host, from, size_bytes);
  }
  const void* host_view(const void* from, std::size_t size_bytes, void* room) const override {
    download(room, from, size_bytes);
    return room;
  }
  void* host_place(void* /*to*/, void* room) const override { return room; }
  std::uint64_t state_hash(const float* weights, const float* moment1, const float* moment2,
                           std::int64_t count, std::int64_t first_index) const override {
    const Pass pass(pages_);
    return Base::state_hash(weights, moment1, moment2, count, first_index);
  }
  std::unique_ptr<HostCopies> do_finish() override {
    put(results_);
    results_.clear();
    if (late_.empty()) return nullptr;
    return std::make_unique<LateResults>(std::exchange(late_, {}));
  }

  void do_refresh(Weight& weight, const float* master) override {
    const Pass pass(pages_);
    Base::do_refresh(weight, master);
  }
  void do_copy(Matrix to, ConstMatrix from) override {
    const Pass pass(pages_);
    Base::do_copy(to, from);
  }
  void do_copy_factor(FactorMatrix to, ConstMatrix from) override {
    const Pass pass(pages_);
    Base::do_copy_factor(to, from);
  }
  void do_zero(void* data, std::size_t size_bytes) override {
    const Pass pass(pages_);
    Base::do_zero(data, size_bytes);
  }
  void do_copy_out(float* to_host, ConstMatrix from) override {
    std::vector<float> values(static_cast<std::size_t>(from.rows * from.columns));
    Base::do_copy_out(values.data(), from);
    give(to_host, values, late_);
  }
  void do_encode(std::byte* coded, ConstMatrix x, const Coding& coding) override {
    const Pass pass(pages_);
    std::vector<std::byte> bytes(coded_bytes(coding.codec, x.rows * x.columns));
    Base::do_encode(bytes.data(), x, coding);
    give(coded, bytes, late_);
  }
  void do_decode(Matrix x, const std::byte* coded, const Coding& coding) override {
    const Pass pass(pages_);
    Base::do_decode(x, coded, coding);
  }

  void do_embed_forward(Matrix x, const std::int32_t* tokens, const float* token_table,
                        const float* position_table, std::int64_t context) override {
    const Pass pass(pages_);
    Base::do_embed_forward(x, tokens, token_table, position_table, context);
  }
  void do_embed_backward(Matrix token_gradient, Matrix position_gradient, ConstMatrix dx,
                         const std::int32_t* tokens) override {
    const Pass pass(pages_);
    Base::do_embed_backward(token_gradient, position_gradient, dx, tokens);
  }
  void do_layer_norm_forward(FactorMatrix y, float* mean, float* rstd, ConstMatrix x,
                             const float* weight, const float* bias) override {
    const Pass pass(pages_);
    Base::do_layer_norm_forward(y, mean, rstd, x, weight, bias);
  }
  void do_layer_norm_backward(Matrix dx, FactorMatrix dx_factor, float* weight_gradient,
                              float* bias_gradient, Write write, ConstMatrix dy, ConstMatrix x,
                              const float* mean, const float* rstd, const float* weight) override {
    const Pass pass(pages_);
    Base::do_layer_norm_backward(dx, dx_factor, weight_gradient, bias_gradient, write, dy, x, mean,
                                 rstd, weight);
  }
  void do_linear_forward(Matrix y, ConstFactor x, const Weight& weight, const float* bias,
                         ConstMatrix residual) override {
    const Pass pass(pages_);
    Base::do_linear_forward(y, x, weight, bias, residual);
  }
  void do_linear_gelu_forward(Matrix pre, FactorMatrix activated, ConstFactor x,
                              const Weight& weight, const float* bias) override {
    const Pass pass(pages_);
    Base::do_linear_gelu_forward(pre, activated, x, weight, bias);
  }
  void do_linear_backward_input(Matrix dx, ConstFactor dy, const Weight& weight) override {
    const Pass pass(pages_);
    Base::do_linear_backward_input(dx, dy, weight);
  }
  void do_linear_gelu_backward_input(FactorMatrix dpre, ConstFactor dy, const Weight& weight,
                                     ConstMatrix pre) override {
    const Pass pass(pages_);
    Base::do_linear_gelu_backward_input(dpre, dy, weight, pre);
  }
  void do_linear_backward_weight(Matrix weight_gradient, float* bias_gradient, Write write,
                                 ConstFactor dy, ConstFactor x) override {
    const Pass pass(pages_);
    Base::do_linear_backward_weight(weight_gradient, bias_gradient, write, dy, x);
  }
  void do_attention_forward(FactorMatrix out, float* log_sum, ConstFactor qkv,
                            const AttentionShape& shape) override {
    const Pass pass(pages_);
    Base::do_attention_forward(out, log_sum, qkv, shape);
  }
  void do_attention_backward(FactorMatrix dqkv, ConstFactor dout, ConstFactor qkv, ConstFactor out,
                             const float* log_sum, const AttentionShape& shape) override {
    const Pass pass(pages_);
    Base::do_attention_backward(dqkv, dout, qkv, out, log_sum, shape);
  }
  void do_group_max_forward(Matrix y, ConstMatrix x) override {
    const Pass pass(pages_);
    Base::do_group_max_forward(y, x);
  }
  void do_group_max_backward(Matrix dx, ConstMatrix dy, ConstMatrix x) override {
    const Pass pass(pages_);
    Base::do_group_max_backward(dx, dy, x);
  }

  void do_head_loss(double& loss, ConstFactor x, const Weight& weight,
                    const std::int32_t* targets) override {
    const Pass pass(pages_);
    std::vector<double> value(1);
    Base::do_head_loss(value.front(), x, weight, targets);
    give(&loss, value);
  }
  void do_head_loss_backward(double& loss, Matrix dx, Matrix weight_gradient, ConstFactor x,
                             const Weight& weight, const std::int32_t* targets) override {
    const Pass pass(pages_);
    std::vector<double> value(1);
    Base::do_head_loss_backward(value.front(), dx, weight_gradient, x, weight, targets);
    give(&loss, value);
  }
  void do_add_gradient(Contribution& did, std::int64_t* sums, Write write, ConstMatrix gradient,
                       std::int16_t exponent, int bits) override {
    const Pass pass(pages_);
    std::vector<Contribution> value(1);
    Base::do_add_gradient(value.front(), sums, write, gradient, exponent, bits);
    give(&did, value);
  }
  void do_add_row_gradients(Contribution& did, std::int64_t* sums, ConstMatrix gradient,
                            const std::int32_t* rows, std::int16_t exponent, int bits) override {
    const Pass pass(pages_);
    std::vector<Contribution> value(1);
    Base::do_add_row_gradients(value.front(), sums, gradient, rows, exponent, bits);
    give(&did, value);
  }
  void do_round_sums(float* gradient, double* squares, const std::int64_t* sums, std::int64_t count,
                     double quantum_per_token) override {
    const Pass pass(pages_);
    std::vector<double> values(static_cast<std::size_t>((count + kSumBlock - 1) / kSumBlock));
    Base::do_round_sums(gradient, values.data(), sums, count, quantum_per_token);
    give(squares, values);
  }
  void do_update_adamw(std::uint64_t& hash, const UpdateBuffers& buffers,
                       const UpdateParameters& parameters) override {
    update(hash, buffers, [&](std::uint64_t& value, const UpdateBuffers& own) {
      Base::do_update_adamw(value, own, parameters);
    });
  }
  void do_update_lamb(std::uint64_t& hash, const UpdateBuffers& buffers,
                      const UpdateParameters& parameters) override {
    update(hash, buffers, [&](std::uint64_t& value, const UpdateBuffers& own) {
      Base::do_update_lamb(value, own, parameters);
    });
  }
  void do_hash_weights(std::uint64_t& hash, const float* weights, std::int64_t count,
                       std::int64_t first_index) override {
    const Pass pass(pages_);
    std::vector<std::uint64_t> value(1);
    Base::do_hash_weights(value.front(), weights, count, first_index);
    give(&hash, value);
  }
  void do_hash_copies(std::uint64_t& hash, Weight& weight) override {
    const Pass pass(pages_);
    std::vector<std::uint64_t> value(1);
    Base::do_hash_copies(value.front(), weight);
    give(&hash, value);
  }

 private:
  using Pass = Pages::Pass;

  /// What an operation gives to the host.
  template <class Value>
  void give(Value* place, const std::vector<Value>& values) {
    give(place, values, results_);
  }
  template <class Value>
  static void give(Value* place, const std::vector<Value>& values, std::vector<Result>& results) {
    std::for_each_n(place, values.size(), [](Value& value) { spoil(value); });
    const auto bytes = std::as_bytes(std::span(values));
    results.push_back({place, {bytes.begin(), bytes.end()}});
  }
  template <class Update>
  void update(std::uint64_t& hash, UpdateBuffers buffers, const Update& do_update) {
    const Pass pass(pages_);
    std::vector<std::uint64_t> value(1), before(1);
    std::vector<float> ratio(1);
    std::uint64_t* const hash_before = buffers.hash_before;
    float* const trust_ratio = buffers.trust_ratio;
    if (hash_before != nullptr) buffers.hash_before = before.data();
    if (trust_ratio != nullptr) buffers.trust_ratio = ratio.data();
    do_update(value.front(), buffers);
    give(&hash, value);
    if (hash_before != nullptr) give(hash_before, before);
    if (trust_ratio != nullptr) give(trust_ratio, ratio);
  }

  mutable Pages pages_;
  std::vector<Result> results_;  // for the next finish(), in order
  std::vector<Result> late_;     // that come beside later operations
};

}  // namespace

std::unique_ptr<Backend> make_guarded_backend(const BackendOptions& options) {
  return std::make_unique<GuardedBackend>(options.precision);
}

}  // namespace swarmpi::kernels
