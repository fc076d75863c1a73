#include "transport/mpi/settings.hpp"

#include <gtest/gtest.h>

#include <algorithm>

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

}  // namespace
}  // namespace swarmpi::settings_test
