#include "io/file_calls.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <set>

#include "io/checkpoint/checkpoint.hpp"
#include "io/descriptor.hpp"
#include "io/files.hpp"
#include "io/test_support.hpp"

namespace swarmpi::file_calls_test {
namespace {

TEST(FileCalls, TellWhatRunsAndHowManyHaveReturned) {
  FileCalls calls;
  EXPECT_EQ(calls.progress().running, "");
  calls.begin("storing rows");
  EXPECT_EQ(calls.progress().running, "storing rows");
  {
    const FileCall call("syncing", "a/b");
    EXPECT_EQ(calls.progress().running, "syncing a/b");
    EXPECT_EQ(calls.progress().calls, 0);
  }
  EXPECT_EQ(calls.progress().calls, 1);
  calls.end();
  EXPECT_EQ(calls.progress().running, "");
}

TEST(FileCalls, WhatWasGivenUpTouchesNothingMore) {
  const TestFolder folder;
  FileCalls calls;
  calls.begin("storing a stage");
  Descriptor file = Descriptor::open(folder / "part", O_WRONLY | O_CREAT);
  ASSERT_EQ(write_all(file, "before"), 0);
  calls.give_up();
  EXPECT_TRUE(FileCalls::given_up());
  EXPECT_EQ(write_all(file, "after"), ECANCELED);
  EXPECT_EQ(sync_descriptor(file), ECANCELED);
  EXPECT_FALSE(write_file_durably(folder / "other", "text").ok());
  EXPECT_FALSE(std::filesystem::exists(folder / "other"));
  calls.end();
  EXPECT_EQ(read_file(folder / "part").value(), "before");

  calls.begin("the next task");
  EXPECT_FALSE(FileCalls::given_up());
  EXPECT_TRUE(write_file_durably(folder / "other", "text").ok());
  calls.end();
}

TEST(FileCalls, ReadNoMemoryOfATaskThatWasGivenUp) {
  FileCalls calls;
  calls.begin("storing a stage");
  const char live = 'a';
  char copy = ' ';
  EXPECT_TRUE(FileCalls::copy_unless_given_up(&copy, &live, 1));
  EXPECT_EQ(copy, 'a');
  copy = ' ';
  calls.give_up();
  EXPECT_FALSE(FileCalls::copy_unless_given_up(&copy, &live, 1));
  EXPECT_EQ(copy, ' ');
  calls.end();
}

TEST(FileCalls, GivingUpWhereNothingRunsConcernsNothingLater) {
  FileCalls calls;
  calls.give_up();
  calls.begin("storing rows");
  EXPECT_FALSE(FileCalls::given_up());
  calls.end();
}

TEST(FileCalls, WhatWasGivenUpRemovesAndRenamesNothing) {
  const TestFolder folder;
  const std::string checkpoints = folder / "checkpoints";
  for (const std::int64_t step : {1, 2, 3}) {
    const std::string path = checkpoint_path(checkpoints, step);
    ASSERT_TRUE(create_folder(path).ok());
    if (step == 1) continue;  // it was dropped
    ASSERT_TRUE(write_file_durably(path + "/manifest", "").ok());
    ASSERT_TRUE(write_file_durably(path + "/leader.term-1.h5", "").ok());
  }
  const auto files = [&] {
    std::set<std::string> paths;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path())) {
      paths.insert(entry.path().string());
    }
    return paths;
  };
  const std::set<std::string> before = files();
  FileCalls calls;
  calls.begin("removing old checkpoints");
  calls.give_up();
  EXPECT_FALSE(prune_checkpoints(checkpoints, 1).ok());
  EXPECT_FALSE(set_aside(checkpoint_path(checkpoints, 3)).ok());
  remove_dropped(checkpoint_path(checkpoints, 1));
  EXPECT_EQ(remove_file(checkpoints + "/step-3/manifest"), ECANCELED);
  EXPECT_EQ(rename_file(checkpoints + "/step-3/manifest", folder / "manifest"), ECANCELED);
  calls.end();
  EXPECT_EQ(files(), before);
  EXPECT_TRUE(prune_checkpoints(checkpoints, 1).ok());
  EXPECT_LT(files().size(), before.size());
}

}  // namespace
}  // namespace swarmpi::file_calls_test
