#include "commands/train/output_paths.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "core/machine.hpp"
#include "core/regular_file.hpp"
#include "io/checkpoint/folder.hpp"
#include "io/checkpoint/manifest.hpp"
#include "io/files.hpp"
#include "io/journal/journal.hpp"
#include "runtime/assembly.hpp"

namespace swarmpi {
namespace {

namespace fs = std::filesystem;

bool exists(const std::string& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

/// A file in the folder of the checkpoints: a line that tells whose it is, the path of the run
/// file, and that of the folder, by which a copy of the folder is known.
constexpr char kOwnerName[] = "swarmpi-owner";
constexpr std::string_view kOwnerMark = "swarmpi owner 1\n";

// The same for all names of one file or folder.
std::string whole_path(const std::string& path) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(fs::absolute(path, error), error);
  if (error) return path;
  return (whole.filename().empty() ? whole.parent_path() : whole).string();
}

std::string owner_text(const OutputPaths& paths) {
  return fmt::format("{}{}\n{}\n", kOwnerMark, whole_path(paths.run_file),
                     whole_path(paths.checkpoints));
}

// The newest complete checkpoint's step, but for these; -1 if there is none.
std::int64_t latest_checkpoint(const std::string& folder,
                               const std::vector<DamagedCheckpoint>& but_for = {}) {
  std::int64_t latest = -1;
  for (const CheckpointEntry& entry : list_checkpoints(folder)) {
    std::error_code error;
    const bool left_out =
        std::any_of(but_for.begin(), but_for.end(), [&](const DamagedCheckpoint& damaged) {
          return damaged.step == entry.step && fs::equivalent(damaged.path, entry.path, error);
        });
    if (entry.complete && !left_out) latest = entry.step;
  }
  return latest;
}

// The same folder, or a copy: the manifest has the hashes of all files.
bool is_same_checkpoint(const std::string& a, const std::string& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error)) return true;
  const Result<std::string> of_a = read_file(a + "/" + kManifestName);
  const Result<std::string> of_b = read_file(b + "/" + kManifestName);
  return of_a.ok() && of_b.ok() && of_a.value() == of_b.value();
}

Status refuse_existing(const OutputPaths& paths) {
  for (const std::string& path : {paths.run_file, paths.journal}) {
    if (!exists(path)) continue;
    return Status::bad_input(fmt::format(
        "{} exists: choose another --out, or go on from its checkpoints with --resume {}", path,
        paths.checkpoints));
  }
  if (const auto step = latest_checkpoint(paths.checkpoints); step >= 0) {
    return Status::bad_input(
        fmt::format("output.checkpoint: {} holds a checkpoint of an earlier run (step-{}): set "
                    "output.checkpoint to another folder, or go on with --resume {}",
                    paths.checkpoints, step, paths.checkpoints));
  }
  return {};
}

Status checkpoints_in_use(const OutputPaths& paths, const std::string& owner) {
  return Status::bad_input(
      fmt::format("output.checkpoint: {} is in use by the run that writes {}: set "
                  "output.checkpoint to another folder",
                  paths.checkpoints, owner.empty() ? "another file" : owner));
}

std::string owner_path(const OutputPaths& paths) { return paths.checkpoints + "/" + kOwnerName; }

struct OwnerFile {
  Descriptor file;               // invalid if there is none that can be read
  std::string run_file, folder;  // "" if it does not say
};

// Whether a crash may have left this of an owner's file.
bool is_rest_of_owner(const std::string& text) {
  const std::string_view mark = kOwnerMark.substr(0, text.size());
  return text.starts_with(mark) || text == std::string(text.size(), '\0');
}

