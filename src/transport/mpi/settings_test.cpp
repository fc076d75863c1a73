#include "transport/mpi/settings.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace swarmpi::settings_test {
namespace {

std::string value_of(const std::vector<MpiSetting>& settings, const std::string& name) {
  const auto found = std::find_if(settings.begin(), settings.end(),
                                  [&](const MpiSetting& setting) { return setting.name == name; });
  return found == settings.end() ? "" : found->value;
}

TEST(MpiSettings, OnlyLibrariesThatKnowThemGetThem) {
  EXPECT_TRUE(mpi_settings("Open MPI v4.1.4", false).empty());
  EXPECT_TRUE(mpi_settings("MPICH Version:      4.0.2", false).empty());
  EXPECT_FALSE(mpi_settings("Open MPI v5.0.11", false).empty());
}

TEST(MpiSettings, TransportsAreChosenOnlyToSurviveLostRanks) {
  EXPECT_EQ(value_of(mpi_settings("Open MPI v5.0.11", true), "OMPI_MCA_pml"), "ob1");
  EXPECT_EQ(value_of(mpi_settings("Open MPI v5.0.11", false), "OMPI_MCA_pml"), "");
}

TEST(MpiSettings, NamesTransportsThatOthersHaveChosen) {
  const auto said = [](std::string_view library, bool fault_tolerant,
                       const std::map<std::string, std::string>& variables) {
    return other_transports(library, fault_tolerant, [&](const char* name) {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    });
  };
  const std::string_view open_mpi = "Open MPI v5.0.11";
  EXPECT_EQ(said(open_mpi, true, {{"OMPI_MCA_pml", "ucx"}, {"OMPI_MCA_btl", "tcp"}}),
            "OMPI_MCA_pml=ucx, OMPI_MCA_btl=tcp (set in the environment or by --mca of mpirun): "
            "under --with-ft ulfm only OMPI_MCA_pml=ob1, OMPI_MCA_btl=self,sm,tcp is known to "
            "start and to survive lost ranks; unset it if MPI fails");
  EXPECT_EQ(said(open_mpi, true, {{"OMPI_MCA_pml", "ob1"}, {"OMPI_MCA_btl", "self,sm,tcp"}}), "");
  EXPECT_EQ(said(open_mpi, true, {}), "");
  EXPECT_EQ(said(open_mpi, false, {{"OMPI_MCA_pml", "ucx"}}), "");
  EXPECT_EQ(said("MPICH Version:      4.0.2", true, {{"OMPI_MCA_pml", "ucx"}}), "");
}

}  // namespace
}  // namespace swarmpi::settings_test
