#include "commands/train/output_paths.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "io/files.hpp"
#include "io/journal/journal.hpp"
#include "io/test_support.hpp"

namespace swarmpi::output_paths_test {
namespace {

namespace fs = std::filesystem;

OutputPaths paths_in(const std::string& folder) {
  return {folder + "/RUN.h5", folder + "/RUN.h5.journal", folder + "/RUN.checkpoints"};
}

std::string owner_in(const std::string& folder) {
  return folder + "/RUN.checkpoints/swarmpi-owner";
}

void expect_refused(const Status& status, const std::string& why) {
  EXPECT_EQ(status.code(), ExitStatus::bad_input);
  EXPECT_NE(status.message().find(why), std::string::npos) << status.message();
}

void expect_refused(const OutputPaths& paths, const std::string& why) {
  expect_refused(check_outputs(paths, {}, {}), why);
  expect_refused(claim_checkpoints(paths).status(), why);
}

TEST(ClaimCheckpoints, LeavesAFileOfSomethingElse) {
  const TestFolder folder;
  const OutputPaths paths = paths_in(folder.path());
  fs::create_directory(paths.checkpoints);
  const std::string owner = owner_in(folder.path());
  ASSERT_TRUE(write_file_durably(owner, "my notes").ok());
  expect_refused(paths, owner + " cannot be used: SwarMPI did not write it");
  EXPECT_EQ(read_file(owner).value(), "my notes");
  fs::remove(owner);
  ASSERT_EQ(::mkfifo(owner.c_str(), 0600), 0);
  expect_refused(paths, "it is a pipe, not a file");
}

TEST(ClaimCheckpoints, LeavesTheTargetOfALink) {
  const TestFolder folder;
  const OutputPaths paths = paths_in(folder.path());
  fs::create_directory(paths.checkpoints);
  for (const char* content : {"precious", "", "swarmpi owner 1\n"}) {
    ASSERT_TRUE(write_file_durably(folder / "target", content).ok());
    fs::remove(owner_in(folder.path()));
    fs::create_symlink("../target", owner_in(folder.path()));
    expect_refused(paths, "it is a link");
    EXPECT_EQ(read_file(folder / "target").value(), content);
  }
}

TEST(ClaimCheckpoints, ReplacesWhatACrashLeft) {
  const TestFolder folder;
  const OutputPaths paths = paths_in(folder.path());
  fs::create_directory(paths.checkpoints);
  for (const std::string& rest : {std::string(), std::string("swarmpi ow"), std::string(40, '\0'),
                                  "swarmpi owner 1\n" + std::string(5000, 'x')}) {
    ASSERT_TRUE(write_file_durably(owner_in(folder.path()), rest).ok());
    ASSERT_TRUE(claim_checkpoints(paths).ok());
    EXPECT_EQ(read_file(owner_in(folder.path())).value(),
              "swarmpi owner 1\n" + paths.run_file + "\n" + paths.checkpoints + "\n");
  }
}

TEST(CheckOutputs, RefusesALinkThatACheckpointWouldBeWrittenThrough) {
  const TestFolder folder;
  const OutputPaths paths = paths_in(folder.path());
  fs::create_directory(paths.checkpoints);
  fs::create_directory_symlink("../moved", paths.checkpoints + "/step-20");
  expect_refused(check_outputs(paths, {}, {}), "step-20 is a link to ../moved, where no complete");
  fs::create_directory(folder / "moved");
  expect_refused(check_outputs(paths, {}, {}), "step-20 is a link to ../moved, where no complete");
}

TEST(ClaimCheckpoints, TakesTheCopyOfTheFolderOfARunningRun) {
  const TestFolder folder;
  const OutputPaths running = paths_in(folder.path() + "/a");
  fs::create_directory(folder / "a");
  const Result<Descriptor> claim = claim_checkpoints(running);
  ASSERT_TRUE(claim.ok()) << claim.status().message();
  JournalBegin begin;
  begin.term = 1;
  const auto journal = JournalWriter::create(running.journal, begin);
  ASSERT_TRUE(journal.ok() && journal.value() != nullptr);
  fs::copy(folder / "a", folder / "b", fs::copy_options::recursive);

  OutputPaths other = paths_in(folder.path() + "/c");
  other.checkpoints = running.checkpoints;
  expect_refused(other, "is in use by the run that writes " + running.run_file);
  fs::create_directory_symlink("a", folder / "link");
  other.checkpoints = folder / "link/RUN.checkpoints";
  expect_refused(other, "is in use by the run that writes " + running.run_file);

  TrainOptions resumes;
  resumes.resume = "";
  const OutputPaths copy = paths_in(folder.path() + "/b");
  const Status free = check_outputs(copy, resumes, {});
  EXPECT_TRUE(free.ok()) << free.message();
  const Status claimed = claim_checkpoints(copy).status();
  EXPECT_TRUE(claimed.ok()) << claimed.message();
}

}  // namespace
}  // namespace swarmpi::output_paths_test
