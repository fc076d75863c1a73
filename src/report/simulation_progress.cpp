#include "report/simulation_progress.hpp"

#include <fmt/core.h>

#include "protocol/messages/record_port.hpp"

namespace swarmpi {

std::string simulation_line(const Config& config, const StepRow& row, double steps_per_s,
                            double simulated_s, double real_s) {
  std::string line = fmt::format("step {}/{}  simulated {}  real {}", row.step, config.train.steps,
                                 duration_text(simulated_s), duration_text(real_s));
  if (steps_per_s > 0) {
    line += fmt::format("  {:.0f} tokens/s", steps_per_s * static_cast<double>(row.tokens));
  }
  return line;
}

void SimulationProgress::stored(double now_s, const StoreRecord& record) {
  const auto* row = std::get_if<StepRow>(&record.row);
  if (row == nullptr || quiet_) return;
  speed_.step_done(now_s);
  if (!pace_.due(clock_.now_s()) && row->step != config_.train.steps) return;
  out_ << simulation_line(config_, *row, speed_.steps_per_s(), now_s, clock_.now_s()) << std::endl;
}

}  // namespace swarmpi
