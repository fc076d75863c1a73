#include "commands/train/start_point.hpp"

#include <filesystem>
#include <utility>

#include "config/deck.hpp"
#include "core/text.hpp"
#include "io/run_file.hpp"
#include "runtime/run_storage.hpp"

namespace swarmpi {
namespace {

// The run whose journal or run file exists at the output paths.
struct ExistingRun {
  std::string where;
  std::string deck;  // "" if it was killed before it wrote one
  std::int64_t last_step = -1;
  bool complete = false;
};

Result<std::optional<ExistingRun>> existing_run(const OutputPaths& paths) {
  if (highest_term(paths.journal) > 0) {
    if (is_being_written(paths.journal)) {
      return Status::bad_input("another process is writing " + paths.run_file +
                               ": wait until it has ended, or choose another --out");
    }
    const Result<JournalContent> journal = read_journal(paths.journal);
    if (!journal.ok()) return journal.status();
    const JournalContent& content = journal.value();
    const auto& rows = content.history.steps;
    return std::optional(ExistingRun{paths.journal, content.last.deck,
                                     rows.empty() ? -1 : rows.back().step, content.complete});
  }
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::symlink_status(paths.run_file, error))) {
    return std::optional<ExistingRun>();
  }
  const Result<RunFile> file = read_run_file(paths.run_file);
  if (!file.ok()) return file.status();
  return std::optional(ExistingRun{paths.run_file, file.value().deck, -1, file.value().complete});
}

// A resumed run must have the deck of the run that it continues or replaces, but for the keys that
// may change on resume, none of which decides its bits.
Status refuse_other_deck(const Config& other, const std::string& where, const Config& config) {
  for (const DeckDifference& difference : deck_differences(other, config)) {
    if (may_change_on_resume(difference.key)) continue;
    return Status::bad_input(
        format("%s was made with %s = %s, this deck says %s: a resumed run must keep it",
               where.c_str(), difference.key.c_str(), difference.a.c_str(), difference.b.c_str()));
  }
  return {};
}

bool same_schedule(const Config& a, const Config& b) {
  return a.train.steps == b.train.steps || b.train.schedule == Schedule::constant;
}

// --resume without a checkpoint: the run begins at row 0, and replaces an unfinished one of the
// same deck if there is one.
Result<StartPoint> begin_without_checkpoint(const TrainOptions& options, const OutputPaths& paths,
                                            const std::optional<ExistingRun>& existing) {
  StartPoint start;
  if (Status status = refuse_later_checkpoints(paths, -1); !status.ok()) return status;
  if (!existing) return start;
  if (existing->complete) {
    return Status::bad_input(existing->where +
                             " is a complete run, and there is no checkpoint in " +
                             *options.resume + ": is that the right folder?");
  }
  if (!existing->deck.empty()) {
    const Result<Config> other = parse_deck(existing->deck, existing->where, {});
    if (!other.ok()) return other.status();
    if (Status status = refuse_other_deck(other.value(), existing->where, options.config);
        !status.ok()) {
      return status;
    }
  }
  start.replaces = true;
  return start;
}

Status check_existing_run(const ExistingRun& existing, const Config& config, StartPoint& start) {
  if (!existing.deck.empty()) {
    const Result<Config> other = parse_deck(existing.deck, existing.where, {});
    if (!other.ok()) return other.status();
    if (Status status = refuse_other_deck(other.value(), existing.where, config); !status.ok()) {
      return status;
    }
    start.must_agree = start.must_agree && same_schedule(other.value(), config);
  }
  if (existing.last_step >= start.state.step) start.carried.reset();
  return {};
}

Status adopt_checkpoint(const Checkpoint& checkpoint, const Config& config,
                        const std::string& fingerprint, StartPoint& start) {
  const CheckpointHead& head = checkpoint.head();
  const std::string& where = checkpoint.path();
  const Result<Config> made_with = parse_deck(head.deck, where, {});
  if (!made_with.ok()) return made_with.status();
  if (Status status = refuse_other_deck(made_with.value(), where, config); !status.ok()) {
    return status;
  }
  if (head.fingerprint != fingerprint) {
    return Status::bad_input(format(
        "fingerprint mismatch: %s was made with %s, this machine with this [compute] gives %s: "
        "resume with the same kernels, threads and max_isa, on the same kind of CPU",
        where.c_str(), head.fingerprint.c_str(), fingerprint.c_str()));
  }
  if (head.state.step > config.train.steps) {
    return Status::bad_input(
        format("%s is of step %lld, but train.steps is %lld: raise train.steps, or "
               "resume from an earlier checkpoint",
               where.c_str(), static_cast<long long>(head.state.step),
               static_cast<long long>(config.train.steps)));
  }
  start.state = head.state;
  start.must_agree = same_schedule(made_with.value(), config);
  start.carried = history_up_to(checkpoint.history(), head.state.step, config.train.delay());
  return {};
}

}  // namespace

Result<StartPoint> find_start(const TrainOptions& options, const OutputPaths& paths,
                              const std::string& fingerprint) {
  StartPoint start;
  if (!options.resume) return start;

  const Result<std::optional<ExistingRun>> found = existing_run(paths);
  if (!found.ok()) return found.status();
  const std::optional<ExistingRun>& existing = found.value();
  bool none_exists = false;
  Result<Checkpoint> opened = Checkpoint::open(*options.resume, &none_exists);
  if (!opened.ok() && none_exists) return begin_without_checkpoint(options, paths, existing);
  if (!opened.ok()) return opened.status();

  start.checkpoint = std::move(opened).value();
  if (Status status = adopt_checkpoint(*start.checkpoint, options.config, fingerprint, start);
      !status.ok()) {
    return status;
  }
  if (Status status = refuse_later_checkpoints(paths, start.state.step); !status.ok()) {
    return status;
  }
  start.first_term = highest_term(paths.journal) + 1;
  if (existing) {
    if (Status status = check_existing_run(*existing, options.config, start); !status.ok()) {
      return status;
    }
  }
  return start;
}

}  // namespace swarmpi
