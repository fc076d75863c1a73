#pragma once
// What a run in virtual time prints while it goes on: a line now and then, by the clock of who
// waits for it.

#include <ostream>

#include "config/config.hpp"
#include "core/clock.hpp"
#include "protocol/record_observer.hpp"
#include "report/progress.hpp"

namespace swarmpi {

class SimulationProgress final : public RecordObserver {
 public:
  /// `quiet`: nothing.
  SimulationProgress(const Config& config, std::ostream& out, bool quiet)
      : config_(config), out_(out), quiet_(quiet), pace_(kAtLeastS, kAtMostS) {}

  void stored(double now_s, const StoreRecord& record) override;

 private:
  static constexpr double kAtLeastS = 1, kAtMostS = 30;

  const Config& config_;
  std::ostream& out_;
  bool quiet_;
  WallClock clock_;
  LinePace pace_;
  RecentSpeed speed_;
};

/// "step 41/200  simulated 0:12:34  real 0:03  1234 tokens/s".
std::string simulation_line(const Config& config, const StepRow& row, double steps_per_s,
                            double simulated_s, double real_s);

}  // namespace swarmpi
