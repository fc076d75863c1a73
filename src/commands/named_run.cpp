#include "commands/named_run.hpp"

#include <fmt/core.h>

#include <filesystem>
#include <set>
#include <system_error>
#include <utility>
#include <variant>

#include "core/overloaded.hpp"
#include "core/text.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/checkpoint/folder.hpp"
#include "io/journal/journal.hpp"

namespace swarmpi {
namespace {

namespace fs = std::filesystem;

constexpr const char* kJournalEnding = ".journal";

// The run files that stand in a folder, or would for what their journals say.
std::set<std::string> runs_in(const std::string& folder) {
  std::set<std::string> runs;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    fs::path path = at->path();
    if (path.filename().string().starts_with('.')) continue;  // not published yet
    if (path.extension() == kJournalEnding && highest_term(path.string()) > 0) {
      path.replace_extension();
    }
    if (path.extension() != ".h5") continue;
    if (!RunFileReader(path.string()).is_something_else()) runs.insert(path.string());
  }
  return runs;
}

bool is_checkpoint(const std::string& folder) {
  const fs::path named(folder);
  const fs::path last = named.has_filename() ? named : named.parent_path();
  return is_step_name(last.filename().string());
}

bool has_ended(const RunFileHead& head) {
  return head.complete || head.verdict.starts_with("invalid");
}

std::string about_checkpoint(const Checkpoint& checkpoint) {
  std::int64_t size_bytes = 0;
  for (const StoredFile& file : checkpoint.files()) size_bytes += file.size_bytes;
  return fmt::format("{:13}{}\n{:13}after step {}, {} of state in {}\n", "checkpoint",
                     checkpoint.path(), "", checkpoint.head().state.step,
                     readable_bytes(static_cast<double>(size_bytes)),
                     counted(std::ssize(checkpoint.files()), "file"));
}

void add_row(History& history, const Record& record) {
  std::visit(Overloaded{[&](const StepRow& row) { history.steps.push_back(row); },
                        [&](const ValidationRow& row) { history.validation.push_back(row); },
                        [&](const PeerRow& row) { history.peers.push_back(row); },
                        [&](const EventRow& row) { history.events.push_back(row); },
                        [&](const ThroughputRow& row) { history.throughput.push_back(row); },
                        [&](const GoodputRow& row) { history.goodput.push_back(row); }},
             record);
}

}  // namespace

std::vector<std::string> runs_below(const std::string& path) {
  std::error_code error;
  std::set<std::string> runs;
  const bool is_run = !fs::is_directory(path, error) || highest_term(path) > 0 ||
                      is_checkpoint(path) || !runs_in(path).empty() ||
                      !list_checkpoints(path).empty();
  if (is_run) return {path};
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    if (at->is_directory(error)) runs.merge(runs_in(at->path().string()));
  }
  if (runs.empty()) return {path};
  return {runs.begin(), runs.end()};
}

Result<NamedRun> NamedRun::open(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    const std::string journal = path + kJournalEnding;
    const bool published = fs::exists(path, error) || highest_term(journal) == 0;
    return published ? open_file(path) : open_journal(journal);
  }
  if (highest_term(path) > 0) return open_journal(path);
  return open_folder(path);
}

Result<NamedRun> NamedRun::open_file(const std::string& path) {
  NamedRun run;
  run.reader_ = std::make_unique<RunFileReader>(path);
  if (!run.reader_->status().ok()) return run.reader_->status();
  return run;
}

Result<NamedRun> NamedRun::open_journal(const std::string& path) {
  Result<JournalContent> content = read_journal(path);
  if (!content.ok()) return content.status();
  NamedRun run;
  run.stored_ = std::make_unique<Stored>();
  static_cast<RunOrigin&>(run.stored_->head) = content.value().last.origin;
  run.stored_->head.complete = content.value().complete;
  run.stored_->head.verdict = content.value().complete ? "valid" : "open";
  run.stored_->history = std::move(content.value().history);
  return run;
}

// Its state is not read: nothing is said of it.
Result<NamedRun> NamedRun::open_checkpoint(const std::string& path) {
  CheckpointProof nothing;
  nothing.shares = 0;
  nothing.lists_all = false;
  const Result<Checkpoint> checkpoint = Checkpoint::open(path, nullptr, nullptr, nothing);
  if (!checkpoint.ok()) return checkpoint.status();
  NamedRun run;
  run.stored_ = std::make_unique<Stored>();
  static_cast<RunOrigin&>(run.stored_->head) = checkpoint.value().head();
  const Status read = checkpoint.value().for_each_row([&](const Record& record) {
    add_row(run.stored_->history, record);
    return Status();
  });
  if (!read.ok()) return read;
  run.about_ = about_checkpoint(checkpoint.value());
  return run;
}

Result<NamedRun> NamedRun::open_folder(const std::string& path) {
  if (is_checkpoint(path)) return open_checkpoint(path);
  const std::set<std::string> runs = runs_in(path);
  if (runs.size() > 1) {
    std::string names;
    for (const std::string& run : runs) names += " " + run;
    return Status::bad_input(path +
                             " holds several runs: name one of them, or compare them with"
                             " `swarmpi info" +
                             names + "`");
  }
  if (runs.empty()) {
    if (!list_checkpoints(path).empty()) return open_checkpoint(path);
    return Status::bad_input(
        path + " is a folder without a run (RUN.h5), the journal of one or checkpoints");
  }
  const std::string journal = *runs.begin() + kJournalEnding;
  Result<NamedRun> published = open_file(*runs.begin());
  if (published.ok() && has_ended(published.value().head())) return published;
  return highest_term(journal) > 0 ? open_journal(journal) : std::move(published);
}

}  // namespace swarmpi
