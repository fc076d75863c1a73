#include "io/format_version.hpp"

#include <charconv>

#include "core/version.hpp"

namespace swarmpi {

Status check_version(const FileFormat& format, const std::string& version,
                     const std::string& path) {
  int number = 0;
  const char* const end = version.data() + version.size();
  const auto [stop, error] = std::from_chars(version.data(), end, number);
  const bool known = error == std::errc() && stop == end && number <= format.newest;
  if (known && number >= format.oldest) return {};
  const std::string read =
      format.oldest == format.newest
          ? "version " + std::to_string(format.newest)
          : "versions " + std::to_string(format.oldest) + " to " + std::to_string(format.newest);
  return Status::bad_input(path + " is " + format.what + " in version " + version +
                           " of its format, but this build, SwarMPI " + version_line() +
                           ", reads " + read + ": use the SwarMPI that wrote it" +
                           (known ? "" : ", or a newer one"));
}

}  // namespace swarmpi
