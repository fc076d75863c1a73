#include "transport/nccl/library.hpp"

#include <gtest/gtest.h>

namespace swarmpi::library_test {
namespace {

TEST(NcclLibrary, TellsItsVersionOrWhyThereIsNone) {
  const Result<const NcclLibrary*> library = NcclLibrary::load();
  if (library.ok()) {
    EXPECT_EQ(library.value()->version().rfind("2.", 0), 0u) << library.value()->version();
  } else {
    EXPECT_NE(library.status().message().find("NCCL"), std::string::npos)
        << library.status().message();
  }
}

TEST(NcclLibrary, IsLookedForOnce) {
  const Result<const NcclLibrary*> first = NcclLibrary::load();
  const Result<const NcclLibrary*> second = NcclLibrary::load();
  ASSERT_EQ(first.ok(), second.ok());
  if (first.ok()) {
    EXPECT_EQ(first.value(), second.value());
  }
}

}  // namespace
}  // namespace swarmpi::library_test
