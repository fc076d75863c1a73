#include "runtime/stage_compute.hpp"

#include <chrono>
#include <thread>
#include <utility>

#include "protocol/messages/compute_port.hpp"
#include "protocol/messages/storage_port.hpp"

namespace swarmpi {

Result<JobFinished> KernelRunner::run(const Job& job) {
  const double start_s = clock_.now_s();
  Result<JobResult> result = executor_.execute(job);
  if (!result.ok()) return result.status();
  return JobFinished{std::move(result).value(), clock_.now_s() - start_s};
}

StageCompute::StageCompute(JobRunner& runner, kernels::Backend& backend, Inbox& inbox,
                           PayloadCopies* copies)
    : runner_(runner),
      inbox_(inbox),
      copies_(copies),
      thread_([&backend] { backend.prepare_thread(); }) {}

void StageCompute::start(Job job) {
  thread_.run([this, job = std::move(job)]() mutable {
    Result<JobFinished> finished = runner_.run(job);
    // Inputs go back to the pool before the result is known, so that the next job finds them.
    job = Job();
    if (!finished.ok()) {
      // Training data that cannot be read, and a state that memory has changed, end the run like
      // results that cannot be stored.
      inbox_.post(StorageFailed{finished.status()});
      return;
    }
    inbox_.post(std::move(finished).value());
  });
}

bool StageCompute::settle(double patience_s) {
  constexpr std::chrono::milliseconds kPause(5);
  const WallClock clock;
  while (!thread_.idle() || (copies_ != nullptr && !copies_->idle())) {
    if (clock.now_s() >= patience_s) return false;
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

}  // namespace swarmpi
