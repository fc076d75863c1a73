#include "runtime/stage_compute.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include "model/local_trainer_test.hpp"
#include "protocol/messages/compute_port.hpp"
#include "protocol/messages/pass_jobs.hpp"
#include "protocol/messages/storage_port.hpp"

namespace swarmpi::test::stage_compute_test {
namespace {

struct Scene {
  static std::vector<std::unique_ptr<StageModel>> made(const Config& config,
                                                       kernels::Backend& backend) {
    std::vector<std::unique_ptr<StageModel>> stages;
    stages.push_back(
        std::make_unique<StageModel>(config, partition_model(config.model, 1).front(), backend, 0));
    EXPECT_TRUE(stages.back()->initialize().ok());
    return stages;
  }
  Event next_event() {
    pollfd waited{inbox.descriptor(), POLLIN, 0};
    EXPECT_EQ(poll(&waited, 1, 10'000), 1);
    return inbox.take().value();
  }

  Config config = tiny_deck();
  std::unique_ptr<kernels::Backend> backend = ready_backend(config);
  Status read = Status();
  PayloadPool payloads;
  JobExecutor executor{PeerId(3), config,
                       [this](const MicrobatchId&, std::span<std::int32_t>,
                              std::span<std::int32_t>) { return read; },
                       payloads, made(config, *backend)};
  WallClock clock;
  KernelRunner kernels{executor, clock};
  Inbox inbox;
  StageCompute compute{kernels, *backend, inbox};
};

ForwardJob validation() { return {{{Step(1), Purpose::validate, 0}, StageId(0)}, nullptr}; }

TEST(StageCompute, EveryJobIsAnsweredInOrder) {
  Scene scene;
  for (std::int32_t m = 0; m < 5; ++m) {
    ForwardJob job = validation();
    job.work.microbatch.index = m;
    scene.compute.start(job);
  }
  for (std::int32_t m = 0; m < 5; ++m) {
    const auto finished = get<JobFinished>(scene.next_event());
    const auto result = get<ForwardResult>(finished.result);
    EXPECT_EQ(result.work.microbatch.index, m);
    EXPECT_GT(result.loss_nats, 0);
    EXPECT_GT(finished.duration_s, 0);
  }
}

TEST(StageCompute, DataThatCannotBeReadEndTheRun) {
  Scene scene;
  scene.read = Status::failed("the file is gone");
  scene.compute.start(validation());
  EXPECT_EQ(get<StorageFailed>(scene.next_event()).status.message(), "the file is gone");
}

}  // namespace
}  // namespace swarmpi::test::stage_compute_test
