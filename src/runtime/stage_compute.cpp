#include "runtime/stage_compute.hpp"

#include <utility>

namespace swarmpi {

StageCompute::StageCompute(JobExecutor& executor, kernels::Backend& backend, const Clock& clock,
                           Inbox& inbox, Pace* pace)
    : executor_(executor), clock_(clock), inbox_(inbox), pace_(pace), thread_([&backend] {
        backend.prepare_thread();
      }) {}

void StageCompute::start(Job job) {
  thread_.run([this, job = std::move(job)]() mutable {
    const double start_s = clock_.now_s();
    Result<JobResult> result = executor_.execute(job);
    double duration_s = clock_.now_s() - start_s;
    if (pace_ && result.ok()) duration_s = pace_->keep_pace(job, duration_s);
    // Inputs go back to the pool before the result is known, so that the next job finds them.
    job = Job();
    if (!result.ok()) {
      // Training data that cannot be read end the run like results that cannot be stored.
      inbox_.post(StorageFailed{result.status()});
      return;
    }
    inbox_.post(JobFinished{std::move(result).value(), duration_s});
  });
}

}  // namespace swarmpi
