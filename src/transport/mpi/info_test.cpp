#include "transport/mpi/info.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

namespace swarmpi::info_test {
namespace {

TEST(MpiInfo, IsKnownWithoutStartingMpi) {
  const MpiInfo info = mpi_info();
  EXPECT_FALSE(info.library.empty());
  EXPECT_EQ(info.library.find('\n'), std::string::npos);
  EXPECT_FALSE(info.survives.empty());
  EXPECT_FALSE(info.idle.empty());
  int started = 1;
  ASSERT_EQ(MPI_Initialized(&started), MPI_SUCCESS);
  EXPECT_EQ(started, 0);
}

}  // namespace
}  // namespace swarmpi::info_test
