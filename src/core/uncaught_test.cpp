#include "core/uncaught.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <new>
#include <system_error>
#include <thread>

namespace swarmpi::uncaught_test {
namespace {

void end_by(const std::function<void()>& thrower) {
  name_uncaught_exceptions();
  std::thread(thrower).join();
}

TEST(UncaughtException, IsNamedWhenItEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(end_by([] { throw std::bad_alloc(); }), "swarmpi: out of memory");
  EXPECT_DEATH(
      end_by([] {
        throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
      }),
      "swarmpi: .*no more threads may be started .see ulimit -u");
  EXPECT_DEATH(end_by([] { (void)std::filesystem::file_size("/no/such/file"); }),
               "swarmpi: .*No such file or directory.*/no/such/file");
}

}  // namespace
}  // namespace swarmpi::uncaught_test
