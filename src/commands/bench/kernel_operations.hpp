#pragma once
// Every operation of a backend at the shapes of a deck, on the same inputs for every backend: for
// comparing one backend with another, and for timing it. Factors are kept as training keeps them.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "config/config.hpp"
#include "kernels/backend.hpp"

namespace swarmpi {

/// Numbers that an operation made.
struct Integers {
  const std::int64_t* data = nullptr;
  std::int64_t count = 0;
};
using Output = std::variant<kernels::ConstFactor, const double*, Integers>;

struct Operation {
  std::string name;
  std::function<void()> run;
  std::vector<Output> outputs;
  double flops = 0;  ///< model FLOPs of a matrix product; else 0
  double bytes = 0;  ///< that must be read and written, where memory decides
  double bound = 0;  ///< largest |a - b| / max |b| of an output between two correct backends
};

/// Largest |a - b| / max |b| over the outputs, each held against its own maximum; infinite where
/// one is not finite or integers differ.
double relative_error(const std::vector<Output>& a, const std::vector<Output>& b);

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
