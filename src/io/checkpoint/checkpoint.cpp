#include "io/checkpoint/checkpoint.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <type_traits>
#include <utility>

#include "core/clock.hpp"
#include "core/hash.hpp"
#include "core/missing_file.hpp"
#include "io/checkpoint/folder.hpp"
#include "io/checkpoint/leader_file.hpp"
#include "io/checkpoint/manifest.hpp"
#include "io/checkpoint/stage_file.hpp"
#include "io/checkpoint/stored_rows.hpp"
#include "io/files.hpp"
#include "kernels/fixed_point.hpp"

namespace swarmpi {

namespace fs = std::filesystem;

namespace {

/// What no run reaches: thirty thousand years, and one return to a checkpoint a second for as long.
constexpr double kLongestRunS = 1e12;
constexpr std::int64_t kMostIncarnations = 1'000'000'000'000;

/// Gradients are fp32: the largest is below 2^128. Exponents fall below those of fp32 only while
/// all gradients are zero, by one a step.
bool is_possible_exponent(std::int16_t exponent, std::int64_t step) {
  constexpr int kLargest = 128, kLeast = -1024;
  return exponent == kernels::kNoExponent || (exponent >= kLeast - step && exponent <= kLargest);
}

/// How long a file of a checkpoint may take to be seen on another host than that of its writer.
constexpr double kShownWithinS = 3;

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
  return text + relative_to(path);
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

/// The folders of the checkpoints that a person's path may mean, the best first: one that was
/// named, or all complete ones in a folder.
Result<std::vector<std::string>> find_candidates(const std::string& path, bool& none_there) {
  std::error_code ignored, error;
  const bool one = is_step_name(fs::path(path).filename().string());
  if (!fs::exists(path, error)) {
    // A step that was named must be there; a folder of checkpoints may not exist yet.
    none_there = !one && !error;
    return Status::bad_input("there is no checkpoint " + path + near_missing(path));
  }
  // A folder that cannot be read must not be taken for one without checkpoints.
  if (const fs::directory_iterator listing(path, error);
      error && error != std::errc::not_a_directory) {
    return Status::bad_input("cannot read folder " + path + ": " + error.message());
  }
  if (!fs::is_directory(path, ignored)) {
    return Status::bad_input(path + " is not a checkpoint: a checkpoint is a folder step-N");
  }
  if (fs::exists(fs::path(path) / kManifestName, ignored)) return std::vector{path};
  if (one) {
    return Status::bad_input(
        path + " is not complete: it has no manifest, so it was being written or " +
        "removed when its run ended; name another step-N or the folder of them");
  }
  std::vector<std::string> newest_first;
  const std::vector<CheckpointEntry> entries = list_checkpoints(path);
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    // A checkpoint that cannot be reached may be the newest one.
    const Status reached = newest_first.empty() ? refuse_broken_link(*entry) : Status();
    if (!reached.ok()) return reached;
    if (entry->complete) newest_first.push_back(entry->path);
  }
  none_there = newest_first.empty();
  if (!none_there) return newest_first;
  return Status::bad_input("there is no complete checkpoint in folder " + path);
}

enum class Look : std::uint8_t { whole, ends };

/// `damaged`: whether its content is not what the manifest says, or it is not there: not where it
/// cannot be read now, for that may pass.
Status verify(const std::string& folder, const StoredFile& file, std::int64_t trailer_bytes,
              Look look, bool& damaged) {
  const std::string path = folder + "/" + file.name;
  const auto refused = [&](const std::string& why) {
    return Status::bad_input(
        fmt::format("checkpoint {} cannot be used: {}{}", folder, why, older_one(folder)));
  };
  std::error_code error;
  const auto is_there = [&] { return fs::exists(path, error) || error; };
  damaged = !wait_until_seen(folder, is_there, kShownWithinS);
  const Result<OpenedFile> opened = open_to_read(path);
  if (!opened.ok()) return refused(file.name + " cannot be read: " + opened.status().message());
  damaged = true;
  const std::int64_t size_bytes = opened.value().size_bytes;
  if (size_bytes != file.size_bytes) {
    return refused(
        fmt::format("{} is cut off or was replaced: it has {} bytes, the manifest says {}",
                    file.name, size_bytes, file.size_bytes));
  }
  if (look == Look::whole) {
    const Result<FileHash> found = hash_file(path, trailer_bytes);
    damaged = found.ok();
    if (!found.ok()) return refused(found.status().message());
    if (found.value().hash != file.hash) {
      return refused(
          fmt::format("{} is damaged or was replaced: its hash is {}, the manifest says {}",
                      file.name, hex(found.value().hash), hex(file.hash)));
    }
  }
  const FileHash expected{file.hash, file.size_bytes};
  const Status ends = trailer_bytes == 0 ? Status() : check_trailer(path, expected);
  damaged = ends.code() == ExitStatus::bad_input;
  return ends.ok() ? ends : refused(ends.message());
}

/// A checkpoint whose leader's file is verified and read.
struct OpenedLeader {
  std::string folder;
  Manifest manifest;
  LeaderFile leader;
};

/// `damaged`: whether another checkpoint may be taken in its stead.
Result<OpenedLeader> open_leader(const std::string& folder, bool& damaged) {
  damaged = false;
  const std::string manifest_path = folder + "/" + kManifestName;
  const Result<std::string> text = read_file(manifest_path);
  if (!text.ok()) return text.status();
  // What a newer program wrote may be whole: a person must decide.
  if (Status known = check_manifest_version(text.value(), manifest_path); !known.ok()) {
    return Status::bad_input(known.message() + older_one(folder));
  }
  const Result<Manifest> manifest = parse_manifest(text.value(), manifest_path);
  damaged = !manifest.ok();
  if (damaged) return Status::bad_input(manifest.status().message() + older_one(folder));
  const StoredFile& file = manifest.value().leader;
  if (Status good = verify(folder, file, manifest.value().trailer_bytes, Look::whole, damaged);
      !good.ok()) {
    return good;
  }
  // What the manifest names is there: if it cannot be used, that is no accident.
  Result<LeaderFile> leader = read_leader_file(folder + "/" + file.name);
  if (!leader.ok()) return leader.status();
  if (leader.value().head.state.step != manifest.value().step) {
    return Status::bad_input(manifest_path +
                             " and the leader's file beside it are of different steps");
  }
  return OpenedLeader{folder, manifest.value(), std::move(leader).value()};
}

/// Opens the best of the checkpoints that the path may mean which is not damaged, nor known to be.
/// `open`: of one folder, as above. `passed_over` receives the better ones that are.
template <class Open>
std::invoke_result_t<Open, const std::string&, bool&> open_best(
    const std::string& path, const std::vector<DamagedCheckpoint>& known_damaged, bool* none_there,
    Open&& open, std::vector<DamagedCheckpoint>& passed_over) {
  bool none = false;
  const std::size_t last = path.find_last_not_of('/');
  const Result<std::vector<std::string>> found = find_candidates(path.substr(0, last + 1), none);
  if (none_there != nullptr) *none_there = none;
  if (!found.ok()) return found.status();
  for (const std::string& folder : found.value()) {
    std::int64_t step = -1;
    is_step_name(fs::path(folder).filename().string(), &step);
    const auto known = std::find_if(known_damaged.begin(), known_damaged.end(),
                                    [&](const auto& other) { return other.step == step; });
    if (known != known_damaged.end()) {
      passed_over.push_back({folder, step, known->why});
      continue;
    }
    bool damaged = false;
    auto opened = open(folder, damaged);
    if (!opened.ok() && !damaged) passed_over.clear();
    if (opened.ok() || !damaged) return opened;
    passed_over.push_back({folder, step, opened.status().message()});
  }
  return Status::bad_input(passed_over.front().why);
}

}  // namespace

