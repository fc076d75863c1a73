// Memory: alignment, padding, and that nothing is allocated once a shape was seen.

#include <cstdlib>
#include <new>

#include "kernels/native/aligned_memory.hpp"
#include "kernels/native/test_support.hpp"

// The linker's names for the program's own code.
extern "C" const char __executable_start;  // NOLINT(bugprone-reserved-identifier,readability-*)
extern "C" const char etext;               // NOLINT(readability-identifier-naming)

namespace {

std::int64_t allocations = 0;

/// Counts what this program's own code asks for: libraries allocate through operator new as well.
void* counted(std::size_t size, const void* caller) {
  if (caller >= &__executable_start && caller < &etext) ++allocations;
  void* const memory = std::malloc(size > 0 ? size : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) { return counted(size, __builtin_return_address(0)); }
void* operator new[](std::size_t size) { return counted(size, __builtin_return_address(0)); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace swarmpi::kernels::memory_test {
namespace {

TEST(MemoryTest, IsAlignedAndZeroed) {
  const auto backend = make_native_backend({});
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{4097}, std::size_t{9} << 20}) {
    const auto memory = backend->allocate(size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory->data()) % 64, 0u);
    EXPECT_EQ(memory->size_bytes(), size);
    const char* bytes = memory->as<char>();
    EXPECT_TRUE(std::all_of(bytes, bytes + size, [](char c) { return c == 0; }));
  }
}

TEST(MemoryTest, StridesKeepClearOfThePowersOfTwo) {
  for (std::int64_t columns = 1; columns < 5000; ++columns) {
    for (const std::int64_t element : {2, 4}) {
      const std::int64_t bytes = native::padded_stride(columns, element) * element;
      ASSERT_GE(bytes, columns * element);
      ASSERT_LE(bytes, columns * element + 128);
      ASSERT_EQ(bytes % 64, 0);
      ASSERT_NE(bytes % 512, 0);
    }
  }
}

/// All that a training step calls, at one shape.
class Step {
 public:
  Step(Backend& backend, const WorkShape& s) : backend_(backend), s_(s) {
    TestRandom random(2);
    x_ = random.values<float>(rows() * s.width);
    wide_ = random.values<float>(rows() * 3 * s.width);
    hidden_ = random.values<float>(rows() * s.hidden);
    tokens_ = random.tokens(rows(), s.vocabulary);
    weight_ = backend.make_weight(s.hidden, s.width);
    qkv_ = backend.make_weight(3 * s.width, s.width);
    head_ = backend.make_weight(s.vocabulary, s.width);
    const auto largest = std::max({s.hidden, 3 * s.width, s.vocabulary, s.context}) * s.width;
    master_ = random.values<float>(largest);
    gradient_ = master_;
    moment1_ = moment2_ = std::vector<float>(master_.size());
    sums_.resize(master_.size());
    squares_.resize(master_.size() / 4096 + 1);
    y_ = dx_ = x_;
    dwide_ = wide_;
    activated_ = hidden_;
    log_sum_.resize(static_cast<std::size_t>(rows() * s.heads));
    bias_gradient_.resize(static_cast<std::size_t>(s.hidden));
    mean_ = rstd_ = std::vector<float>(static_cast<std::size_t>(rows()));
    kept(x_kept_, s.width);
    kept(wide_kept_, 3 * s.width);
    kept(dwide_kept_, 3 * s.width);
    kept(hidden_kept_, s.hidden);
  }

  void run() {
    const std::int64_t c = s_.width;
    const AttentionShape attention{s_.sequences, s_.context, s_.heads, c / s_.heads};
    for (Weight* w : {weight_.get(), qkv_.get(), head_.get()}) backend_.refresh(*w, master_.data());
    backend_.embed_forward(at(x_, c), tokens_.data(), master_.data(), master_.data(), s_.context);
    backend_.layer_norm_forward(at(y_, c), mean_.data(), rstd_.data(), at(x_, c), master_.data(),
                                master_.data());
    backend_.linear_forward(at(wide_, 3 * c), at(y_, c), *qkv_, master_.data(), {});
    backend_.attention_forward(at(y_, c), log_sum_.data(), at(wide_, 3 * c), attention);
    backend_.linear_gelu_forward(at(hidden_, s_.hidden), at(activated_, s_.hidden), at(y_, c),
                                 *weight_, master_.data());
    backend_.linear_gelu_backward_input(at(dx_, c), at(hidden_, s_.hidden), *weight_, at(x_, c));
    backend_.linear_backward_weight({gradient_.data(), s_.hidden, c}, bias_gradient_.data(),
                                    Write::set, at(hidden_, s_.hidden), at(x_, c));
    add_weight_gradient(at(hidden_, s_.hidden), at(x_, c));
    backend_.attention_backward(at(dwide_, 3 * c), at(dx_, c), at(wide_, 3 * c), at(y_, c),
                                log_sum_.data(), attention);
    backend_.layer_norm_backward(at(dx_, c), {}, log_sum_.data(), log_sum_.data(), Write::add,
                                 at(y_, c), at(x_, c), mean_.data(), rstd_.data(), master_.data());
    backend_.head_loss(loss_, at(x_, c), *head_, tokens_.data());
    backend_.head_loss_backward(loss_, at(dx_, c), {gradient_.data(), s_.vocabulary, c}, at(x_, c),
                                *head_, tokens_.data());
    backend_.embed_backward({gradient_.data(), s_.vocabulary, c}, at(y_, c), at(dx_, c),
                            tokens_.data());
    backend_.copy(at(y_, c), at(dx_, c));
    backend_.zero(dx_.data(), dx_.size() * sizeof(float));
    const auto count = static_cast<std::int64_t>(gradient_.size());
    backend_.add_gradient(did_, sums_.data(), Write::add, {gradient_.data(), count / c, c}, 40, 40);
    const std::int32_t first_row = 0;
    backend_.add_row_gradients(did_, sums_.data(), {gradient_.data(), 1, c}, &first_row, 40, 40);
    backend_.round_sums(gradient_.data(), squares_.data(), sums_.data(), count, 1);
    backend_.round_sums(nullptr, squares_.data(), sums_.data(), count, 1);
    run_kept();
    const UpdateBuffers buffers{master_.data(),
                                master_.data(),
                                moment1_.data(),
                                moment2_.data(),
                                {gradient_.data()},
                                count,
                                0};
    backend_.update_adamw(hash_, buffers, {0.9f, 0.9f, 1e-8f, 1e-3f, 0, 1, 1, 1});
    backend_.update_lamb(hash_, buffers, {0.9f, 0.9f, 1e-8f, 1e-3f, 0, 1, 1, 1});
  }

  /// What passes keep as factors, as the backend likes them.
  void run_kept() {
    const std::int64_t c = s_.width;
    const AttentionShape attention{s_.sequences, s_.context, s_.heads, c / s_.heads};
    const FactorMatrix x = kept(x_kept_, c), wide = kept(wide_kept_, 3 * c);
    const FactorMatrix hidden = kept(hidden_kept_, s_.hidden), dwide = kept(dwide_kept_, 3 * c);
    backend_.copy_factor(x, at(x_, c));
    backend_.linear_forward_factor(wide, x, *qkv_, master_.data());
    backend_.attention_forward(x, log_sum_.data(), wide, attention);
    backend_.attention_backward(dwide, x, wide, x, log_sum_.data(), attention);
    backend_.linear_gelu_forward(at(hidden_, s_.hidden), hidden, x, *weight_, master_.data());
    backend_.linear_backward_weight({gradient_.data(), s_.hidden, c}, bias_gradient_.data(),
                                    Write::set, hidden, x);
    add_weight_gradient(hidden, x);
    backend_.linear_backward_input_factor(x, hidden, *weight_);
    backend_.linear_gelu_backward_input(x, hidden, *weight_, at(x_, c));
    backend_.head_loss_backward(loss_, at(dx_, c), {gradient_.data(), s_.vocabulary, c}, x, *head_,
                                tokens_.data());
  }

 private:
  void add_weight_gradient(ConstFactor dy, ConstFactor x) {
    backend_.add_weight_gradient(did_, sums_.data(), Write::add,
                                 {gradient_.data(), dy.columns, x.columns}, bias_gradient_.data(),
                                 dy, x, 40, 40);
  }
  FactorMatrix kept(std::vector<float>& memory, std::int64_t columns) {
    const std::int64_t stride = backend_.factor_stride(columns);
    memory.resize(static_cast<std::size_t>(rows() * stride));
    return {memory.data(), rows(), columns, stride, backend_.factor_element()};
  }
  std::int64_t rows() const { return s_.sequences * s_.context; }
  Matrix at(std::vector<float>& v, std::int64_t columns) { return {v.data(), rows(), columns}; }

  Backend& backend_;
  WorkShape s_;
  std::vector<float> x_, y_, dx_, wide_, dwide_, hidden_, activated_, master_, gradient_, moment1_,
      moment2_, log_sum_, mean_, rstd_, bias_gradient_;
  std::vector<float> x_kept_, wide_kept_, hidden_kept_, dwide_kept_;
  std::vector<std::int64_t> sums_;
  std::vector<double> squares_;
  double loss_ = 0;
  Contribution did_;
  std::uint64_t hash_ = 0;
  std::vector<std::int32_t> tokens_;
  std::unique_ptr<Weight> weight_, qkv_, head_;
};

/// Makes oneDNN read its environment, once in a process, into strings: those of the C++ library,
/// whose templates' code may lie in this program and is counted as its own.
void start_onednn() {
  const auto backend = make_native_backend({});
  backend->prepare_thread();
  Step(*backend, WorkShape{1, 16, 16, 1, 16, 16}).run();
}

TEST(MemoryTest, ARepeatedStepAllocatesNothing) {
  start_onednn();
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    for (const WorkShape& shape :
         {WorkShape{2, 70, 48, 3, 192, 193}, WorkShape{1, 700, 3, 1, 5, 7},
          WorkShape{1, 3, 2, 1, 70000, 5}, WorkShape{1, 3, 2, 1, 5, 70000}}) {
      const auto backend = make_native_backend({precision, 1, MaxIsa::any});
      backend->prepare_thread();
      backend->reserve(shape);
      Step step(*backend, shape);
      std::int64_t before = allocations;
      step.run();
      // In bf16 the first call of a shape makes oneDNN's primitive for it.
      if (precision == Precision::fp32) {
        EXPECT_EQ(allocations, before) << "reserve() was not enough";
      }
      before = allocations;
      step.run();
      EXPECT_EQ(allocations, before);
    }
  }
  const std::int64_t before = allocations;
  const auto counted_at_all = std::make_unique<std::int64_t>(before);
  EXPECT_GT(allocations, *counted_at_all);
}

TEST(MemoryTest, CopiesAndClearsWhateverTheShape) {
  const auto backend = make_native_backend({});
  TestRandom random(5);
  for (const auto& [rows, columns] :
       {std::pair{1, 200001}, std::pair{3, 70000}, std::pair{300, 777}, std::pair{70001, 1}}) {
    const Padded from(rows, columns, columns + 3, random);
    Padded to(rows, columns, columns + 7);
    backend->copy(to.matrix(), from.matrix());
    EXPECT_TRUE(same_bits(to.elements(), from.elements()));
    std::vector<float> cleared = from.elements();
    backend->zero(cleared.data(), (cleared.size() - 1) * sizeof(float));
    EXPECT_TRUE(std::all_of(cleared.begin(), cleared.end() - 1, [](float v) { return v == 0; }));
    EXPECT_EQ(cleared.back(), from.elements().back());
  }
}

}  // namespace
}  // namespace swarmpi::kernels::memory_test
