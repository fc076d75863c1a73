#include "core/version.hpp"

// cmake/SwarmpiVersion.cmake writes this header before every build; a build without it is still a
// build.
#if __has_include("swarmpi_build.hpp")
#include "swarmpi_build.hpp"
#endif
#ifndef SWARMPI_BUILD_VERSION
#define SWARMPI_BUILD_VERSION "unknown"
#define SWARMPI_BUILD_COMMIT "unknown"
#define SWARMPI_BUILD_TYPE "unknown"
#define SWARMPI_BUILD_FLAGS "unknown flags"
#define SWARMPI_BUILD_ARCHITECTURE "unknown"
#endif

namespace swarmpi {
namespace {

#if defined(__clang__)
constexpr const char* kCompiler = "Clang " __clang_version__;
#elif defined(__GNUC__)
constexpr const char* kCompiler = "GCC " __VERSION__;
#else
constexpr const char* kCompiler = "unknown compiler";
#endif

}  // namespace

const BuildInfo& build_info() {
  static const BuildInfo info{
      SWARMPI_BUILD_VERSION, SWARMPI_BUILD_COMMIT, kCompiler,
      SWARMPI_BUILD_TYPE,    SWARMPI_BUILD_FLAGS,  SWARMPI_BUILD_ARCHITECTURE};
  return info;
}

std::string version_line() { return build_info().version + " (" + build_info().commit + ")"; }

std::string build_line() {
  const BuildInfo& info = build_info();
  return info.compiler + ", " + info.build_type + ", native kernels for " + info.architecture +
         ", " + info.flags;
}

}  // namespace swarmpi
