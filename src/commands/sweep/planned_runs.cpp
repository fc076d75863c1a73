#include "commands/sweep/planned_runs.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <tuple>
#include <utility>

#include "commands/sweep/combinations.hpp"
#include "config/deck.hpp"
#include "core/hash.hpp"
#include "data/dataset.hpp"
#include "io/journal/journal.hpp"
#include "io/run_file.hpp"

namespace swarmpi {
namespace {

namespace fs = std::filesystem;

bool file_exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

std::string journal_of(const PlannedRun& run) { return run.run_file() + ".journal"; }

// What is known of a run that was begun; nothing where there is none, or it cannot be read: then
// `train` says why.
std::optional<RunFileHead> begun(const PlannedRun& run) {
  if (file_exists(run.run_file())) {
    const RunFileReader reader(run.run_file());
    if (reader.status().ok()) return reader.head();
  }
  const Result<JournalEnd> end = read_journal_end(journal_of(run));
  if (!end.ok() || end.value().highest_term == 0) return std::nullopt;
  RunFileHead head;
  static_cast<RunOrigin&>(head) = end.value().last.origin;
  return head;
}

// Where it writes, and what is known only as it starts, make no other run.
bool tells_runs_apart(const std::string& key) {
  const bool found_at_start =
      key == "data.hash" || key == "model.initial_hash" || key == "swarm.cuts";
  return !key.starts_with("output.") && !found_at_start;
}

// The keys in which a run that was begun differs from the one that is planned.
std::vector<DeckDifference> differences(const RunFileHead& head, const Config& planned) {
  const Result<Config> stored = parse_deck(head.deck, "the stored deck", {});
  if (!stored.ok()) return {};
  std::vector<DeckDifference> found = deck_differences(stored.value(), planned);
  std::erase_if(found, [](const DeckDifference& one) { return !tells_runs_apart(one.key); });
  return found;
}

// The hashes of the data that decks name; each is read once, and may be large.
class DataHashes {
 public:
  /// Errors: bad_input, as `train` has.
  Result<std::string> of(const Config& config) {
    const DataConfig& data = config.data;
    std::string& known = known_[{data.paths, data.validation_paths, data.format}];
    if (!known.empty()) return known;
    const Result<Dataset> dataset = Dataset::open(config);
    if (!dataset.ok()) return dataset.status();
    const Result<std::uint64_t> hash = dataset.value().scan();
    if (!hash.ok()) return hash.status();
    return known = hex(hash.value());
  }

 private:
  using Paths = std::vector<std::string>;
  std::map<std::tuple<Paths, Paths, DataFormat>, std::string> known_;
};

// The same deck may name other text by now: then a run that is complete is not the one planned.
Status refuse_other_data(const PlannedRun& run, const RunFileHead& head, const Config& planned,
                         DataHashes& hashes) {
  const Result<Config> stored = parse_deck(head.deck, "the stored deck", {});
  if (!stored.ok() || stored.value().data.hash.empty()) return {};
  const Result<std::string> hash = hashes.of(planned);
  if (!hash.ok()) return Status::bad_input(run.name + ": " + hash.status().message());
  if (hash.value() == stored.value().data.hash) return {};
  return Status::bad_input(
      run.run_file() + " was begun on other data (data.hash: " + stored.value().data.hash + " -> " +
      hash.value() + "): put these back, or give this sweep a folder of its own with --out");
}

Status refuse_other_run(const PlannedRun& run, const Config& planned, DataHashes& hashes) {
  const std::optional<RunFileHead> head = begun(run);
  if (!head) return {};
  for (const DeckDifference& one : differences(*head, planned)) {
    if (may_change_on_resume(one.key, false)) continue;
    return Status::bad_input(run.run_file() + " is the run of another deck (" + one.key + ": " +
                             one.a + " -> " + one.b +
                             "): give this sweep a folder of its own with --out");
  }
  return refuse_other_data(run, *head, planned, hashes);
}

}  // namespace

std::string sweep_folder(const SweepOptions& options) {
  if (!options.out.empty()) return options.out;
  return "runs/" + fs::path(options.deck).stem().string() + "-sweep";
}

Result<std::vector<PlannedRun>> plan_runs(const SweepOptions& options) {
  std::vector<VariedKey> keys;
  for (const std::string& text : options.vary) {
    Result<VariedKey> key = parse_varied_key(text);
    if (!key.ok()) return key.status();
    if (key.value().key == "output.run") {
      return Status::bad_input(
          "--vary output.run: each run of a study has a folder with a run file of its own anyway");
    }
    keys.push_back(std::move(key).value());
  }
  const Result<std::vector<Combination>> combinations = combine(keys, options.overrides);
  if (!combinations.ok()) return combinations.status();
  std::vector<PlannedRun> runs;
  DataHashes hashes;
  std::map<std::string, std::string> names;  // by the resolved deck
  for (const Combination& one : combinations.value()) {
    PlannedRun run{one.name, sweep_folder(options) + "/" + one.name, options.overrides};
    run.settings.insert(run.settings.end(), one.settings.begin(), one.settings.end());
    const Result<Config> config = load_deck(options.deck, run.settings);
    if (!config.ok()) return Status::bad_input(run.name + ": " + config.status().message());
    const auto [same, is_new] = names.emplace(resolved_deck(config.value()), run.name);
    if (!is_new) {
      return Status::bad_input("--vary: " + same->second + " and " + run.name +
                               " are the same run");
    }
    if (Status status = refuse_other_run(run, config.value(), hashes); !status.ok()) return status;
    runs.push_back(std::move(run));
  }
  return runs;
}

Status check_data(const SweepOptions& options, const std::vector<PlannedRun>& runs) {
  for (const PlannedRun& run : runs) {
    const Result<Config> config = load_deck(options.deck, run.settings);
    if (!config.ok()) return config.status();
    if (const Result<Dataset> data = Dataset::open(config.value()); !data.ok()) {
      return Status::bad_input(run.name + ": " +
                               with_place(config.value(), data.status()).message());
    }
  }
  return {};
}

// One that is complete may be planned with more steps now.
Standing standing_of(const SweepOptions& options, const PlannedRun& run) {
  const std::optional<RunFileHead> head = begun(run);
  if (!head) return file_exists(journal_of(run)) ? Standing::unfinished : Standing::fresh;
  const Result<Config> planned = load_deck(options.deck, run.settings);
  const bool other_length = planned.ok() && std::ranges::any_of(differences(*head, planned.value()),
                                                                [](const DeckDifference& one) {
                                                                  return one.key == "train.steps";
                                                                });
  if (other_length) return Standing::unfinished;
  if (head->complete) return Standing::complete;
  return head->verdict.starts_with("invalid") ? Standing::failed : Standing::unfinished;
}

}  // namespace swarmpi
