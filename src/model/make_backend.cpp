#include "model/make_backend.hpp"

namespace swarmpi {

kernels::WorkShape work_shape(const Config& config) {
  kernels::WorkShape shape;
  shape.sequences = config.train.microbatch_size;
  shape.context = config.model.context;
  shape.width = config.model.width;
  shape.heads = config.model.heads;
  shape.hidden = config.model.hidden();
  shape.vocabulary = config.model.vocab;
  return shape;
}

std::unique_ptr<kernels::Backend> make_backend(const Config& config) {
  kernels::BackendOptions options;
  options.precision =
      config.model.precision == "bf16" ? kernels::Precision::bf16 : kernels::Precision::fp32;
  options.threads = static_cast<int>(config.compute.threads);
  options.max_isa = config.compute.max_isa;
  auto backend = config.compute.kernels == "reference" ? kernels::make_reference_backend(options)
                                                       : kernels::make_native_backend(options);
  backend->reserve(work_shape(config));
  return backend;
}

}  // namespace swarmpi
