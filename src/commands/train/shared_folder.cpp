#include "commands/train/shared_folder.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "core/machine.hpp"
#include "core/text.hpp"

namespace swarmpi {
namespace {

constexpr int kAttempts = 100;

}  // namespace

SharedFolderProbe::SharedFolderProbe(const std::string& run_file) {
  std::error_code error;
  const auto folder = std::filesystem::absolute(run_file, error).parent_path();
  std::filesystem::create_directories(folder, error);
  std::FILE* file = nullptr;
  // Starts that were killed may have left theirs here.
  for (int attempt = 0; attempt < kAttempts && file == nullptr; ++attempt) {
    path_ = (folder /
             format(".shared-%s-%d-%d", host_name().c_str(), static_cast<int>(getpid()), attempt))
                .string();
    file = std::fopen(path_.c_str(), "wx");
    if (file == nullptr && errno != EEXIST) break;
  }
  if (file == nullptr) {
    status_ = Status::bad_input("cannot write " + path_ + ": " + std::strerror(errno));
    return;
  }
  std::fclose(file);
}

SharedFolderProbe::~SharedFolderProbe() {
  if (status_.ok()) unlink(path_.c_str());
}

Status see_probe(const std::string& path) {
  if (access(path.c_str(), F_OK) == 0) return {};
  return Status::bad_input(
      "the folder of the run file must be on a file system that all hosts "
      "share: " +
      host_name() + " does not see " + path);
}

}  // namespace swarmpi
