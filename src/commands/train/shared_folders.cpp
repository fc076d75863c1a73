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

#include "commands/train/handshake.hpp"
#include "config/deck.hpp"
#include "core/clock.hpp"
#include "core/machine.hpp"
#include "io/descriptor.hpp"
#include "io/files.hpp"
#include "io/temporary_file.hpp"

namespace swarmpi {
namespace {

namespace fs = std::filesystem;

// How long a file may take to be seen elsewhere. Its name is new, and nobody asks for it before it
// is there, so that no host remembers it to be missing; this is for servers that are busy.
constexpr double kSeenWithinS = 10;
// A process is started on the host of the rank that does so, and given up after 20 s.
constexpr double kSeenAtStarterWithinS = 5;

struct OutputFolder {
  const char* key;
  const char* what;
  std::string path;
};

std::vector<OutputFolder> folders_of(const OutputPaths& paths) {
  return {{"output.run", "the folder of the run file", folder_of(paths.run_file)},
          {"output.checkpoint", "the folder of the checkpoints", paths.checkpoints}};
}

// Which file systems this process sees: those of its host, or of a container. Hosts may have equal
// names, and numbers of name spaces; no two boots of a kernel have one number.
std::string mounts_of_this_process() {
  std::error_code unknown;
  const Result<std::string> boot = read_file("/proc/sys/kernel/random/boot_id");
  return host_name() + " " + fs::read_symlink("/proc/self/ns/mnt", unknown).string() + " " +
         (boot.ok() ? boot.value() : "");
}

// Beside this path a rank's files are temporary ones.
std::string stem_of(const OutputPaths& paths, int rank) {
  return fmt::format("{}.rank-{}", fs::path(paths.run_file).filename().string(), rank);
}

// Unique among all processes on all hosts, containers with equal names and numbers included.
std::string unique_name(const std::string& stem) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return temporary_name(
      stem, fmt::format("{}-{}-{:x}", host_name(), getpid(),
                        std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()));
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

FolderProbes::FolderProbes(const OutputPaths& paths, int rank)
    : name_(unique_name(stem_of(paths, rank))) {
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

namespace {

Status check_seen_within(const OutputPaths& paths, const std::string& name, const std::string& who,
                         const std::string& maker, double patience_s) {
  const WallClock clock;
  for (const OutputFolder& folder : folders_of(paths)) {
    const std::string path = folder.path + "/" + name;
    const auto look = [&path] { return can_open(path); };
    if (wait_until_seen(folder.path, look, patience_s - clock.now_s())) continue;
    return Status::bad_input(
        fmt::format("{}: {} does not see {}, which {} has written: {} must be on a file system "
                    "that all hosts share, under the same path; choose another, or mount it on all "
                    "hosts",
                    folder.key, who, path, maker, folder.what));
  }
  return {};
}

}  // namespace

Status check_probes_seen(const OutputPaths& paths, const std::string& name,
                         const std::string& maker) {
  return check_seen_within(paths, name, "it", maker, kSeenWithinS);
}

Status check_newcomers_probes(const OutputPaths& paths, const std::string& name) {
  return check_seen_within(paths, name, "the rank that has started it",
                           "the process that was started", kSeenAtStarterWithinS);
}

std::vector<std::string> probe_paths(const OutputPaths& paths, const std::string& name) {
  std::vector<std::string> found;
  if (name.empty()) return found;
  for (const OutputFolder& folder : folders_of(paths)) found.push_back(folder.path + "/" + name);
  return found;
}

void remove_probes(const OutputPaths& paths, const std::string& name) {
  for (const std::string& path : probe_paths(paths, name)) ::unlink(path.c_str());
}

Result<std::string> prove_folders_shared(MpiSession& session, const Config& config,
                                         const OutputPaths& paths) {
  for (const OutputFolder& folder : folders_of(paths)) {
    remove_temporary_files(folder.path + "/" + stem_of(paths, session.rank()));
  }
  const bool stays = config.swarm.spawn;
  if (session.alone() || (session.ranks() == 1 && !stays)) return std::string();
  const auto self = static_cast<std::size_t>(session.rank());
  const std::vector<std::string> mounts = session.gather(mounts_of_this_process());
  const auto begin = mounts.begin();
  const bool shows =
      std::find(begin, begin + session.rank(), mounts[self]) == begin + session.rank();

  std::optional<FolderProbes> probes;
  if (shows) probes.emplace(paths, session.rank());
  Status status = all_agree(session, with_place(config, probes ? probes->status() : Status()));
  std::vector<std::string> names(1);
  if (status.ok()) {
    names = session.gather(probes ? probes->name() : "");
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
  const bool keeps = status.ok() && stays && self == 0;
  if (probes && keeps) probes->leave_files();
  if (probes) probes->remove_files();
  if (status.ok()) return stays ? names[0] : std::string();
  // Nothing is left of a start that has failed: all have removed their files by then.
  (void)session.gather("");
  if (probes) probes->remove_folders();
  return status;
}

}  // namespace swarmpi
