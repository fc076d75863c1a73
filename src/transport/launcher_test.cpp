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

// ---- Whether an MPI can be started under a launcher

using Variables = std::map<std::string, std::string>;
const Variables kMpich{{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}, {"PMI_FD", "7"}};
const Variables kOnlyCounted{{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}};
const Variables kOpenMpi5{{"OMPI_COMM_WORLD_SIZE", "2"},
                          {"OMPI_COMM_WORLD_RANK", "1"},
                          {"OMPI_VERSION", "5.0.11"},
                          {"PMIX_RANK", "1"},
                          {"PMIX_NAMESPACE", "x"}};
const Variables kOpenMpi4{{"OMPI_COMM_WORLD_SIZE", "2"},
                          {"OMPI_COMM_WORLD_RANK", "1"},
                          {"OMPI_MCA_orte_launch", "1"},
                          {"PMIX_RANK", "1"},
                          {"PMIX_NAMESPACE", "x"}};
const Variables kStep{{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "1"}};

Variables both(Variables first, const Variables& second) {
  first.insert(second.begin(), second.end());
  return first;
}

bool starts(const Variables& variables, const char* library) {
  return check_launcher(with(variables), library, "its mpirun").ok();
}

TEST(Launcher, EachMpiIsStartedByItsOwn) {
  EXPECT_TRUE(starts(kOpenMpi5, "Open MPI v5.0.11"));
  EXPECT_TRUE(starts(kOpenMpi4, "Open MPI v4.1.4"));
  EXPECT_TRUE(starts(kMpich, "MPICH Version:\t4.0.2"));
  EXPECT_TRUE(starts({}, "Open MPI v5.0.11")) << "nobody has started it";
}

TEST(Launcher, AnotherMpisIsRefusedBeforeMpiStarts) {
  EXPECT_FALSE(starts(kMpich, "Open MPI v5.0.11"));
  EXPECT_FALSE(starts(kOpenMpi4, "Open MPI v5.0.11"));
  EXPECT_FALSE(starts(kOpenMpi5, "Open MPI v4.1.4"));
  EXPECT_FALSE(starts(kOpenMpi5, "MPICH Version:\t4.0.2"));
  EXPECT_FALSE(starts(kOpenMpi4, "MPICH Version:\t4.0.2"));
}

TEST(Launcher, VariablesWithoutALauncherBehindThemAreRefused) {
  for (const char* library : {"Open MPI v5.0.11", "Open MPI v4.1.4", "MPICH Version:\t4.0.2"}) {
    EXPECT_FALSE(starts(kOnlyCounted, library)) << library;
    EXPECT_FALSE(starts(kStep, library)) << "srun --mpi=none, " << library;
  }
}

TEST(Launcher, SrunServesWhatItsPluginSpeaks) {
  const Variables pmix = both(kStep, {{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "x"}});
  const Variables pmi2 = both(kStep, kMpich);
  EXPECT_TRUE(starts(pmix, "Open MPI v5.0.11"));
  EXPECT_FALSE(starts(pmi2, "Open MPI v5.0.11"));
  EXPECT_TRUE(starts(pmi2, "MPICH Version:\t4.0.2"));
}

TEST(Launcher, AnMpiOfWhichNothingIsKnownMayTry) {
  EXPECT_TRUE(starts(kMpich, "Intel(R) MPI Library 2021.9"));
}

TEST(Launcher, TheMessageSaysWhatToUse) {
  const std::string message =
      check_launcher(with(kMpich), "Open MPI v5.0.11", "/opt/bin/mpirun").message();
  for (const char* part : {"PMI", "2 ranks", "Open MPI v5.0.11", "/opt/bin/mpirun"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(Launcher, NonsenseIsAsIfUnset) {
  EXPECT_TRUE(with({{"OMPI_COMM_WORLD_SIZE", "many"}}).alone());
  EXPECT_TRUE(with({{"PMI_SIZE", ""}, {"PMI_RANK", "0"}}).alone());
}

}  // namespace
}  // namespace swarmpi
