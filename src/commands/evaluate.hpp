#pragma once
// `swarmpi evaluate`: the loss of a checkpoint's model over data, as training validates it.

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "core/status.hpp"

namespace swarmpi {

struct EvaluateOptions {
  std::string checkpoint;            ///< see named_checkpoint()
  std::vector<std::string> data;     ///< files; none: what the run holds out
  std::optional<DataFormat> format;  ///< of `data`; nothing: the run's
  bool json = false;
};

struct Evaluation {
  std::string checkpoint;  ///< step-N folder
  std::int64_t step = 0;
  std::int64_t sequences = 0, tokens = 0;  ///< tokens: those with a target
  double loss = 0;                         ///< mean, in nats per token
  DataFormat format = DataFormat::bytes;
};

/// Computes with the checkpoint's cuts, codecs and boundaries, on the run's kernels: the same data
/// give the bits that the run would have validated. `error`: for warnings. Errors: bad_input.
Result<Evaluation> evaluate(const EvaluateOptions& options, std::ostream& error);

/// Prints that as one line, or as one JSON object.
Status run_evaluate(const EvaluateOptions& options, std::ostream& out, std::ostream& error);

}  // namespace swarmpi
