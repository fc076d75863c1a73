#include "core/missing_file.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>

namespace swarmpi::missing_file_test {
namespace {

TEST(MissingFile, ARelativePathIsToldWhereItBegins) {
  const std::string here = std::filesystem::current_path().string();
  EXPECT_EQ(relative_to("runs/RUN.h5"), "; the working directory is " + here);
  EXPECT_EQ(relative_to("/runs/RUN.h5"), "");
  EXPECT_EQ(file_error("RUN.h5", ENOENT),
            "No such file or directory; the working directory is " + here);
}

TEST(MissingFile, OtherErrorsHaveNothingToDoWithTheFolder) {
  EXPECT_EQ(file_error("RUN.h5", EACCES), "Permission denied");
  EXPECT_EQ(file_error("/RUN.h5", ENOENT), "No such file or directory");
}

}  // namespace
}  // namespace swarmpi::missing_file_test