// A link, or a file that something else wrote, is left as it is. Errors: bad_input.
Result<OwnerFile> open_owner(const OutputPaths& paths, int flags) {
  constexpr std::int64_t kMostBytes = 1 << 16;
  const std::string path = owner_path(paths);
  const auto refused = [&path](const std::string& why) {
    return Status::bad_input(
        fmt::format("output.checkpoint: {} cannot be used: {}; remove it, or set output.checkpoint "
                    "to another folder",
                    path, why));
  };
  OwnerFile owner{Descriptor::open(path, flags | O_NOFOLLOW), "", ""};
  if (!owner.file.valid()) {
    const int error = errno;
    if (error == ELOOP) return refused("it is a link");
    if ((flags & O_CREAT) == 0) return owner;
    const bool is_something_else =
        error == EACCES || error == EPERM || error == EISDIR || error == ENXIO;
    return is_something_else ? refused(std::strerror(error)) : io_error("opening", path, error);
  }
  const std::string why_not = why_not_read(owner.file.number(), kMostBytes);
  if (!why_not.empty()) return refused(why_not);
  std::string text(kMostBytes, '\0');
  const std::int64_t count = read_at(owner.file, text.data(), text.size(), 0);
  if (count < 0) return io_error("reading", path, errno);
  text.resize(static_cast<std::size_t>(count));
  if (!is_rest_of_owner(text)) return refused("SwarMPI did not write it");
  std::istringstream lines(text);
  std::getline(lines, owner.run_file);
  std::getline(lines, owner.run_file);
  std::getline(lines, owner.folder);
  return owner;
}

// Two runs with one folder would take each other's checkpoints for their own. Whoever leads holds
// the journal; the lock on the owner's name is held until the first leader is gone. A copy of the
// folder names the original, which may be written.
Status refuse_owner_that_runs(const OutputPaths& paths, const OwnerFile& owner) {
  std::error_code error;
  if (owner.run_file.empty() || owner.run_file == whole_path(paths.run_file)) return {};
  if (fs::exists(owner.folder, error) && !fs::equivalent(owner.folder, paths.checkpoints, error)) {
    return {};
  }
  if (!is_being_written(journal_folder(owner.run_file))) return {};
  return checkpoints_in_use(paths, owner.run_file);
}

Status refuse_checkpoints_of_a_running_run(const OutputPaths& paths) {
  const Result<OwnerFile> owner = open_owner(paths, O_RDONLY);
  return owner.ok() ? refuse_owner_that_runs(paths, owner.value()) : owner.status();
}

Status refuse_data_as_output(const OutputPaths& paths, const DataConfig& data) {
  std::error_code error;
  for (const auto& [key, files] : {std::pair("data.paths", &data.paths),
                                   std::pair("data.validation_paths", &data.validation_paths)}) {
    for (const std::string& path : *files) {
      if (!fs::equivalent(path, paths.run_file, error)) continue;
      return Status::bad_input(
          fmt::format("output.run: {} is one of {}: choose another --out", paths.run_file, key));
    }
  }
  return {};
}

Status prove_outputs_writable(const OutputPaths& paths, std::int64_t needed_bytes) {
  constexpr std::int64_t kTablesBytes = 1 << 20;
  std::error_code error;
  const bool ends_as_folder = fs::path(paths.run_file).filename().empty();
  if (ends_as_folder || fs::is_directory(paths.run_file, error)) {
    return Status::bad_input("output.run: " + paths.run_file + " is a folder: name a file");
  }
  if (Status status = refuse_what_is_no_file(paths.run_file); !status.ok()) {
    return Status::bad_input("output.run: " + status.message());
  }
  // A new version has a hidden name before, with this host's and a process's: io/temporary_file.
  constexpr std::size_t kLongerNames = 107;
  const std::string name = fs::path(paths.run_file).filename().string();
  if (name.size() > NAME_MAX - kLongerNames) {
    return Status::bad_input(fmt::format("output.run: the name {} is too long by {} bytes", name,
                                         name.size() - (NAME_MAX - kLongerNames)));
  }
  for (const std::string& taken : {paths.run_file, paths.journal}) {
    if (whole_path(paths.checkpoints) != whole_path(taken)) continue;
    return Status::bad_input("output.checkpoint: " + taken +
                             " is the run file or its journal: name another folder");
  }
  if (Status status = prove_writable(folder_of(paths.run_file), kTablesBytes); !status.ok()) {
    return Status::bad_input("output.run: " + status.message());
  }
  if (Status status = prove_writable(paths.checkpoints, needed_bytes); !status.ok()) {
    return Status::bad_input("output.checkpoint: " + status.message());
  }
  return {};
}

}  // namespace

