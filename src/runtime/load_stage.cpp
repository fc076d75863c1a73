#include "runtime/load_stage.hpp"

namespace swarmpi {

Status load_stage(const Checkpoint& checkpoint, StageModel& stage) {
  for (const TensorState& tensor : stage.state()) {
    if (Status status = checkpoint.read(tensor.info.name, tensor.info.rows, tensor.info.columns,
                                        tensor.weights, tensor.moment1, tensor.moment2);
        !status.ok()) {
      return status;
    }
  }
  stage.loaded(Step(checkpoint.head().state.step));
  return {};
}

}  // namespace swarmpi
