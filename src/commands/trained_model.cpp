#include "commands/trained_model.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "commands/damaged.hpp"
#include "config/deck.hpp"
#include "io/checkpoint/folder.hpp"
#include "io/files.hpp"
#include "io/run_file.hpp"
#include "model/make_backend.hpp"

namespace swarmpi {
namespace {

namespace fs = std::filesystem;

bool holds_checkpoints(const fs::path& folder) {
  return !folder.empty() && !list_checkpoints(folder.string()).empty();
}

/// Whether a folder of that name is one that a run makes for its checkpoints.
bool is_name_for_checkpoints(const fs::path& name) {
  return name == "checkpoints" || name.extension() == ".checkpoints";
}

std::vector<std::string> checkpoint_folders_in(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (!is_name_for_checkpoints(at->path().filename())) continue;
    if (holds_checkpoints(at->path())) found.push_back(at->path().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// What the deck in a run file says; "" where that is the default, or cannot be known.
std::string folder_by_deck(const std::string& run_file) {
  const RunFileReader run(run_file);
  if (!run.status().ok()) return "";
  const Result<Config> deck = parse_deck(run.head().deck, run_file, {});
  return deck.ok() ? deck.value().output.checkpoint : "";
}

Result<std::string> checkpoints_of_run_file(const std::string& run_file) {
  const std::string beside = checkpoints_beside(run_file);
  for (const std::string& candidate : {folder_by_deck(run_file), beside}) {
    if (holds_checkpoints(candidate)) return candidate;
  }
  return Status::bad_input(run_file + ": there are no checkpoints in " + beside +
                           ": name the folder that the run wrote them to (its last lines say "
                           "which)");
}

Status read_weights(const Checkpoint& checkpoint, const Config& config, kernels::Backend& backend,
                    Inference& model) {
  for (TensorState& tensor : model.weights()) {
    tensor.weights.resize(static_cast<std::size_t>(config.train.delay()));  // older ones: unread
    if (Status status = checkpoint.read(tensor, backend); !status.ok()) return status;
  }
  model.loaded();
  return {};
}

}  // namespace

Result<std::string> named_checkpoint(const std::string& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) return checkpoints_of_run_file(path);
  if (!fs::is_directory(path, error) || holds_checkpoints(path)) return path;
  const std::vector<std::string> within = checkpoint_folders_in(path);
  if (within.empty()) return path;
  if (within.size() == 1) return within.front();
  std::string names;
  for (const std::string& folder : within) names += (names.empty() ? "" : ", ") + folder;
  return Status::bad_input(path + " has checkpoints of several runs: name one of " + names);
}

Result<TrainedRun> open_trained(const std::string& path, const std::string& use,
                                std::ostream& error) {
  const Result<std::string> named = named_checkpoint(path);
  if (!named.ok()) return named.status();
  Result<Checkpoint> opened = Checkpoint::open(named.value());
  if (!opened.ok()) return opened.status();
  TrainedRun run{std::move(opened).value(), {}};
  warn_of_damaged(run.checkpoint, use, error);
  const Result<Config> deck =
      parse_deck(run.checkpoint.head().deck, "the deck in " + run.checkpoint.path(), {});
  if (!deck.ok()) return deck.status();
  run.config = deck.value();
  run.lacks_gpu = run.config.compute.kernels == Kernels::cuda && !kernels::cuda_problem().empty();
  if (run.lacks_gpu) run.config.compute.kernels = Kernels::native;
  return run;
}

Result<TrainedModel> load_model(const TrainedRun& run) {
  Result<std::unique_ptr<kernels::Backend>> backend = make_backend(run.config);
  if (!backend.ok()) return backend.status();
  TrainedModel model{std::move(backend).value(), nullptr};
  model.backend->prepare_thread();
  model.inference = std::make_unique<Inference>(run.config, *model.backend);
  const Status loaded = read_weights(run.checkpoint, run.config, *model.backend, *model.inference);
  if (!loaded.ok()) return loaded;
  return model;
}

}  // namespace swarmpi
