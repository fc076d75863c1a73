#include "io/weights_file.hpp"

#include <gtest/gtest.h>

#include "io/files.hpp"
#include "io/test_support.hpp"

namespace swarmpi::weights_file_test {
namespace {

// Two tensors of a model: a table of 2 x 3, and a bias behind it.
struct Weights {
  const std::vector<WeightsEntry> model = {{"table", {2, 3}, 0}, {"bias", {3}, 6}};
  std::vector<float> table = {1, 2, 3, 4, 5, 6}, bias = {0.5f, -0.5f, 0};
  TestFolder folder;
  std::string path = folder / "weights.h5";

  void write() { ASSERT_TRUE(write_weights_file(path, model, {table.data(), bias.data()}).ok()); }
};

void expect_refused(const Status& status, const std::string& words) {
  EXPECT_EQ(status.code(), ExitStatus::bad_input);
  EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
}

TEST(WeightsFile, GivesBackWhatWasWritten) {
  Weights weights;
  weights.write();
  const Result<WeightsFile> file = WeightsFile::open(weights.path);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_TRUE(file.value().holds_just(weights.model).ok());
  std::vector<float> table(6), bias(3);
  EXPECT_TRUE(file.value().read(weights.model[0], table.data()).ok());
  EXPECT_TRUE(file.value().read(weights.model[1], bias.data()).ok());
  EXPECT_EQ(table, weights.table);
  EXPECT_EQ(bias, weights.bias);
}

TEST(WeightsFile, OtherWeightsHaveAnotherHash) {
  Weights one, other;
  one.write();
  std::swap(other.table[0], other.table[1]);
  other.write();
  EXPECT_NE(WeightsFile::open(one.path).value().hash(),
            WeightsFile::open(other.path).value().hash());
}

TEST(WeightsFile, ATensorOfAnotherShapeOrNameIsRefused) {
  Weights weights;
  weights.write();
  const WeightsFile file = WeightsFile::open(weights.path).value();
  expect_refused(file.holds_just({{"table", {3, 2}, 0}, {"bias", {3}, 6}}), "table");
  expect_refused(file.holds_just({{"table", {2, 3}, 0}, {"gain", {3}, 6}}), "no tensor gain");
  expect_refused(file.holds_just({{"table", {2, 3}, 0}}), "2 tensors, the deck's model 1");
  float values[6];
  expect_refused(file.read({"gain", {3}, 6}, values), "no tensor gain");
}

// As where the file was changed while a run goes on, and a peer reads its stage from it.
TEST(WeightsFile, OtherBitsThanTheFileSaysAreRefused) {
  Weights weights;
  weights.write();
  const WeightsFile file = WeightsFile::open(weights.path).value();
  weights.table[5] = 7;
  weights.write();
  float values[6];
  expect_refused(file.read(weights.model[0], values), "tensor table has hash");
}

TEST(WeightsFile, WhatIsNoSuchFileIsRefused) {
  const TestFolder folder;
  expect_refused(WeightsFile::open(folder / "none.h5").status(), "none.h5");
  ASSERT_TRUE(write_file_durably(folder / "text", "no HDF5").ok());
  expect_refused(WeightsFile::open(folder / "text").status(), "no HDF5 file");
}

}  // namespace
}  // namespace swarmpi::weights_file_test
