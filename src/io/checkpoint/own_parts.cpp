#include "io/checkpoint/own_parts.hpp"

#include <filesystem>

#include "io/checkpoint/manifest.hpp"
#include "io/descriptor.hpp"
#include "io/files.hpp"

namespace swarmpi {
namespace {

constexpr double kLostAfterS = 15 * 60;

void remove_unless_complete(const std::string& path) {
  const std::string folder = folder_of(path);
  refresh_folder(folder);
  std::error_code error;
  if (std::filesystem::exists(folder + "/" + kManifestName, error) || error) return;
  (void)remove_file(path);
  (void)remove_empty_folder(folder);
}

}  // namespace

void OwnParts::remove_lost(double now_s) {
  while (!parts_.empty() && now_s - parts_.front().written_s >= kLostAfterS) {
    remove_unless_complete(parts_.front().path);
    parts_.pop_front();
  }
}

}  // namespace swarmpi
