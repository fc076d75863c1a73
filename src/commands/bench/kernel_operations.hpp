#pragma once
// Every operation of a backend at the shapes of a deck, on the same inputs for every backend: to
// compare one backend with another, and to time it. Factors are stored as in training.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "config/config.hpp"
#include "kernels/backend.hpp"

namespace swarmpi {

/// Integers that an operation writes, in the backend's memory.
struct Integers {
  const std::int64_t* data = nullptr;
  std::int64_t count = 0;
};
/// Numbers that an operation gives to the host, of which the sum matters.
struct Addends {
  const double* data = nullptr;
  std::int64_t count = 0;
};
/// What an operation writes.
using Output = std::variant<kernels::ConstFactor, Integers, Addends>;
/// The same, on the host.
using HostOutput = std::variant<std::vector<double>, std::vector<std::int64_t>, double>;

struct Operation {
  std::string name;
  std::function<void()> run;
  std::vector<Output> outputs;
  double flops = 0;  ///< model FLOPs of a matrix product; else 0
  double bytes = 0;  ///< that it must read and write, where memory bounds it
  double bound = 0;  ///< largest |a - b| / max |b| of an output between two correct backends
};

/// Largest |a - b| / max |b| of an output, each with its own maximum; infinite where a value is not
/// finite or integers differ.
double relative_error(const std::vector<HostOutput>& a, const std::vector<HostOutput>& b);

class KernelOperations {
 public:
  /// Takes the memory and fills the inputs. REQUIRES: the backend is reserved for the deck's
  /// shapes.
  KernelOperations(const Config& config, kernels::Backend& backend);
  ~KernelOperations();

  /// In an order in which each may read the outputs of those before it. Compare first runs only:
  /// some operations add to their outputs.
  const std::vector<Operation>& operations() const;
  /// What an operation has written by now.
  std::vector<HostOutput> outputs(std::size_t operation) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace swarmpi
