#include "io/checkpoint/own_parts.hpp"

#include <unistd.h>

#include <filesystem>

#include "io/checkpoint/manifest.hpp"
#include "io/file_calls.hpp"
#include "io/files.hpp"

namespace swarmpi {
namespace {

constexpr double kLostAfterS = 15 * 60;

void remove_unless_complete(const std::string& path) {
  const std::string folder = folder_of(path);
  const FileCall call("removing", path);
  if (call.refused()) return;
  refresh_folder(folder);
  std::error_code error;
  if (std::filesystem::exists(folder + "/" + kManifestName, error) || error) return;
  ::unlink(path.c_str());
  ::rmdir(folder.c_str());
}

}  // namespace

void OwnParts::remove_lost(double now_s) {
  while (!parts_.empty() && now_s - parts_.front().written_s >= kLostAfterS) {
    remove_unless_complete(parts_.front().path);
    parts_.pop_front();
  }
}

}  // namespace swarmpi
