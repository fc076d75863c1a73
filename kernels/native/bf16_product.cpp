#include "kernels/native/bf16_product.hpp"

#include <dnnl.hpp>
#include <map>
#include <mutex>
#include <string_view>
#include <vector>

#include "core/check.hpp"
#include "kernels/native/aligned_memory.hpp"

namespace swarmpi::kernels::native {

namespace {

using dnnl::memory;

memory::desc matrix_desc(std::int64_t rows, std::int64_t columns, memory::data_type type,
                         std::int64_t stride, bool transposed) {
  return {{rows, columns}, type, transposed ? memory::dims{1, stride} : memory::dims{stride, 1}};
}

dnnl::matmul::primitive_desc describe(const ProductShape& s, const dnnl::engine& engine) {
  const auto bf16 = memory::data_type::bf16;
  const auto a = matrix_desc(s.rows, s.inner, bf16, s.a_stride, s.a_transposed);
  const auto b = matrix_desc(s.inner, s.columns, bf16, s.b_stride, s.b_transposed);
  const auto c = matrix_desc(s.rows, s.columns, s.rounds_result ? bf16 : memory::data_type::f32,
                             s.c_stride, false);
  const auto bias = s.has_bias ? matrix_desc(1, s.columns, memory::data_type::f32, s.columns, false)
                               : memory::desc();
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (s.write == Write::add) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
#if DNNL_VERSION_MAJOR >= 3
  return {engine, a, b, bias, c, attributes};
#else
  return {{a, b, bias, c}, attributes, engine};
#endif
}

/// A primitive with the memory objects of each worker: only their addresses change from call to
/// call.
struct Entry {
  struct Arguments {
    memory a, b, c, bias, scratchpad;
    dnnl::stream stream;
  };
  dnnl::matmul primitive;
  std::size_t scratchpad_bytes;
  std::vector<Arguments> workers;
};

class OneDnnProducts : public Bf16Products {
 public:
  explicit OneDnnProducts(int workers)
      : engine_(dnnl::engine::kind::cpu, 0), scratchpads_(static_cast<std::size_t>(workers)) {}

  bool is_fast() const try {
    const Factor a{nullptr, 80};
    const ProductShape shape(64, 64, 64, a, a, 80, Write::set);
    return !std::string_view(describe(shape, engine_).impl_info_str()).starts_with("ref");
  } catch (const dnnl::error&) {
    return false;
  }

  void multiply(const ProductShape& shape, void* c, const void* a, const void* b, const float* bias,
                int worker) override {
    Entry& found = entry(shape);
    const auto place = static_cast<std::size_t>(worker);
    Entry::Arguments& own = found.workers[place];
    void* const scratchpad = scratchpads_[place].take(found.scratchpad_bytes);
    dnnl_memory_set_data_handle(own.a.get(), const_cast<void*>(a));
    dnnl_memory_set_data_handle(own.b.get(), const_cast<void*>(b));
    dnnl_memory_set_data_handle(own.c.get(), c);
    dnnl_memory_set_data_handle(own.scratchpad.get(), scratchpad);
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, own.a.get()},
                                         {DNNL_ARG_WEIGHTS, own.b.get()},
                                         {DNNL_ARG_DST, own.c.get()},
                                         {DNNL_ARG_SCRATCHPAD, own.scratchpad.get()},
                                         {DNNL_ARG_BIAS, own.bias.get()}};
    if (bias != nullptr) dnnl_memory_set_data_handle(own.bias.get(), const_cast<float*>(bias));
    const dnnl_status_t status = dnnl_primitive_execute(found.primitive.get(), own.stream.get(),
                                                        bias != nullptr ? 5 : 4, arguments);
    SWARMPI_CHECK(status == dnnl_success, "oneDNN failed in a product of bf16");
    dnnl_stream_wait(own.stream.get());
  }

 private:
  Entry& entry(const ProductShape& shape) {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(shape);
    if (found != entries_.end()) return found->second;
    return entries_.emplace(shape, make_entry(shape)).first->second;
  }

  Entry make_entry(const ProductShape& shape) const try {
    const auto description = describe(shape, engine_);
    Entry made{dnnl::matmul(description), description.scratchpad_desc().get_size(), {}};
    for (std::size_t w = 0; w < scratchpads_.size(); ++w) {
      made.workers.push_back({memory(description.src_desc(), engine_, nullptr),
                              memory(description.weights_desc(), engine_, nullptr),
                              memory(description.dst_desc(), engine_, nullptr),
                              memory(description.bias_desc(), engine_, nullptr),
                              memory(description.scratchpad_desc(), engine_, nullptr),
                              dnnl::stream(engine_)});
    }
    return made;
  } catch (const dnnl::error& error) {
    SWARMPI_CHECK(false, std::string("oneDNN cannot make a product of bf16: ") + error.what());
  }

  dnnl::engine engine_;
  std::vector<Scratch> scratchpads_;  // by worker, for all shapes in turn
  std::mutex mutex_;                  // guards entries_: those in it stay where they are
  std::map<ProductShape, Entry> entries_;
};

}  // namespace

std::unique_ptr<Bf16Products> Bf16Products::make(int workers) {
  auto products = std::make_unique<OneDnnProducts>(workers);
  if (!products->is_fast()) return nullptr;
  return products;
}

}  // namespace swarmpi::kernels::native
