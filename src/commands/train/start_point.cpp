#include "commands/train/start_point.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "config/deck.hpp"
#include "io/checkpoint/folder.hpp"
#include "io/run_file.hpp"
#include "runtime/run_storage.hpp"

namespace swarmpi {
namespace {

// The run whose journal or run file exists at the output paths.
struct ExistingRun {
  std::string where;
  std::string deck;  // "" if it was killed before it wrote one
  std::int64_t last_step = -1;
  std::int64_t from_step = -1;  // its newest start resumed it after this step
  bool complete = false;
};

Result<std::optional<ExistingRun>> existing_run(const OutputPaths& paths) {
  if (highest_term(paths.journal) > 0) {
    if (is_being_written(paths.journal)) {
      return Status::bad_input("another process is writing " + paths.run_file +
                               ": wait until it has ended, or choose another --out");
    }
    const Result<JournalEnd> journal = read_journal_end(paths.journal);
    if (!journal.ok()) return journal.status();
    const JournalEnd& end = journal.value();
    const Result<std::int64_t> from_step = step_of_start(paths.journal, end.last);
    if (!from_step.ok()) return from_step.status();
    return std::optional(ExistingRun{paths.journal, end.last.origin.deck, end.last_step,
                                     from_step.value(), end.complete});
  }
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::symlink_status(paths.run_file, error))) {
    return std::optional<ExistingRun>();
  }
  const Result<RunFile> file = read_run_file(paths.run_file);
  if (!file.ok()) return file.status();
  return std::optional(
      ExistingRun{paths.run_file, file.value().deck, -1, -1, file.value().complete});
}

// For refusals that concern the run, and not its weights.
constexpr char kWayOut[] =
    "; a new run (without --resume, with another --out) can begin with these weights: "
    "postprocess/hf_export.py, hf_import.py, then model.initial";

// The deck of the run that a resumed run continues or replaces. Both must be equal, but for the
// keys that may change on resume, none of which decides a run's bits. Where nothing is continued
// that was computed, or before it is known where the model is cut, other cuts do not matter.
enum class Cuts : std::uint8_t { must_agree, may_differ };
Result<Config> deck_of(const std::string& deck, const std::string& where, const Config& config,
                       Cuts cuts = Cuts::must_agree, bool has_weights = true) {
  Result<Config> other = parse_deck(deck, where, {});
  if (!other.ok()) return other;
  const bool cuts_matter = config.swarm.cuts_matter() || other.value().swarm.cuts_matter();
  for (const DeckDifference& difference : deck_differences(other.value(), config)) {
    if (may_change_on_resume(difference.key, cuts_matter)) continue;
    if (difference.key == "swarm.cuts" && cuts == Cuts::may_differ) continue;
    if (difference.key == "train.schedule_steps") continue;  // see check_schedule()
    const bool not_known_yet = difference.key == "data.hash" && config.data.hash.empty();
    if (not_known_yet) continue;
    const bool other_weights =
        difference.key.starts_with("model.") || difference.key.starts_with("swarm.boundary");
    const char* const way = other_weights || !has_weights ? "" : kWayOut;
    return Status::bad_input(
        fmt::format("{} was made with {} = {}, this deck says {}: a resumed run must keep it{}",
                    where, difference.key, difference.a, difference.b, way));
  }
  return other;
}

// Other learning rates than those so far would make a run that no deck gives.
Status check_schedule(const TrainConfig& made_with, const std::string& where,
                      const TrainConfig& asked) {
  const std::int64_t steps = made_with.scheduled_steps();
  if (asked.schedule == Schedule::constant || asked.scheduled_steps() == steps) return {};
  return Status::bad_input(fmt::format(
      "{} was made with learning rates that fall over {} steps, in this deck they fall over {}: a "
      "resumed run must keep them; set train.schedule_steps = {} (after step {} the rate stays at "
      "train.min_lr = {:g}){}",
      where, steps, asked.scheduled_steps(), steps, steps, asked.min_lr, kWayOut));
}

