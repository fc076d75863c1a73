#include "model/activations.hpp"

#include <gtest/gtest.h>

#include "model/local_trainer_test.hpp"

namespace swarmpi::test::activations_test {
namespace {

MicrobatchId id(std::int64_t step, std::int32_t index) {
  return {Step(step), Purpose::train, index};
}

struct Scene {
  Config config = tiny_deck();
  std::unique_ptr<kernels::Backend> backend = ready_backend(config);
  StageShape shape{config, partition_model(config.model, 1).front()};
  ActivationSlots slots{shape, *backend, 1};
};

TEST(ActivationSlots, WhoFindsNoneFreeIsNotKept) {
  Scene scene;
  Activations* const kept = &scene.slots.claim(id(1, 0));
  EXPECT_NE(kept, &scene.slots.scratch());
  EXPECT_EQ(&scene.slots.claim(id(1, 1)), &scene.slots.scratch());
  EXPECT_EQ(scene.slots.find(id(1, 1)), nullptr);
  EXPECT_EQ(scene.slots.find(id(1, 0)), kept);
  scene.slots.release(id(1, 0));
  EXPECT_EQ(scene.slots.find(id(1, 0)), nullptr);
  EXPECT_EQ(&scene.slots.claim(id(1, 1)), kept);
}

TEST(ActivationSlots, AMicrobatchThatComesAgainHasOneSlot) {
  Scene scene;
  Activations* const kept = &scene.slots.claim(id(1, 0));
  EXPECT_EQ(&scene.slots.claim(id(1, 0)), kept);
  scene.slots.release(id(1, 0));
  EXPECT_EQ(scene.slots.find(id(1, 0)), nullptr) << "one release is enough";
  EXPECT_EQ(&scene.slots.claim(id(1, 0)), kept) << "after its backward pass";
}

TEST(ActivationSlots, WhatWasNeverUsedIsFreeOnceItsStepIsApplied) {
  Scene scene;
  Activations* const kept = &scene.slots.claim(id(2, 0));
  scene.slots.release_through(Step(1));
  EXPECT_EQ(scene.slots.find(id(2, 0)), kept);
  scene.slots.release_through(Step(2));
  EXPECT_EQ(scene.slots.find(id(2, 0)), nullptr);
  EXPECT_EQ(&scene.slots.claim(id(3, 0)), kept);
}

}  // namespace
}  // namespace swarmpi::test::activations_test
