#include "runtime/assembly.hpp"

#include <gtest/gtest.h>

#include "model/cost.hpp"
#include "model/local_trainer_test.hpp"

namespace swarmpi::test::assembly_test {
namespace {

// A stage that is added finds as much memory as it needs, or is not made.
TEST(Assembly, AStageIsMadeWhereThereIsMemoryLeftForIt) {
  const Config config = tiny_deck();
  const auto backend = ready_backend(config);
  std::vector<StageSpec> stages = partition_model(config.model, 1);
  const StageFactory factory = stage_factory(config, stages, *backend, 1, 1);
  EXPECT_TRUE(factory.has_room(StageId(0), {}, {}));
  EXPECT_NE(factory.make(StageId(0), {}), nullptr);
  stages[0].tensors[0].rows = std::int64_t{1} << 44;
  EXPECT_FALSE(factory.has_room(StageId(0), {}, {}));
}

}  // namespace
}  // namespace swarmpi::test::assembly_test