std::string checkpoint_path(const std::string& folder, std::int64_t step) {
  return folder + "/step-" + std::to_string(step);
}

Result<std::optional<MissingPart>> find_missing_part(const std::string& checkpoint,
                                                     const std::vector<StoredFile>& files,
                                                     double patience_s) {
  if (Status created = create_folder(checkpoint); !created.ok()) return created;
  const WallClock clock;
  for (std::size_t number = 0; number < files.size(); ++number) {
    const std::string path = checkpoint + "/" + files[number].name;
    Status found;
    const auto look = [&] {
      found = check_trailer(path, {files[number].hash, files[number].size_bytes});
      return found.ok();
    };
    if (wait_until_seen(checkpoint, look, patience_s - clock.now_s())) continue;
    return std::optional(MissingPart{
        number, fmt::format("{} (looked for during {:.1f} s)", found.message(), patience_s)});
  }
  return std::optional<MissingPart>();
}

Status write_manifest(const std::string& checkpoint, const CheckpointHead& head,
                      const std::vector<StoredFile>& rows, const std::vector<StoredFile>& files,
                      std::int64_t term, const MayPublish& may_publish) {
  if (Status created = create_folder(checkpoint); !created.ok()) return created;
  // Another process may have created the folder and died before it synced the entry.
  if (Status synced = sync_path(folder_of(checkpoint)); !synced.ok()) return synced;
  const std::string name = fmt::format("leader.term-{}.h5", term);
  const Result<StoredFile> leader = write_leader_file(checkpoint, name, head);
  if (!leader.ok()) return leader.status();
  const Manifest manifest{
      .step = head.state.step, .leader = leader.value(), .stages = files, .rows = rows};
  return write_file_durably(checkpoint + "/" + kManifestName, manifest_text(manifest), may_publish);
}

