#include "io/checkpoint/checkpoint.hpp"

#include <fmt/core.h>

#include <filesystem>
#include <utility>

#include "core/hash.hpp"
#include "io/checkpoint/folder.hpp"
#include "io/checkpoint/leader_file.hpp"
#include "io/checkpoint/manifest.hpp"
#include "io/checkpoint/stage_file.hpp"
#include "io/files.hpp"

namespace swarmpi {

namespace fs = std::filesystem;

namespace {

/// What a person who named a checkpoint that is not there can look at: the complete ones that are,
/// and the folder that a relative path begins at.
std::string near_missing(const std::string& path) {
  std::string there;
  for (const CheckpointEntry& entry : list_checkpoints(folder_of(path))) {
    if (entry.complete) there += " step-" + std::to_string(entry.step);
  }
  std::string text;
  if (is_step_name(fs::path(path).filename().string())) {
    text = "; folder " + folder_of(path) + " has" + (there.empty() ? " none" : there);
  }
  std::error_code unknown;
  const std::string here = fs::current_path(unknown).string();
  if (fs::path(path).is_relative() && !unknown) text += "; the working directory is " + here;
  return text;
}

/// For the message that `checkpoint` is damaged: which one before it to try.
std::string older_one(const std::string& checkpoint) {
  std::int64_t step = 0;
  if (!is_step_name(fs::path(checkpoint).filename().string(), &step)) return "";
  std::string older;
  for (const CheckpointEntry& entry : list_checkpoints(folder_of(checkpoint))) {
    if (entry.complete && entry.step < step)
      older = checkpoint_path(folder_of(checkpoint), entry.step);
  }
  return older.empty() ? "; there is no older one beside it" : "; an older one to try is " + older;
}

/// The folder of one checkpoint, from the path that a person gave.
Result<std::string> find_checkpoint(const std::string& path, bool& none_there) {
  std::error_code ignored;
  const bool one = is_step_name(fs::path(path).filename().string());
  if (!fs::exists(path, ignored)) {
    // A step that was named must be there; a folder of checkpoints may not exist yet.
    none_there = !one;
    return Status::bad_input("there is no checkpoint " + path + near_missing(path));
  }
  if (!fs::is_directory(path, ignored)) {
    return Status::bad_input(path + " is not a checkpoint: a checkpoint is a folder step-N");
  }
  if (fs::exists(fs::path(path) / kManifestName, ignored)) return path;
  if (one) {
    return Status::bad_input(
        path + " is not complete: it has no manifest, so it was being written or " +
        "removed when its run ended; name another step-N or the folder of them");
  }
  const std::vector<CheckpointEntry> entries = list_checkpoints(path);
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    if (entry->complete) return entry->path;
  }
  none_there = true;
  return Status::bad_input("there is no complete checkpoint in folder " + path);
}

Status verify(const std::string& folder, const StoredFile& file) {
  const std::string path = folder + "/" + file.name;
  const auto refused = [&](const std::string& why) {
    return Status::bad_input(
        fmt::format("checkpoint {} cannot be used: {}{}", folder, why, older_one(folder)));
  };
  std::error_code error;
  const auto size_bytes = static_cast<std::int64_t>(fs::file_size(path, error));
  if (error) return refused(file.name + " cannot be read: " + error.message());
  if (size_bytes != file.size_bytes) {
    return refused(
        fmt::format("{} is cut off or was replaced: it has {} bytes, the manifest says {}",
                    file.name, size_bytes, file.size_bytes));
  }
  const Result<FileHash> found = hash_file(path);
  if (!found.ok()) return refused(found.status().message());
  if (found.value().hash != file.hash) {
    return refused(
        fmt::format("{} is damaged or was replaced: its hash is {}, the manifest says {}",
                    file.name, hex(found.value().hash), hex(file.hash)));
  }
  return {};
}

/// A checkpoint whose leader's file is verified and read.
struct OpenedLeader {
  std::string folder;
  Manifest manifest;
  LeaderFile leader;
};

Result<OpenedLeader> open_leader(const std::string& path, bool* none_there) {
  bool none = false;
  const std::size_t last = path.find_last_not_of('/');
  const Result<std::string> found = find_checkpoint(path.substr(0, last + 1), none);
  if (none_there != nullptr) *none_there = none;
  if (!found.ok()) return found.status();
  const std::string& folder = found.value();

  const std::string manifest_path = folder + "/" + kManifestName;
  const Result<std::string> text = read_file(manifest_path);
  if (!text.ok()) return text.status();
  const Result<Manifest> manifest = parse_manifest(text.value(), manifest_path);
  if (!manifest.ok()) {
    return Status::bad_input(manifest.status().message() + older_one(folder));
  }
  if (Status good = verify(folder, manifest.value().leader); !good.ok()) return good;
  Result<LeaderFile> leader = read_leader_file(folder + "/" + manifest.value().leader.name);
  if (!leader.ok()) return leader.status();
  if (leader.value().head.state.step != manifest.value().step) {
    return Status::bad_input(manifest_path +
                             " and the leader's file beside it are of different steps");
  }
  return OpenedLeader{folder, manifest.value(), std::move(leader).value()};
}

}  // namespace

std::string checkpoint_path(const std::string& folder, std::int64_t step) {
  return folder + "/step-" + std::to_string(step);
}

Status write_manifest(const std::string& checkpoint, const CheckpointHead& head,
                      const History& history, const std::vector<StoredFile>& files,
                      std::int64_t term) {
  if (Status created = create_folder(checkpoint); !created.ok()) return created;
  // Another process may have created the folder and died before it synced the entry.
  if (Status synced = sync_path(folder_of(checkpoint)); !synced.ok()) return synced;
  const std::string name = fmt::format("leader.term-{}.h5", term);
  const Result<StoredFile> leader = write_leader_file(checkpoint, name, head, history);
  if (!leader.ok()) return leader.status();
  const Manifest manifest{head.state.step, leader.value(), files};
  return write_file_durably(checkpoint + "/" + kManifestName, manifest_text(manifest));
}

Result<Checkpoint> Checkpoint::open(const std::string& path, bool* none_there) {
  Result<OpenedLeader> opened = open_leader(path, none_there);
  if (!opened.ok()) return opened.status();
  auto& [folder, manifest, leader] = opened.value();

  Checkpoint checkpoint;
  checkpoint.path_ = folder;
  checkpoint.head_ = std::move(leader.head);
  checkpoint.history_ = std::move(leader.history);
  checkpoint.files_ = manifest.stages;
  for (const StoredFile& file : manifest.stages) {
    if (Status good = verify(folder, file); !good.ok()) return good;
    const std::string stage_path = folder + "/" + file.name;
    const Result<std::vector<std::string>> names = stage_file_names(stage_path);
    if (!names.ok()) return names.status();
    for (const std::string& name : names.value()) checkpoint.file_of_tensor_[name] = stage_path;
  }
  return checkpoint;
}

Result<CheckpointHead> Checkpoint::read_head(const std::string& path, bool* none_there) {
  Result<OpenedLeader> opened = open_leader(path, none_there);
  if (!opened.ok()) return opened.status();
  return std::move(opened.value().leader.head);
}

Status Checkpoint::read(const TensorState& tensor) const {
  const auto file = file_of_tensor_.find(tensor.name);
  if (file == file_of_tensor_.end()) {
    return Status::bad_input("checkpoint " + path_ + " has no tensor " + tensor.name);
  }
  return read_stage_tensor(file->second, tensor);
}

}  // namespace swarmpi
