#pragma once
// Whether the job that runs is late: it takes many times as long as others of its kind and uses no
// CPU, or it takes too long in any case. All times are of the peer's AwakeClock.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "core/flat_map.hpp"
#include "protocol/messages/port_kinds.hpp"
#include "protocol/run_plan.hpp"

namespace swarmpi {

class JobWatch {
 public:
  /// `plan` outlives it.
  explicit JobWatch(const RunPlan& plan) : plan_(&plan) {}

  void begin(const Job& job, double awake_s);
  /// The job is done, and took so long.
  void end(double duration_s);
  /// Whether the job has run for so long that its CPU time is of interest.
  bool wants_probe(double awake_s) const;
  /// The CPU time of all jobs so far.
  void probed(double cpu_s, double awake_s);
  /// How long the job runs, if it is late.
  std::optional<double> late_s(double awake_s) const;

 private:
  using Kind = std::pair<std::size_t, StageId>;  // of job, and where
  struct Running {
    Kind kind;
    double begun_s = 0;
    std::optional<double> cpu_s;  // when last probed
    double still_since_s = 0;     // likewise: it has used no CPU since
  };

  /// Of the last jobs of this kind; nothing where there was none.
  std::optional<double> median_s(const Kind& kind) const;

  /// What the last jobs of a kind took.
  class Durations {
   public:
    void add(double duration_s) {
      last_s_[next_++ % last_s_.size()] = static_cast<float>(duration_s);
    }
    /// REQUIRES: one was added.
    double median_s() const;

   private:
    std::array<float, 31> last_s_{};
    std::size_t next_ = 0;
  };

  const RunPlan* plan_;
  FlatMap<Kind, Durations> durations_;
  std::optional<Running> running_;
};

}  // namespace swarmpi