Result<Checkpoint> Checkpoint::open_one(const std::string& folder, const CheckpointProof& proof,
                                        bool& damaged) {
  Result<OpenedLeader> opened = open_leader(folder, damaged);
  if (!opened.ok()) return opened.status();
  auto& [path, manifest, leader] = opened.value();
  Checkpoint checkpoint;
  checkpoint.path_ = path;
  checkpoint.leader_ = manifest.leader.name;
  checkpoint.head_ = std::move(leader.head);
  checkpoint.history_ = std::move(leader.history);
  checkpoint.files_ = manifest.stages;
  checkpoint.rows_ = manifest.rows;
  checkpoint.trailer_bytes_ = manifest.trailer_bytes;
  for (std::size_t number = 0; number < manifest.stages.size(); ++number) {
    const StoredFile& file = manifest.stages[number];
    const auto proves = [&](Look look) {
      return verify(folder, file, manifest.trailer_bytes, look, damaged);
    };
    const Look look = proof.reads(number) ? Look::whole : Look::ends;
    if (Status good = proves(look); !good.ok()) return good;
    if (look != Look::whole && !proof.lists_all) continue;
    const Result<std::vector<StoredTensor>> tensors = stage_file_tensors(folder + "/" + file.name);
    if (!tensors.ok()) {
      // What cannot be understood may be damaged.
      const Status good = proves(Look::whole);
      return good.ok() ? tensors.status() : good;
    }
    if (look == Look::whole) checkpoint.proven_.insert(number);
    for (const auto& [name, piece] : tensors.value()) {
      checkpoint.pieces_[name].push_back({number, piece});
    }
  }
  return checkpoint;
}

Result<Checkpoint> Checkpoint::open(const std::string& path, bool* none_there,
                                    std::vector<DamagedCheckpoint>* all_damaged,
                                    const CheckpointProof& proof) {
  std::vector<DamagedCheckpoint> passed_over;
  const auto open = [&](const std::string& folder, bool& damaged) {
    return open_one(folder, proof, damaged);
  };
  Result<Checkpoint> opened = open_best(path, proof.known_damaged, none_there, open, passed_over);
  if (opened.ok()) {
    opened.value().passed_over_ = std::move(passed_over);
  } else if (all_damaged != nullptr) {
    *all_damaged = std::move(passed_over);
  }
  return opened;
}

Result<CheckpointHead> Checkpoint::read_head(const std::string& path, bool* none_there) {
  std::vector<DamagedCheckpoint> passed_over;
  Result<OpenedLeader> opened = open_best(path, {}, none_there, open_leader, passed_over);
  if (!opened.ok()) return opened.status();
  return std::move(opened.value().leader.head);
}

Status Checkpoint::for_each_row(const std::function<Status(const Record&)>& use) const {
  Status status;
  const auto use_all = [&](const auto& rows) {
    for (auto row = rows.begin(); status.ok() && row != rows.end(); ++row) status = use(*row);
  };
  use_all(history_.validation);
  use_all(history_.peers);
  use_all(history_.events);
  use_all(history_.throughput);
  use_all(history_.steps);
  for (auto file = rows_.begin(); status.ok() && file != rows_.end(); ++file) {
    status = read_segment(path_, *file, use);
  }
  return status;
}

