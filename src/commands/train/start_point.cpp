#include "commands/train/start_point.hpp"

#include <filesystem>
#include <utility>

#include "config/deck.hpp"
#include "core/text.hpp"
#include "io/run_file.hpp"
#include "runtime/run_storage.hpp"

namespace swarmpi {
namespace {

// The run whose files stand at the output.
struct StandingRun {
  std::string where;
  std::string deck;  // "" where it was killed before it wrote one
  std::int64_t last_step = -1;
  bool complete = false;
};

Result<std::optional<StandingRun>> standing_run(const OutputPaths& paths) {
  if (highest_term(paths.journal) > 0) {
    if (is_being_written(paths.journal)) {
      return Status::bad_input("another process is writing " + paths.run_file);
    }
    const Result<JournalContent> journal = read_journal(paths.journal);
    if (!journal.ok()) return journal.status();
    const JournalContent& content = journal.value();
    const auto& rows = content.history.steps;
    return std::optional(StandingRun{paths.journal, content.last.deck,
                                     rows.empty() ? -1 : rows.back().step, content.complete});
  }
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::symlink_status(paths.run_file, error))) {
    return std::optional<StandingRun>();
  }
  const Result<RunFile> file = read_run_file(paths.run_file);
  if (!file.ok()) return file.status();
  return std::optional(StandingRun{paths.run_file, file.value().deck, -1, file.value().complete});
}

// A run and what it goes on from, or takes the place of, must be one run: all that decides its bits
// is the same.
Status refuse_other_deck(const Config& other, const std::string& where, const Config& config) {
  for (const DeckDifference& difference : deck_differences(other, config)) {
    if (may_change_on_resume(difference.key)) continue;
    return Status::bad_input(
        format("%s was made with %s = %s, this deck says %s: a resumed run cannot change it",
               where.c_str(), difference.key.c_str(), difference.a.c_str(), difference.b.c_str()));
  }
  return {};
}

bool same_schedule(const Config& a, const Config& b) {
  return a.train.steps == b.train.steps || b.train.schedule == "constant";
}

// No checkpoint is there: the run begins at row 0, in the place of an unfinished one of the same
// deck.
Result<StartPoint> begin_anew(const TrainOptions& options, const OutputPaths& paths,
                              const std::optional<StandingRun>& standing) {
  StartPoint start;
  if (Status status = refuse_later_checkpoints(paths, -1); !status.ok()) return status;
  if (!standing) return start;
  if (standing->complete) {
    return Status::bad_input(standing->where +
                             " is a complete run, and there is no checkpoint in " +
                             *options.resume + ": is that the right folder?");
  }
  if (!standing->deck.empty()) {
    const Result<Config> other = parse_deck(standing->deck, standing->where, {});
    if (!other.ok()) return other.status();
    if (Status status = refuse_other_deck(other.value(), standing->where, options.config);
        !status.ok()) {
      return status;
    }
  }
  start.replaces = true;
  return start;
}

Status fit_standing_run(const StandingRun& standing, const Config& config, StartPoint& start) {
  if (!standing.deck.empty()) {
    const Result<Config> other = parse_deck(standing.deck, standing.where, {});
    if (!other.ok()) return other.status();
    if (Status status = refuse_other_deck(other.value(), standing.where, config); !status.ok()) {
      return status;
    }
    start.must_agree = start.must_agree && same_schedule(other.value(), config);
  }
  if (standing.last_step >= start.state.step) start.carried.reset();
  return {};
}

Status fit_checkpoint(const Checkpoint& checkpoint, const Config& config,
                      const std::string& fingerprint, StartPoint& start) {
  const CheckpointHead& head = checkpoint.head();
  const std::string& where = checkpoint.path();
  const Result<Config> made_with = parse_deck(head.deck, where, {});
  if (!made_with.ok()) return made_with.status();
  if (Status status = refuse_other_deck(made_with.value(), where, config); !status.ok()) {
    return status;
  }
  if (head.fingerprint != fingerprint) {
    return Status::bad_input(
        format("%s was made with fingerprint %s, this machine with this [compute] gives %s: the "
               "run would not "
               "go on bit for bit (kernels, threads and max_isa decide it, and the CPU)",
               where.c_str(), head.fingerprint.c_str(), fingerprint.c_str()));
  }
  if (head.state.step > config.train.steps) {
    return Status::bad_input(format("%s stands after step %lld, but train.steps is %lld",
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

  const Result<std::optional<StandingRun>> found = standing_run(paths);
  if (!found.ok()) return found.status();
  const std::optional<StandingRun>& standing = found.value();
  bool none_there = false;
  Result<Checkpoint> opened = Checkpoint::open(*options.resume, &none_there);
  if (!opened.ok() && none_there) return begin_anew(options, paths, standing);
  if (!opened.ok()) return opened.status();

  start.checkpoint = std::move(opened).value();
  if (Status status = fit_checkpoint(*start.checkpoint, options.config, fingerprint, start);
      !status.ok()) {
    return status;
  }
  if (Status status = refuse_later_checkpoints(paths, start.state.step); !status.ok()) {
    return status;
  }
  start.first_term = highest_term(paths.journal) + 1;
  if (standing) {
    if (Status status = fit_standing_run(*standing, options.config, start); !status.ok()) {
      return status;
    }
  }
  return start;
}

}  // namespace swarmpi
