#include "run/welcome.hpp"

#include "core/text.hpp"
#include "core/version.hpp"
#include "run/machine.hpp"

namespace swarmpi {
namespace {

std::string survival(const Config& config) {
  const std::int64_t every = config.output.checkpoint_every;
  const std::string since =
      every > 0 ? format("the steps since the last checkpoint (one every %lld steps)",
                         static_cast<long long>(every))
                : std::string(
                      "all steps (checkpoints are written at the end and when stopped; set "
                      "output.checkpoint_every)");
  return "One peer: a kill costs " + since +
         "; what was reported is never lost. INT, TERM or USR1: checkpoint and stop.";
}

}  // namespace

std::string welcome(const Config& config, const std::vector<StageSpec>& stages,
                    const StartPoint& start, const std::string& fingerprint) {
  const ModelConfig& m = config.model;
  const TrainConfig& t = config.train;
  const Machine machine = this_machine();
  std::string text = format(
      "swarmpi %s. Model: %lld layers of %lld, %lld heads, context %lld, vocabulary %lld; %s "
      "parameters, "
      "%s.\n",
      version_line().c_str(), static_cast<long long>(m.layers), static_cast<long long>(m.width),
      static_cast<long long>(m.heads), static_cast<long long>(m.context),
      static_cast<long long>(m.vocab),
      readable_count(static_cast<double>(parameter_count(m))).c_str(), m.precision.c_str());
  text += format(
      "Training: %lld steps of %lld x %lld sequences, %s, lr %g, seed %llu, %s updates, %s sums.\n",
      static_cast<long long>(t.steps), static_cast<long long>(t.microbatches),
      static_cast<long long>(t.microbatch_size), t.optimizer.c_str(), t.lr,
      static_cast<unsigned long long>(t.seed), t.updates.c_str(), t.reduction.c_str());
  text +=
      format("Swarm: %zu stage%s on 1 peer (%s, %lld thread%s, %s kernels, fingerprint %s).\n",
             stages.size(), stages.size() == 1 ? "" : "s", machine.cpu.c_str(),
             static_cast<long long>(config.compute.threads), config.compute.threads == 1 ? "" : "s",
             config.compute.kernels.c_str(), fingerprint.c_str());
  text += survival(config);
  if (start.state.step >= 0) {
    text += format("\nGoing on after step %lld.", static_cast<long long>(start.state.step));
  }
  if (start.replaces) text += "\nIt takes the place of an unfinished run without a checkpoint.";
  return text + "\n";
}

}  // namespace swarmpi
