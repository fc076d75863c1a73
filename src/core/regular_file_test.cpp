#include "core/regular_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>

namespace swarmpi::regular_file_test {
namespace {

TEST(WhyNotRead, NamesWhatIsNoRegularFile) {
  int ends[2] = {};
  const auto closed = [](int descriptor) {
    const std::string why = why_not_read(descriptor, 1000);
    ::close(descriptor);
    return why;
  };
  EXPECT_EQ(closed(::open("/", O_RDONLY)), "it is a folder, not a file");
  EXPECT_EQ(closed(::open("/dev/zero", O_RDONLY)), "it is a device, not a file");
  ASSERT_EQ(::pipe(ends), 0);
  for (const int end : ends) EXPECT_EQ(closed(end), "it is a pipe, not a file");
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  for (const int end : ends) EXPECT_EQ(closed(end), "it is a socket, not a file");
  EXPECT_EQ(why_not_read(-1, 1000), "Bad file descriptor");
}

TEST(WhyNotRead, BoundsTheSize) {
  std::FILE* const file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(::ftruncate(fileno(file), 1000), 0);
  EXPECT_EQ(why_not_read(fileno(file), 1000), "");
  EXPECT_EQ(why_not_read(fileno(file), 999), "it is too large: 1000 bytes, 999 are allowed");
  std::fclose(file);
}

}  // namespace
}  // namespace swarmpi::regular_file_test
