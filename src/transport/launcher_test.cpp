#include "transport/launcher.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace swarmpi::launcher_test {
namespace {

using Variables = std::map<std::string, std::string>;

Launcher with(const Variables& variables, bool in_a_shell = false) {
  const auto look_up = [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  return detect_launcher(look_up, in_a_shell);
}

Variables both(Variables first, const Variables& second) {
  first.insert(second.begin(), second.end());
  return first;
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

// `srun -n 2 --pty bash`: what is started there by hand is alone. The tasks of a second srun there
// have the variable of the first as well, but no terminal.
TEST(Launcher, AShellThatIsAStepIsNoLauncher) {
  const Variables step{{"SLURM_STEP_ID", "0"},
                       {"SLURM_STEP_NUM_TASKS", "2"},
                       {"SLURM_PROCID", "0"},
                       {"SLURM_PTY_PORT", "4711"}};
  EXPECT_TRUE(with(step, true).alone());
  EXPECT_EQ(with(step, true).name, "");
  EXPECT_EQ(with(step, false).ranks, 2);
  EXPECT_EQ(with(both({{"PMIX_RANK", "0"}}, step), true).ranks, 2) << "it was started as a rank";
}

TEST(Launcher, TheShellOfAnAllocationIsNoLauncher) {
  const Variables shell{
      {"SLURM_STEP_ID", "4294967290"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "0"}};
  EXPECT_TRUE(with(shell).alone());
  EXPECT_EQ(with(both({{"PMIX_RANK", "0"}}, shell)).ranks, 4);
}

TEST(Launcher, ATerminalAloneIsNoShellOfSlurm) {
  const Variables step{
      {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "0"}};
  EXPECT_EQ(with(step, true).ranks, 2);
}

TEST(Launcher, OthersThatCountTheirRanks) {
  for (const std::string prefix : {"MV2_COMM_WORLD", "JSM_NAMESPACE"}) {
    const Launcher launcher = with({{prefix + "_SIZE", "4"}, {prefix + "_RANK", "3"}});
    EXPECT_EQ(launcher.ranks, 4) << prefix;
    EXPECT_EQ(launcher.rank, 3) << prefix;
    EXPECT_NE(launcher.name, "") << prefix;
  }
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
  EXPECT_FALSE(starts(kMpich, "Open MPI v4.1.4"));
  EXPECT_FALSE(starts(kOpenMpi4, "Open MPI v5.0.11"));
  EXPECT_FALSE(starts(kOpenMpi5, "Open MPI v4.1.4"));
  EXPECT_FALSE(starts(kOpenMpi5, "MPICH Version:\t4.0.2"));
  EXPECT_FALSE(starts(kOpenMpi4, "MPICH Version:\t4.0.2"));
}

// Images of containers set OMPI_VERSION as the version to be installed.
TEST(Launcher, AVersionInTheEnvironmentIsNotYetTheLaunchers) {
  for (const char* version : {"4.0.1", "5.0.11", "latest", ""}) {
    const Variables image{{"OMPI_VERSION", version}};
    EXPECT_TRUE(starts(both(image, kOpenMpi4), "Open MPI v4.1.4")) << version;
    EXPECT_FALSE(starts(both(image, kOpenMpi4), "Open MPI v5.0.11")) << version;
    EXPECT_TRUE(starts(both(image, kMpich), "MPICH Version:\t4.0.2")) << version;
  }
  const Variables image{{"OMPI_VERSION", "4.0.1"}};
  EXPECT_TRUE(starts(both(image, kOpenMpi5), "Open MPI v5.0.11")) << "it was not overwritten";
}

TEST(Launcher, VariablesWithoutALauncherBehindThemAreRefused) {
  for (const char* library : {"Open MPI v5.0.11", "Open MPI v4.1.4", "MPICH Version:\t4.0.2"}) {
    EXPECT_FALSE(starts(kOnlyCounted, library)) << library;
    EXPECT_FALSE(starts(kStep, library)) << "srun --mpi=none, " << library;
  }
}

// Something has left its variables to a process that is alone: it is rank 1 of nobody.
TEST(Launcher, WhateverItsNumberAProcessThatNobodyHasStartedSaysWhy) {
  EXPECT_TRUE(with(kOnlyCounted).speaks());
  EXPECT_FALSE(with(kMpich).speaks()) << "rank 0 says it";
  EXPECT_FALSE(with(kOpenMpi5).speaks());
  EXPECT_FALSE(with(kStep).speaks()) << "a step has all its tasks";
  EXPECT_TRUE(with({}).speaks());
}

TEST(Launcher, SrunServesWhatItsPluginSpeaks) {
  const Variables pmix = both(kStep, {{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "x"}});
  const Variables pmi2 = both(kStep, kMpich);
  EXPECT_TRUE(starts(pmix, "Open MPI v5.0.11"));
  EXPECT_FALSE(starts(pmi2, "Open MPI v5.0.11"));
  EXPECT_TRUE(starts(pmi2, "Open MPI v4.1.4"));
  EXPECT_TRUE(starts(pmi2, "MPICH Version:\t4.0.2"));
}

// Slurm's own PMI has no variable of its own: whether an MPI was built with it only MPI knows.
TEST(Launcher, PlainSrunMayBeTriedWhereSlurmsPmiCouldBeBuiltIn) {
  const Variables plain = both(kStep, {{"SLURM_SRUN_COMM_PORT", "37321"}});
  EXPECT_TRUE(starts(plain, "Open MPI v4.1.4"));
  EXPECT_TRUE(starts(plain, "MPICH Version:\t4.0.2"));
  EXPECT_FALSE(starts(plain, "Open MPI v5.0.11")) << "it has PMIx alone";
  EXPECT_FALSE(starts(both(kOpenMpi4, plain), "Open MPI v5.0.11")) << "mpirun in a step";
}

TEST(Launcher, AnMpiOfWhichNothingIsKnownMayTry) {
  EXPECT_TRUE(starts(kMpich, "Intel(R) MPI Library 2021.9"));
}

std::string refusal(const Variables& variables) {
  return check_launcher(with(variables), "Open MPI v5.0.11", "/opt/bin/mpirun").message();
}

TEST(Launcher, TheMessageSaysWhatToUse) {
  EXPECT_EQ(refusal(kMpich),
            "2 ranks were started over PMI, as by mpiexec of MPICH or Intel MPI. This program was "
            "built with Open MPI v5.0.11, which that cannot start: use /opt/bin/mpirun");
}

TEST(Launcher, TheMessageBlamesNoLauncherThatIsNotThere) {
  EXPECT_EQ(refusal(kOnlyCounted),
            "PMI_SIZE in the environment says that there are 2 ranks, but there is nothing by "
            "which MPI could reach a launcher: something else has left the variable, or srun was "
            "given another --mpi. This program was built with Open MPI v5.0.11: use "
            "/opt/bin/mpirun, or unset the variable for a process that is alone");
}

TEST(Launcher, NonsenseIsAsIfUnset) {
  EXPECT_TRUE(with({{"OMPI_COMM_WORLD_SIZE", "many"}}).alone());
  EXPECT_TRUE(with({{"PMI_SIZE", ""}, {"PMI_RANK", "0"}}).alone());
}

}  // namespace
}  // namespace swarmpi::launcher_test