// The checkpoints of a run whose own folder was named in their place; "" if there are none.
std::string checkpoints_inside(const std::string& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    if (at->path().extension() != ".checkpoints") continue;
    const std::vector<CheckpointEntry> entries = list_checkpoints(at->path().string());
    if (std::any_of(entries.begin(), entries.end(), [](const auto& e) { return e.complete; })) {
      return at->path().string();
    }
  }
  return "";
}

// --resume without a checkpoint: the run begins at row 0. Where the journal of an unfinished one of
// the same deck is there it begins again in that, under later terms: nothing is removed, for a
// process of the other start may wake up, and must find that its terms are over.
Result<StartPoint> begin_without_checkpoint(const TrainOptions& options, const Config& config,
                                            const OutputPaths& paths,
                                            const std::optional<ExistingRun>& existing) {
  std::error_code error;
  if (!std::filesystem::exists(*options.resume, error)) {
    return Status::bad_input(
        fmt::format("--resume {}: there is no such folder (the working directory is {})",
                    *options.resume, std::filesystem::current_path(error).string()));
  }
  if (const std::string inside = checkpoints_inside(*options.resume); !inside.empty()) {
    return Status::bad_input(
        fmt::format("--resume {0}: there is no checkpoint in {0}, but there is {1}: name that",
                    *options.resume, inside));
  }
  if (Status known = check_initial_weights(config.model); !known.ok()) return known;
  StartPoint start;
  start.found_empty = *options.resume;
  start.first_term = highest_named_term(paths.journal) + 1;
  if (Status status = refuse_other_checkpoints(paths, nullptr); !status.ok()) return status;
  if (!existing) return start;
  if (existing->complete) {
    return Status::bad_input(existing->where +
                             " is a complete run, and there is no checkpoint in " +
                             *options.resume + ": is that the right folder?");
  }
  if (existing->from_step >= 0) {
    return Status::bad_input(fmt::format(
        "{} was resumed after step {}, and there is no checkpoint in {}: name the one that it was "
        "resumed from, or choose another --out",
        existing->where, existing->from_step, *options.resume));
  }
  if (!existing->deck.empty()) {
    const Result<Config> other =
        deck_of(existing->deck, existing->where, config, Cuts::may_differ, false);
    if (!other.ok()) return other.status();
  }
  start.begins_again = true;
  return start;
}

Status check_existing_run(const ExistingRun& existing, const Config& config, StartPoint& start) {
  if (!existing.deck.empty()) {
    const Result<Config> other = deck_of(existing.deck, existing.where, config);
    if (!other.ok()) return other.status();
    // Its rows up to the checkpoint have the rates of the checkpoint's schedule in any case.
    const bool goes_further = existing.last_step > start.state.step;
    const Status same = check_schedule(other.value().train, existing.where, config.train);
    if (goes_further && !same.ok()) return same;
  }
  if (existing.last_step >= start.state.step) start.carries_rows = false;
  return {};
}

Status adopt_checkpoint(const Checkpoint& checkpoint, const Config& config,
                        const std::vector<StageSpec>& specs, const std::string& fingerprint,
                        StartPoint& start) {
  const CheckpointHead& head = checkpoint.head();
  const std::string& where = checkpoint.path();
  const Result<Config> made_with = deck_of(head.deck, where, config);
  if (!made_with.ok()) return made_with.status();
  const Status same = check_schedule(made_with.value().train, where, config.train);
  if (!same.ok()) return same;
  if (head.fingerprint != fingerprint && !config.swarm.allow_mixed) {
    return Status::bad_input(fmt::format(
        "fingerprint mismatch: {} was made with {} by version {}, this version with this [compute] "
        "gives {} on this machine: resume with the same kernels, threads and max_isa, on the same "
        "kind of CPU, and with a version that computes by the same rules{}",
        where, head.fingerprint, head.version, fingerprint, kWayOut));
  }
  if (head.state.step > config.train.steps) {
    return Status::bad_input(
        fmt::format("{} is of step {}, but train.steps is {}: raise train.steps, or resume from an "
                    "earlier checkpoint",
                    where, head.state.step, config.train.steps));
  }
  if (Status fits = checkpoint.check_state(tensor_count(specs), config.train.delay()); !fits.ok()) {
    return fits;
  }
  start.state = head.state;
  start.carries_rows = true;
  return {};
}