OutputPaths output_paths(const TrainOptions& options, const Config& config) {
  const std::string run = options.out.value_or(config.output.run);
  std::string checkpoints = config.output.checkpoint;
  if (checkpoints.empty()) checkpoints = checkpoints_beside(run);
  return {run, journal_folder(run), checkpoints};
}

Status check_outputs(const OutputPaths& paths, const TrainOptions& options, const Config& config) {
  if (options.joins) return {};
  if (!options.resume) {
    if (Status status = refuse_existing(paths); !status.ok()) return status;
  }
  if (Status status = refuse_checkpoints_of_a_running_run(paths); !status.ok()) return status;
  // The run writes checkpoints of later steps only.
  const std::int64_t latest = latest_checkpoint(paths.checkpoints);
  for (const CheckpointEntry& entry : list_checkpoints(paths.checkpoints)) {
    if (entry.step < latest) continue;
    const Status whole = refuse_broken_link(entry);
    if (!whole.ok()) return Status::bad_input("output.checkpoint: " + whole.message());
  }
  if (Status status = refuse_data_as_output(paths, config.data); !status.ok()) return status;
  return prove_outputs_writable(paths, checkpoint_bytes(config));
}

Status set_aside_damaged(const OutputPaths& paths, const std::vector<DamagedCheckpoint>& damaged) {
  std::error_code error;
  for (const DamagedCheckpoint& one : damaged) {
    const std::string own = checkpoint_path(paths.checkpoints, one.step);
    if (!fs::equivalent(own, one.path, error)) continue;
    if (Checkpoint::open(own).ok()) {
      return Status::bad_input(fmt::format(
          "{} is whole on {}, but not as another host reads it ({}): see that host's disk and "
          "file system, or name an older checkpoint with --resume",
          own, host_name(), one.why));
    }
    const Status status = set_aside(own);
    if (status.ok()) continue;
    // Only a person can remove a link: no use in trying again.
    return fs::is_symlink(own, error) ? Status::bad_input(status.message()) : status;
  }
  return {};
}

Status refuse_other_checkpoints(const OutputPaths& paths, const Checkpoint* from) {
  const std::int64_t step = from == nullptr ? -1 : from->head().state.step;
  const std::int64_t latest = from == nullptr
                                  ? latest_checkpoint(paths.checkpoints)
                                  : latest_checkpoint(paths.checkpoints, from->passed_over());
  if (latest < step || latest < 0) return {};
  const std::string own = checkpoint_path(paths.checkpoints, latest);
  if (latest == step) {
    if (is_same_checkpoint(own, from->path())) return {};
    return Status::bad_input(
        fmt::format("output.checkpoint: {} is another checkpoint than {}, from which the run is to "
                    "go on: remove it, or choose another folder",
                    own, from->path()));
  }
  const std::string named = from == nullptr ? "there is none" : fmt::format("step-{}", step);
  return Status::bad_input(
      fmt::format("output.checkpoint: {} holds a later checkpoint (step-{}) than the one to resume "
                  "from ({}): resume from the later one, remove it, or choose another folder",
                  paths.checkpoints, latest, named));
}

Result<Descriptor> claim_checkpoints(const OutputPaths& paths) {
  if (Status status = create_folder(paths.checkpoints); !status.ok()) return status;
  Result<OwnerFile> owner = open_owner(paths, O_RDWR | O_CREAT);
  if (!owner.ok()) return owner.status();
  Descriptor& file = owner.value().file;
  if (::flock(file.number(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return checkpoints_in_use(paths, owner.value().run_file);
  }
  if (Status free = refuse_owner_that_runs(paths, owner.value()); !free.ok()) return free;
  const std::string text = owner_text(paths);
  int error = write_all_at(file, text, 0);
  if (error == 0 && ::ftruncate(file.number(), static_cast<off_t>(text.size())) != 0) error = errno;
  if (error == 0) error = sync_descriptor(file);
  if (error != 0) return io_error("writing", owner_path(paths), error);
  return std::move(file);
}

bool has_checkpoint(const OutputPaths& paths) { return latest_checkpoint(paths.checkpoints) >= 0; }

}  // namespace swarmpi
