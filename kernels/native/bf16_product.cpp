#include "kernels/native/bf16_product.hpp"

#include <omp.h>

#include <dnnl.hpp>
#include <map>
#include <string_view>

#include "core/check.hpp"
#include "kernels/native/aligned_memory.hpp"

namespace swarmpi::kernels::native {

namespace {

using dnnl::memory;

memory::desc matrix_desc(std::int64_t rows, std::int64_t columns, memory::data_type type,
                         std::int64_t stride, bool transposed) {
  return {{rows, columns}, type, transposed ? memory::dims{1, stride} : memory::dims{stride, 1}};
}

/// oneDNN's names of panels.
struct PanelLayout {
  std::int64_t columns;
  memory::format_tag tag;
};
constexpr PanelLayout kPanelLayouts[] = {{16, memory::format_tag::BA16a16b2a},
                                         {32, memory::format_tag::BA16a32b2a},
                                         {48, memory::format_tag::BA16a48b2a},
                                         {64, memory::format_tag::BA16a64b2a}};

memory::desc right_desc(const ProductShape& s) {
  const auto bf16 = memory::data_type::bf16;
  for (const PanelLayout& layout : kPanelLayouts) {
    if (layout.columns == s.b_panel_columns) return {{s.inner, s.columns}, bf16, layout.tag};
  }
  return matrix_desc(s.inner, s.columns, bf16, s.b_stride, s.b_transposed);
}

dnnl::matmul::primitive_desc describe(const ProductShape& s, const dnnl::engine& engine,
                                      const memory::desc& b) {
  const auto bf16 = memory::data_type::bf16;
  const auto a = matrix_desc(s.rows, s.inner, bf16, s.a_stride, s.a_transposed);
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

/// oneDNN's choices depend on the number of threads that there might be.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

/// A primitive with its memory objects: only their addresses change from call to call.
struct Entry {
  dnnl::matmul primitive;
  std::size_t scratchpad_bytes;
  memory a, b, c, bias, scratchpad;
};

class OneDnnProducts : public Bf16Products {
 public:
  OneDnnProducts() : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {}

  bool is_fast() const try {
    const Factor a{nullptr, 80};
    const ProductShape shape(64, 64, 64, a, a, 80, Write::set);
    return is_fast(describe(shape, engine_, right_desc(shape)));
  } catch (const dnnl::error&) {
    return false;
  }

  std::int64_t panel_columns(std::int64_t inner, std::int64_t columns) override {
    const auto [place, is_new] = panel_columns_.try_emplace({inner, columns}, 0);
    if (is_new) place->second = ask_for_panels(inner, columns);
    return place->second;
  }

  void multiply(const ProductShape& shape, void* c, const void* a, const void* b,
                const float* bias) override {
    Entry& found = entry(shape);
    void* const scratchpad = scratchpad_.take(found.scratchpad_bytes);
    dnnl_memory_set_data_handle(found.a.get(), const_cast<void*>(a));
    dnnl_memory_set_data_handle(found.b.get(), const_cast<void*>(b));
    dnnl_memory_set_data_handle(found.c.get(), c);
    dnnl_memory_set_data_handle(found.scratchpad.get(), scratchpad);
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, found.a.get()},
                                         {DNNL_ARG_WEIGHTS, found.b.get()},
                                         {DNNL_ARG_DST, found.c.get()},
                                         {DNNL_ARG_SCRATCHPAD, found.scratchpad.get()},
                                         {DNNL_ARG_BIAS, found.bias.get()}};
    if (bias != nullptr) dnnl_memory_set_data_handle(found.bias.get(), const_cast<float*>(bias));
    const dnnl_status_t status = dnnl_primitive_execute(found.primitive.get(), stream_.get(),
                                                        bias != nullptr ? 5 : 4, arguments);
    SWARMPI_CHECK(status == dnnl_success, "oneDNN failed in a product of bf16");
    dnnl_stream_wait(stream_.get());
  }

 private:
  static bool is_fast(const dnnl::matmul::primitive_desc& description) {
    return !std::string_view(description.impl_info_str()).starts_with("ref");
  }

  /// Panels that are chosen for many rows, if all products of training are fast with them.
  std::int64_t ask_for_panels(std::int64_t inner, std::int64_t columns) const try {
    const OneThread while_asking;
    const memory::desc any({inner, columns}, memory::data_type::bf16, memory::format_tag::any);
    const auto shape = [&](std::int64_t rows, std::int64_t panel_columns) {
      return ProductShape(rows, columns, inner, {nullptr, inner},
                          {nullptr, 0, false, panel_columns}, columns, Write::set);
    };
    const auto chosen = describe(shape(512, 0), engine_, any).weights_desc();
    for (const PanelLayout& layout : kPanelLayouts) {
      if (chosen != right_desc(shape(512, layout.columns))) continue;
      const bool all_fast = is_fast_with_panels(shape(512, layout.columns)) &&
                            is_fast_with_panels(shape(16, layout.columns));
      return all_fast ? layout.columns : 0;
    }
    return 0;
  } catch (const dnnl::error&) {
    return 0;
  }
  bool is_fast_with_panels(ProductShape shape) const {
    const memory::desc right = right_desc(shape);
    const bool set = is_fast(describe(shape, engine_, right));
    shape.write = Write::add;
    const bool added = is_fast(describe(shape, engine_, right));
    shape.write = Write::set;
    shape.rounds_result = true;
    const bool rounded = is_fast(describe(shape, engine_, right));
    shape.has_bias = true;
    return set && added && rounded && is_fast(describe(shape, engine_, right));
  }

  Entry& entry(const ProductShape& shape) {
    const auto found = entries_.find(shape);
    if (found != entries_.end()) return found->second;
    return entries_.emplace(shape, make_entry(shape)).first->second;
  }

  Entry make_entry(const ProductShape& shape) const try {
    const auto description = describe(shape, engine_, right_desc(shape));
    const auto memory_of = [this](const memory::desc& d) { return memory(d, engine_, nullptr); };
    return {dnnl::matmul(description),
            description.scratchpad_desc().get_size(),
            memory_of(description.src_desc()),
            memory_of(description.weights_desc()),
            memory_of(description.dst_desc()),
            memory_of(description.bias_desc()),
            memory_of(description.scratchpad_desc())};
  } catch (const dnnl::error& error) {
    SWARMPI_CHECK(false, std::string("oneDNN cannot make a product of bf16: ") + error.what());
  }

  dnnl::engine engine_;
  dnnl::stream stream_;
  Scratch scratchpad_;  // for all shapes in turn
  std::map<ProductShape, Entry> entries_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> panel_columns_;  // by factor
};

}  // namespace

bool Bf16Products::has_amx() {
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto amx = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_amx);
  return (isa & amx) == amx;
}

std::unique_ptr<Bf16Products> Bf16Products::make() {
  auto products = std::make_unique<OneDnnProducts>();
  if (!products->is_fast()) return nullptr;
  return products;
}

}  // namespace swarmpi::kernels::native
