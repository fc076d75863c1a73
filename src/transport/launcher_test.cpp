#include "transport/launcher.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace swarmpi {
namespace {

Launcher with(const std::map<std::string, std::string>& variables) {
  return detect_launcher([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(Launcher, WithoutALauncherTheProcessIsAlone) {
  const Launcher launcher = with({});
  EXPECT_TRUE(launcher.alone());
  EXPECT_EQ(launcher.name, "");
  EXPECT_EQ(launcher.rank, 0);
}

TEST(Launcher, MpirunOfOpenMpi) {
  const Launcher launcher =
      with({{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "3"}, {"PMIX_RANK", "3"}});
  EXPECT_EQ(launcher.ranks, 4);
  EXPECT_EQ(launcher.rank, 3);
  EXPECT_FALSE(launcher.alone());
}

TEST(Launcher, MpirunWithOneRankIsAlone) {
  EXPECT_TRUE(with({{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}}).alone());
}

TEST(Launcher, MpichAndIntelMpi) {
  const Launcher launcher = with({{"PMI_SIZE", "8"}, {"PMI_RANK", "5"}});
  EXPECT_EQ(launcher.ranks, 8);
  EXPECT_EQ(launcher.rank, 5);
}

TEST(Launcher, BatchScriptAndShellOfAnAllocationAreAlone) {
  EXPECT_TRUE(with({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "64"}, {"SLURM_PROCID", "0"}}).alone());
  // salloc whose shell is a step of one task (use_interactive_step).
  EXPECT_TRUE(with({{"SLURM_NTASKS", "64"},
                    {"SLURM_STEP_ID", "4294967290"},
                    {"SLURM_STEP_NUM_TASKS", "1"},
                    {"SLURM_PROCID", "0"}})
                  .alone());
}

TEST(Launcher, SrunCountsTheTasksOfItsStep) {
  const Launcher launcher = with({{"SLURM_NTASKS", "64"},
                                  {"SLURM_STEP_ID", "0"},
                                  {"SLURM_STEP_NUM_TASKS", "16"},
                                  {"SLURM_PROCID", "2"},
                                  {"PMIX_RANK", "2"}});
  EXPECT_EQ(launcher.ranks, 16);
  EXPECT_EQ(launcher.rank, 2);
  EXPECT_EQ(launcher.name, "srun");
}

TEST(Launcher, MpirunWithinAStepCountsItsOwnRanks) {
  const Launcher launcher = with({{"SLURM_STEP_ID", "0"},
                                  {"SLURM_STEP_NUM_TASKS", "2"},
                                  {"SLURM_PROCID", "1"},
                                  {"OMPI_COMM_WORLD_SIZE", "6"},
                                  {"OMPI_COMM_WORLD_RANK", "4"}});
  EXPECT_EQ(launcher.ranks, 6);
  EXPECT_EQ(launcher.rank, 4);
}

TEST(Launcher, APmixServerThatDoesNotTellTheSizeIsNotTakenForAlone) {
  const Launcher launcher = with({{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "x"}});
  EXPECT_EQ(launcher.ranks, 0);
  EXPECT_EQ(launcher.rank, 1);
  EXPECT_FALSE(launcher.alone());
}

TEST(Launcher, NonsenseIsAsIfUnset) {
  EXPECT_TRUE(with({{"OMPI_COMM_WORLD_SIZE", "many"}}).alone());
  EXPECT_TRUE(with({{"PMI_SIZE", ""}, {"PMI_RANK", "0"}}).alone());
}

}  // namespace
}  // namespace swarmpi
