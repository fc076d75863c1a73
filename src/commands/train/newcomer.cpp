#include "commands/train/newcomer.hpp"

#include <optional>
#include <utility>

#include "commands/train/handshake.hpp"
#include "commands/train/output_paths.hpp"
#include "commands/train/prepared_run.hpp"
#include "commands/train/shared_folders.hpp"
#include "commands/train/train.hpp"
#include "config/deck.hpp"
#include "core/archive.hpp"
#include "core/version.hpp"

namespace swarmpi {
namespace {

Result<TrainOptions> unpack_options(const std::string& text) {
  const Result<std::string> bytes = behind_wire_version(text);
  if (!bytes.ok()) {
    return Status::failed("handshake mismatch with the rank that spawned this process: " +
                          bytes.status().message());
  }
  Result<RunningSwarm> swarm = from_bytes<RunningSwarm>(bytes.value());
  if (!swarm.ok()) {
    return Status::failed(
        "handshake mismatch: the rank that spawned this process sent start information that this "
        "build (" +
        build_line() + ") cannot read: install the same build on all hosts");
  }
  if (const std::string& build = swarm.value().build; build != build_line()) {
    return Status::bad_input("build mismatch: the run uses " + build + ", this host has " +
                             build_line() + ": install the same build on all hosts");
  }
  const std::string run_file = swarm.value().run_file;
  return TrainOptions{
      .deck = {}, .out = run_file, .quiet = true, .joins = std::move(swarm).value()};
}

// The folders of the run, in which this process shows files while it lives.
class NewcomersFolders {
 public:
  // Errors: bad_input, where they are not those of the first rank, or cannot be written.
  Status show(const TrainOptions& options) {
    const Result<Config> deck = parse_deck(options.joins->deck, "the run's deck", {});
    if (!deck.ok()) return deck.status();
    const OutputPaths paths = output_paths(options, deck.value());
    Status seen = check_probes_seen(paths, options.joins->probes, "the first rank of the run");
    if (!seen.ok()) return seen;
    probes_.emplace(paths, options.joins->self.value);
    return probes_->status();
  }
  std::string shows() const { return probes_ ? probes_->name() : ""; }

 private:
  std::optional<FolderProbes> probes_;
};

}  // namespace

std::vector<std::string> arguments_of_spawned() { return {"spawned"}; }

std::optional<std::string> port_of_newcomer(const std::vector<std::string>& arguments) {
  if (arguments.size() != 2 || arguments[0] != arguments_of_spawned()[0]) return std::nullopt;
  return arguments[1];
}

std::string packed_options(const PreparedRun& run, PeerId newcomer, const std::string& hosts) {
  const RunningSwarm swarm{.build = build_line(),
                           .self = newcomer,
                           .ranks = static_cast<std::int64_t>(run.membership.all().size()),
                           .peers_on_host = run.peers_on_host,
                           .first_term = run.start.first_term,
                           .run_file = run.paths.run_file,
                           .hosts = hosts,
                           .resumed_from = run.start.checkpoint ? run.start.checkpoint->path() : "",
                           .fingerprint = run.fingerprint,
                           .deck = resolved_deck(run.config),
                           .state = run.start.state,
                           .probes = run.shared_file,
                           .budgets = run.membership.budgets,
                           .needs = run.needs};
  return with_wire_version(to_bytes(swarm));
}

Result<TrainOptions> receive_options(MpiSession& session) {
  Result<TrainOptions> options = Status::failed("no start information has come");
  NewcomersFolders folders;
  const auto answer = [&](const std::string& text) {
    options = unpack_options(text);
    const Status shown = options.ok() ? folders.show(options.value()) : options.status();
    return StartAnswer{.process = {}, .shows = folders.shows(), .why_not = shown.message()};
  };
  const Result<std::string> taken = session.receive_start_info(answer);
  return taken.ok() || !options.ok() ? options : Result<TrainOptions>(taken.status());
}

}  // namespace swarmpi
