#include "io/checkpoint/stored_rows.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <regex>
#include <span>
#include <utility>

#include "core/hash.hpp"
#include "io/checkpoint/folder.hpp"
#include "io/checkpoint/manifest.hpp"
#include "io/descriptor.hpp"
#include "io/files.hpp"
#include "io/journal/format.hpp"

namespace swarmpi {

/// A checkpoint that is being written.
struct RowStorer::Target {
  std::string checkpoint;
  std::vector<std::string> others;  // complete checkpoints beside it, the newest first
  std::vector<StoredFile> files;

  bool has(const StoredFile& file) const {
    return check_trailer(checkpoint + "/" + file.name, {file.hash, file.size_bytes}).ok();
  }
  /// Whether the file is here, or another checkpoint has it and it can be linked.
  bool find(const StoredFile& file) const {
    if (has(file)) return true;
    const std::string path = checkpoint + "/" + file.name;
    if (remove_file(path) != 0) return false;  // of a writer on a disk that was full
    return std::any_of(others.begin(), others.end(), [&](const std::string& other) {
      return link_file(other + "/" + file.name, path) == 0 && has(file);
    });
  }
  Status add(const std::string& table, std::size_t number, const std::string& bytes) {
    StoredFile file;
    file.hash = hash_bytes(bytes.data(), bytes.size());
    file.size_bytes = static_cast<std::int64_t>(bytes.size()) + kTrailerBytes;
    file.name = fmt::format("rows-{}-{}.{}", table, number, hex(file.hash));
    if (!find(file)) {
      const auto write = [&bytes](const Descriptor& to) { return write_all(to, bytes); };
      FileHash written;
      const std::string path = checkpoint + "/" + file.name;
      if (Status status = write_file_durably(path, write, &written); !status.ok()) return status;
    }
    files.push_back(std::move(file));
    return {};
  }
};

// The last segment of a table is mostly not full. Rows that came between others since have moved
// all behind them; those that were only made again hold the same but for their times.
template <class Row>
void RowStorer::adopt_table(const char* table, const std::string& checkpoint,
                            const std::vector<StoredFile>& all) {
  std::vector<StoredFile> found;
  for (const StoredFile& file : all) {
    if (file.name.rfind(fmt::format("rows-{}-{}.", table, found.size()), 0) == 0) {
      found.push_back(file);
    }
  }
  if (found.size() < 2) return;
  found.pop_back();
  std::size_t count = 0;
  std::string last, here;
  const auto use = [&](const Record& record) {
    ++count;
    last = payload_of(record);
    return Status();
  };
  auto& rows = merge_->table<Row>();
  rows.for_each_block(found.size() * segment_rows_ - 1, [&](std::span<const KeptRow<Row>> block) {
    here = payload_of(Record(block.front().row));
    return false;
  });
  const bool fits = read_segment(checkpoint, found.back(), use).ok() && count == segment_rows_;
  if (!fits || here != last) return;
  rows.settle();
  full_[table] = std::move(found);
}

void RowStorer::adopt(const Target& target) {
  if (std::exchange(adopted_, true) || target.others.empty()) return;
  const std::string& checkpoint = target.others.front();
  const std::string path = checkpoint + "/" + kManifestName;
  const Result<std::string> text = read_file(path);
  if (!text.ok()) return;
  const Result<Manifest> manifest = parse_manifest(text.value(), path);
  if (!manifest.ok()) return;
  const std::vector<StoredFile>& all = manifest.value().rows;
  adopt_table<ValidationRow>("validation", checkpoint, all);
  adopt_table<EventRow>("events", checkpoint, all);
  adopt_table<ThroughputRow>("throughput", checkpoint, all);
  adopt_table<StepRow>("steps", checkpoint, all);
}

// The first `stable` rows stay as they are whatever comes; of later rows those of steps that are
// not after `step` belong to the checkpoint as well, where `any_later`.
template <class Row>
Status RowStorer::store_table(const char* table, std::size_t stable, bool any_later,
                              std::int64_t step, Target& target) {
  auto& rows = merge_->table<Row>();
  std::vector<StoredFile>& full = full_[table];
  full.resize(std::min(full.size(), std::min(stable, rows.changed_from()) / segment_rows_));
  rows.settle();
  const auto lost = std::find_if_not(full.begin(), full.end(),
                                     [&](const StoredFile& file) { return target.find(file); });
  full.erase(lost, full.end());
  target.files.insert(target.files.end(), full.begin(), full.end());

  Status status;
  std::string bytes;
  std::size_t number = full.size(), count = 0;
  const auto finish_segment = [&] {
    status = target.add(table, number++, bytes);
    if (status.ok() && number * segment_rows_ <= stable) full.push_back(target.files.back());
    bytes.clear();
    count = 0;
    return status.ok();
  };
  std::size_t index = number * segment_rows_;
  rows.for_each_block(index, [&](std::span<const KeptRow<Row>> block) {
    for (const KeptRow<Row>& kept : block) {
      const bool wanted = index++ < stable || (any_later && step_of(kept) <= step);
      if (!wanted && !any_later) return false;
      if (!wanted) continue;
      bytes += encode(Record(kept.row), 0);
      if (++count == segment_rows_ && !finish_segment()) return false;
    }
    return true;
  });
  if (status.ok() && count > 0) finish_segment();
  return status;
}

Result<std::vector<StoredFile>> RowStorer::store(const std::string& checkpoint, std::int64_t step,
                                                 std::int64_t delay) {
  if (Status created = create_folder(checkpoint); !created.ok()) return created;
  merge_->settle();
  Target target{checkpoint, {}, {}};
  const std::vector<CheckpointEntry> entries = list_checkpoints(folder_of(checkpoint));
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    if (entry->complete && entry->step != step) target.others.push_back(entry->path);
  }
  adopt(target);
  const KeptRow<StepRow>* const last = merge_->table<StepRow>().find(step);
  const double until_s = last != nullptr ? last->row.time_s : 0;
  // The weights after the last steps are validated in steps that the resumed run makes again.
  const std::size_t validations = merge_->table<ValidationRow>().count_through(step - delay);
  const std::size_t events = merge_->table<EventRow>().count_before_step_after(step);
  const std::size_t rates = merge_->table<ThroughputRow>().count_through(until_s);
  const std::size_t steps = merge_->table<StepRow>().count_through(step);
  for (const auto& store :
       {std::function<Status()>([&] {
          return store_table<ValidationRow>("validation", validations, false, step, target);
        }),
        std::function<Status()>(
            [&] { return store_table<EventRow>("events", events, true, step, target); }),
        std::function<Status()>(
            [&] { return store_table<ThroughputRow>("throughput", rates, false, step, target); }),
        std::function<Status()>(
            [&] { return store_table<StepRow>("steps", steps, false, step, target); })}) {
    if (Status status = store(); !status.ok()) return status;
  }
  if (Status status = merge_->status(); !status.ok()) return status;
  // Links are only durable with the folder.
  if (Status synced = sync_path(checkpoint); !synced.ok()) return synced;
  return std::move(target.files);
}

