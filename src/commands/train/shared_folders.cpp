#include "commands/train/shared_folders.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <thread>

#include "commands/train/handshake.hpp"
#include "config/deck.hpp"
#include "core/clock.hpp"
#include "core/machine.hpp"
#include "io/descriptor.hpp"
#include "io/files.hpp"

namespace swarmpi {
namespace {

namespace fs = std::filesystem;

// How long a file may take to be seen elsewhere. Its name is new, and nobody asks for it before it
// is there, so that no host remembers it to be missing; this is for servers that are busy.
constexpr double kSeenWithinS = 10;
constexpr std::chrono::milliseconds kPause(50);

struct OutputFolder {
  const char* key;
  const char* what;
  std::string path;
};

std::vector<OutputFolder> folders_of(const OutputPaths& paths) {
  return {{"output.run", "the folder of the run file", folder_of(paths.run_file)},
          {"output.checkpoint", "the folder of the checkpoints", paths.checkpoints}};
}

// Which file systems this process sees: those of its host, or of a container.
std::string mounts_of_this_process() {
  std::error_code unknown;
  return host_name() + " " + fs::read_symlink("/proc/self/ns/mnt", unknown).string();
}

// Unique among all processes on all hosts, containers with equal names and numbers included.
std::string unique_name() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return fmt::format(".shared-{}-{}-{:x}", host_name(), getpid(),
                     std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

// The folders on the way to this one, itself included, that do not exist; parents first.
std::vector<std::string> missing_on_the_way_to(const fs::path& folder) {
  std::vector<std::string> missing;
  std::error_code error;
  for (fs::path path = fs::absolute(folder, error); !fs::exists(path, error);
       path = path.parent_path()) {
    if (path.has_filename()) missing.push_back(path.string());
    if (path == path.parent_path()) break;
  }
  std::reverse(missing.begin(), missing.end());
  return missing;
}

bool can_open(const std::string& path) { return Descriptor::open(path, O_RDONLY).valid(); }

}  // namespace

FolderProbes::FolderProbes(const OutputPaths& paths) : name_(unique_name()) {
  for (const OutputFolder& folder : folders_of(paths)) {
    const std::vector<std::string> missing = missing_on_the_way_to(folder.path);
    if (const Status created = create_folder(folder.path); !created.ok()) {
      status_ = Status::bad_input(fmt::format("{}: {}", folder.key, created.message()));
      return;
    }
    made_.insert(made_.end(), missing.begin(), missing.end());
    const std::string path = folder.path + "/" + name_;
    // The second folder may be the first.
    const Descriptor file = Descriptor::open(path, O_WRONLY | O_CREAT);
    if (!file.valid()) {
      status_ = Status::bad_input(
          fmt::format("{}: cannot write {}: {}", folder.key, path, std::strerror(errno)));
      return;
    }
    files_.push_back(path);
  }
}

FolderProbes::~FolderProbes() { remove_files(); }

void FolderProbes::remove_files() {
  for (const std::string& path : files_) ::unlink(path.c_str());
  files_.clear();
}

void FolderProbes::remove_folders() {
  for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder) ::rmdir(folder->c_str());
}

Status check_probes_seen(const OutputPaths& paths, const std::string& name,
                         const std::string& maker) {
  const WallClock clock;
  for (const OutputFolder& folder : folders_of(paths)) {
    const std::string path = folder.path + "/" + name;
    while (!can_open(path)) {
      if (clock.now_s() >= kSeenWithinS) {
        return Status::bad_input(
            fmt::format("{}: it does not see {}, which {} has written: {} must be on a file system "
                        "that all hosts "
                        "share, under the same path; choose another, or mount it on all hosts",
                        folder.key, path, maker, folder.what));
      }
      refresh_folder(folder.path);
      std::this_thread::sleep_for(kPause);
    }
  }
  return {};
}

void remove_probes(const OutputPaths& paths, const std::string& name) {
  for (const OutputFolder& folder : folders_of(paths)) {
    ::unlink((folder.path + "/" + name).c_str());
  }
}

Status prove_folders_shared(MpiSession& session, const Config& config, const OutputPaths& paths) {
  if (session.ranks() == 1) return {};
  const auto self = static_cast<std::size_t>(session.rank());
  const std::vector<std::string> mounts = session.gather(mounts_of_this_process());
  const auto begin = mounts.begin();
  const bool shows =
      std::find(begin, begin + session.rank(), mounts[self]) == begin + session.rank();

  std::optional<FolderProbes> probes;
  if (shows) probes.emplace(paths);
  Status status = all_agree(session, with_place(config, probes ? probes->status() : Status()));
  if (status.ok()) {
    const std::vector<std::string> names = session.gather(probes ? probes->name() : "");
    const auto look = [&](std::size_t rank) {
      const std::string host = mounts[rank].substr(0, mounts[rank].find(' '));
      return check_probes_seen(paths, names[rank], fmt::format("rank {} on {}", rank, host));
    };
    Status seen;
    if (self != 0) seen = look(0);
    for (std::size_t rank = 1; self == 0 && seen.ok() && rank < names.size(); ++rank) {
      if (!names[rank].empty()) seen = look(rank);
    }
    status = all_agree(session, with_place(config, seen));
  }
  if (probes) probes->remove_files();
  if (status.ok()) return status;
  // Nothing is left of a start that has failed: all have removed their files by then.
  (void)session.gather("");
  if (probes) probes->remove_folders();
  return status;
}

}  // namespace swarmpi
