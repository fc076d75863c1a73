#pragma once
// Every operation of a backend at the shapes of a deck, on the same inputs for every backend: for
// comparing one backend with another, and for timing it. Factors are kept as training keeps them.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "commands/bench/kernel_outputs.hpp"
#include "config/config.hpp"
#include "kernels/backend.hpp"

namespace swarmpi {

struct Operation {
  std::string name;
  std::function<void()> run;
  std::vector<Output> outputs;
  double flops = 0;  ///< model FLOPs of a matrix product; else 0
  double bytes = 0;  ///< that must be read and written, where memory decides
  double bound = 0;  ///< largest |a - b| / max |b| of an output between two correct backends
};

class KernelOperations {
 public:
  /// Takes the memory and fills the inputs. REQUIRES: the backend is reserved for the deck's
  /// shapes.
  KernelOperations(const Config& config, kernels::Backend& backend);
  ~KernelOperations();

  /// In an order in which each can use what those before it made. First runs are comparable; some
  /// add to their outputs.
  const std::vector<Operation>& operations() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace swarmpi