bool is_segment_name(const std::string& name) {
  static const std::regex kSegment(
      R"(rows-(steps|validation|events|throughput)-\d+\.[0-9a-f]{16})");
  return std::regex_match(name, kSegment);
}

Status read_segment(const std::string& checkpoint, const StoredFile& file,
                    const std::function<Status(const Record&)>& use) {
  const std::string path = checkpoint + "/" + file.name;
  const auto refused = [&path](const std::string& why) {
    return Status::bad_input(
        fmt::format("{} {}: the rows of the run before its checkpoint are in it; a run that is "
                    "resumed where its journal is does not need them",
                    path, why));
  };
  const Result<std::string> read = read_file(path, std::max(file.size_bytes, kMostReadBytes));
  if (!read.ok()) return refused("cannot be used, " + read.status().message());
  std::string_view bytes = read.value();
  if (static_cast<std::int64_t>(bytes.size()) != file.size_bytes ||
      file.size_bytes < kTrailerBytes) {
    return refused("is cut off or was replaced");
  }
  bytes.remove_suffix(static_cast<std::size_t>(kTrailerBytes));
  if (hash_bytes(bytes.data(), bytes.size()) != file.hash) {
    return refused("is damaged or was replaced");
  }
  const Result<int> version = journal_version(bytes, path);
  if (!version.ok()) return version.status();
  while (!bytes.empty()) {
    const std::optional<RecordFrame> frame = first_frame(bytes, version.value());
    const std::optional<Record> record =
        frame && !is_begin(*frame) ? decode_row(*frame, version.value()) : std::nullopt;
    if (!record) return refused("has an invalid record");
    if (Status used = use(*record); !used.ok()) return used;
    bytes.remove_prefix(frame->size_bytes);
  }
  return {};
}

}  // namespace swarmpi
