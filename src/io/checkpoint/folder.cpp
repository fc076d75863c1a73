#include "io/checkpoint/folder.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <regex>

#include "io/checkpoint/checkpoint.hpp"
#include "io/checkpoint/manifest.hpp"
#include "io/checkpoint/stored_rows.hpp"
#include "io/descriptor.hpp"
#include "io/files.hpp"
#include "io/temporary_file.hpp"

namespace swarmpi {

namespace fs = std::filesystem;

namespace {

/// A manifest of files that were found damaged.
constexpr char kSetAsideName[] = "manifest.damaged";

/// Whether this program writes files of that name into a checkpoint: others, such as a person's
/// notes, are not removed.
bool is_ours(const std::string& name) {
  static const std::regex kPart(R"(stage-\d+\.term-\d+\.peer-\d+\.h5|leader\.term-\d+\.h5)");
  return std::regex_match(name, kPart) || is_segment_name(name) || is_temporary_name(name) ||
         name == kSetAsideName;
}

Status removed(const std::string& path, int error) {
  return error == 0 ? Status() : io_error("removing", path, error);
}

/// The manifest goes first: a kill in between leaves garbage, never a checkpoint that cannot be
/// read.
Status remove_checkpoint(const CheckpointEntry& entry) {
  if (entry.complete) {
    const std::string manifest = entry.path + "/" + kManifestName;
    if (Status gone = removed(manifest, remove_file(manifest)); !gone.ok()) return gone;
    if (Status synced = sync_path(entry.path); !synced.ok()) return synced;
  }
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator at(entry.path, error), end; !error && at != end;
       at.increment(error)) {
    if (is_ours(at->path().filename().string())) files.push_back(at->path().string());
  }
  for (const std::string& file : files) {
    if (Status gone = removed(file, remove_file(file)); !gone.ok()) return gone;
  }
  return removed(entry.path, remove_empty_folder(entry.path));
}

}  // namespace

std::string checkpoints_beside(const std::string& run_file) {
  fs::path path(run_file);
  if (path.extension() == ".h5") path.replace_extension();
  return path.string() + ".checkpoints";
}

bool is_step_name(const std::string& name, std::int64_t* step) {
  constexpr std::string_view kPrefix = "step-";
  if (name.rfind(kPrefix, 0) != 0) return false;
  std::int64_t number = -1;
  std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), number);
  if (number < 0 || name != std::string(kPrefix) + std::to_string(number)) return false;
  if (step != nullptr) *step = number;
  return true;
}

std::vector<CheckpointEntry> list_checkpoints(const std::string& folder) {
  std::vector<CheckpointEntry> entries;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    CheckpointEntry entry;
    std::error_code ignored;
    if (!is_step_name(at->path().filename().string(), &entry.step)) continue;
    const fs::file_type type = at->symlink_status(ignored).type();
    entry.link = type == fs::file_type::symlink;
    if (!entry.link && type != fs::file_type::directory) continue;
    entry.path = at->path().string();
    entry.complete = fs::exists(at->path() / kManifestName, ignored);
    entries.push_back(entry);
  }
  std::sort(entries.begin(), entries.end(),
            [](const CheckpointEntry& a, const CheckpointEntry& b) { return a.step < b.step; });
  return entries;
}

Status refuse_broken_link(const CheckpointEntry& entry) {
  if (!entry.link || entry.complete) return {};
  std::error_code unknown;
  return Status::bad_input(fmt::format(
      "{} is a link to {}, where no complete checkpoint is: mount its disk, or remove the link",
      entry.path, fs::read_symlink(entry.path, unknown).string()));
}

Status set_aside(const std::string& checkpoint) {
  std::error_code error_code;
  if (fs::is_symlink(checkpoint, error_code)) {
    return Status::stopped(checkpoint +
                           " is a link to a checkpoint that is damaged: remove the link");
  }
  const std::string from = checkpoint + "/" + kManifestName;
  const int error = rename_file(from, checkpoint + "/" + kSetAsideName);
  if (error != 0 && error != ENOENT) return io_error("renaming", from, error);
  return sync_path(checkpoint);
}

bool is_set_aside(const std::string& checkpoint) {
  std::error_code error;
  const fs::path folder(checkpoint);
  return fs::exists(folder / kSetAsideName, error) && !fs::exists(folder / kManifestName, error);
}

void remove_dropped(const std::string& checkpoint) {
  std::error_code error;
  for (const char* manifest : {kManifestName, kSetAsideName}) {
    if (fs::exists(fs::path(checkpoint) / manifest, error) || error) return;
  }
  (void)remove_checkpoint({.path = checkpoint});
}

Status prune_checkpoints(const std::string& folder, std::int64_t keep, const MayPublish& may) {
  std::int64_t newer = 0;  // complete checkpoints seen so far, newest first
  std::vector<CheckpointEntry> entries = list_checkpoints(folder);
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    if (entry->link) continue;
    const bool kept = entry->complete ? keep <= 0 || newer < keep : newer == 0;
    if (entry->complete) ++newer;
    if (kept) continue;
    if (Status allowed = may ? may() : Status(); !allowed.ok()) return allowed;
    if (Status gone = remove_checkpoint(*entry); !gone.ok()) return gone;
  }
  return {};
}

}  // namespace swarmpi