Status Checkpoint::check_state(std::int64_t tensors, std::int64_t versions) const {
  const ResumeState& state = head_.state;
  const auto refused = [this](const std::string& why) {
    return Status::bad_input(
        fmt::format("checkpoint {} cannot be used: {} has {}", path_, leader_, why));
  };
  if (static_cast<std::int64_t>(state.exponents.size()) != versions) {
    return refused(
        fmt::format("{} sets of exponents, this run needs {}", state.exponents.size(), versions));
  }
  for (const Exponents& exponents : state.exponents) {
    if (static_cast<std::int64_t>(exponents.size()) != tensors) {
      return refused(
          fmt::format("exponents of {} tensors, the model has {}", exponents.size(), tensors));
    }
    const auto impossible = std::ranges::find_if_not(
        exponents, [&](std::int16_t e) { return is_possible_exponent(e, state.step); });
    if (impossible == exponents.end()) continue;
    return refused(fmt::format("exponent {} of tensor {}, which no gradient has", *impossible,
                               impossible - exponents.begin()));
  }
  if (!(state.time_s >= 0 && state.time_s <= kLongestRunS)) {
    return refused(fmt::format("time {} s, which is not that of a run", state.time_s));
  }
  if (state.applied_updates < 0 || state.applied_updates > state.step || state.skips_in_a_row < 0 ||
      state.skips_in_a_row > state.step + 1 || state.incarnation < 0 ||
      state.incarnation > kMostIncarnations) {
    return refused(
        fmt::format("counts that cannot be of step {}: {} updates, {} skips in a row, "
                    "incarnation {}",
                    state.step, state.applied_updates, state.skips_in_a_row, state.incarnation));
  }
  return {};
}

Result<std::vector<Checkpoint::Piece>> Checkpoint::pieces_of(const TensorState& tensor) const {
  const auto found = pieces_.find(tensor.name);
  if (found == pieces_.end()) {
    return Status::bad_input("checkpoint " + path_ + " has no tensor " + tensor.name);
  }
  std::vector<Piece> pieces = found->second;
  std::sort(pieces.begin(), pieces.end(), [&](const Piece& a, const Piece& b) {
    return a.of(tensor).first < b.of(tensor).first;
  });
  if (Status whole = check_pieces(tensor, pieces); !whole.ok()) return whole;
  return pieces;
}

Status Checkpoint::check_pieces(const TensorState& tensor, const std::vector<Piece>& pieces) const {
  const auto refused = [&](std::int64_t first, std::int64_t end, const std::string& why) {
    return Status::bad_input(
        fmt::format("checkpoint {} cannot be used: elements {} to {} of tensor {} ({}, {}) are {}",
                    path_, first, end - 1, tensor.name, tensor.rows, tensor.columns, why));
  };
  std::string before;
  std::int64_t next = 0;
  for (const Piece& piece : pieces) {
    const ElementRange has = piece.of(tensor);
    const std::string& name = files_[piece.file].name;
    const std::int64_t end = has.first + has.count;
    if (end > tensor.count())
      return refused(has.first, end, "in " + name + ", beyond the tensor's end");
    if (has.first > next) return refused(next, has.first, "missing before those in " + name);
    if (has.first < next) {
      return refused(has.first, std::min(next, end),
                     fmt::format("both in {} and in {}", before, name));
    }
    before = name;
    next = end;
  }
  if (next == tensor.count()) return {};
  return refused(next, tensor.count(), "missing after those in " + before);
}

bool Checkpoint::lists(const std::vector<TensorState>& tensors) const {
  return std::all_of(tensors.begin(), tensors.end(),
                     [this](const TensorState& tensor) { return pieces_of(tensor).ok(); });
}

Status Checkpoint::prove(const std::vector<TensorState>& tensors) const {
  std::set<std::size_t> unproven;
  for (const TensorState& tensor : tensors) {
    const auto pieces = pieces_.find(tensor.name);
    if (pieces == pieces_.end()) continue;
    for (const Piece& piece : pieces->second) {
      if (!proven_.contains(piece.file)) unproven.insert(piece.file);
    }
  }
  for (const std::size_t number : unproven) {
    bool damaged = false;
    Status good = verify(path_, files_[number], trailer_bytes_, Look::whole, damaged);
    if (!good.ok()) return good;
  }
  return {};
}

Status Checkpoint::read(const TensorState& tensor, kernels::Backend& backend) const {
  const Result<std::vector<Piece>> pieces = pieces_of(tensor);
  if (!pieces.ok()) return pieces.status();
  for (const Piece& piece : pieces.value()) {
    const std::string path = path_ + "/" + files_[piece.file].name;
    Status status = read_stage_tensor(path, tensor, piece.of(tensor), backend);
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace swarmpi