Result<StartPoint> join_at(const RunningSwarm& swarm, const std::string& fingerprint,
                           bool allow_mixed) {
  if (fingerprint != swarm.fingerprint && !allow_mixed) {
    return Status::bad_input("fingerprint mismatch: this host computes " + fingerprint +
                             ", the run " + swarm.fingerprint +
                             ": spawn on processors of one kind, or start the run with "
                             "compute.max_isa or compute.kernels = \"reference\"");
  }
  StartPoint start;
  if (!swarm.resumed_from.empty()) {
    Result<Checkpoint> checkpoint =
        Checkpoint::open(swarm.resumed_from, nullptr, nullptr, {.shares = 0});
    if (checkpoint.ok()) start.checkpoint = std::move(checkpoint).value();
  }
  start.state = swarm.state;
  start.first_term = swarm.first_term;
  return start;
}

}  // namespace

Status check_initial_weights(const ModelConfig& model) {
  if (model.initial_hash.empty() || !model.initial.empty()) return {};
  return Status::bad_input(
      "model.initial_hash is that of a file of weights: name it with model.initial");
}

Status adopt_cuts(const TrainOptions& options, Config& config) {
  if (!options.resume || options.joins || !config.swarm.cuts_matter()) return {};
  bool none_exists = false;
  const Result<CheckpointHead> head = Checkpoint::read_head(*options.resume, &none_exists);
  if (none_exists) return {};
  if (!head.ok()) return head.status();
  const Result<Config> made_with =
      deck_of(head.value().deck, *options.resume, config, Cuts::may_differ);
  if (!made_with.ok()) return made_with.status();
  if (config.swarm.cuts.empty()) config.swarm.cuts = made_with.value().swarm.cuts;
  return {};
}

Result<StartPoint> find_start(const TrainOptions& options, const Config& config,
                              const std::vector<StageSpec>& specs, const OutputPaths& paths,
                              const std::string& fingerprint, const CheckpointProof& proof) {
  if (options.joins) return join_at(*options.joins, fingerprint, config.swarm.allow_mixed);
  StartPoint start;
  if (!options.resume) {
    const Status known = check_initial_weights(config.model);
    return known.ok() ? Result<StartPoint>(std::move(start)) : known;
  }

  const Result<std::optional<ExistingRun>> found = existing_run(paths);
  if (!found.ok()) return found.status();
  const std::optional<ExistingRun>& existing = found.value();
  bool none_exists = false;
  Result<Checkpoint> opened = Checkpoint::open(*options.resume, &none_exists, nullptr, proof);
  if (!opened.ok() && none_exists)
    return begin_without_checkpoint(options, config, paths, existing);
  if (!opened.ok()) return opened.status();

  start.checkpoint = std::move(opened).value();
  if (Status status = adopt_checkpoint(*start.checkpoint, config, specs, fingerprint, start);
      !status.ok()) {
    return status;
  }
  if (Status status = refuse_other_checkpoints(paths, &*start.checkpoint); !status.ok()) {
    return status;
  }
  start.first_term = highest_named_term(paths.journal) + 1;
  if (existing) {
    if (Status status = check_existing_run(*existing, config, start); !status.ok()) {
      return status;
    }
  }
  // One on each host reads them: whoever comes to lead may be anywhere.
  if (start.carries_rows && proof.share == 0) {
    const Status rows = start.checkpoint->for_each_row([](const Record&) { return Status(); });
    if (!rows.ok()) return rows;
  }
  return start;
}

}  // namespace swarmpi
