#include "commands/train/newcomer.hpp"

#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "commands/train/run_peer.hpp"
#include "config/deck.hpp"
#include "core/fields.hpp"
#include "core/hash.hpp"
#include "core/machine.hpp"
#include "core/version.hpp"
#include "io/journal/journal.hpp"
#include "model/make_backend.hpp"
#include "model/stage_model.hpp"
#include "runtime/signals.hpp"
#include "transport/mpi/mpi_transport.hpp"
#include "transport/mpi/session.hpp"
#include "transport/wire/wire.hpp"

namespace swarmpi {
namespace {

// The rank that spawns this process may die meanwhile, and MPI_Init would then wait for ever.
constexpr double kStartLimitS = 20;

// What the rank that spawns a process sends it.
struct NewcomerInfo {
  std::int32_t id = 0;
  std::int64_t ranks = 0, peers_on_host = 0, first_term = 0;
  bool must_agree = true;
  std::string run_file, checkpoints, resumed_from;
  std::string build, fingerprint, deck;
  ResumeState state;
};

// Borrows the encoding of a ViewMessage, which carries a restart state.
std::string packed_state(const ResumeState& state) {
  const auto start = std::make_shared<const RestartPoint>(RestartPoint{state, {}});
  const Packed packed = pack(Message{{}, {}, ViewMessage{{}, start}});
  return {reinterpret_cast<const char*>(packed.header.data()), packed.header.size()};
}

std::optional<ResumeState> unpack_state(const std::string& text) {
  const std::span<const char> characters(text);
  const Result<Message> message = unpack(std::as_bytes(characters), nullptr);
  if (!message.ok()) return std::nullopt;
  const auto* view = std::get_if<ViewMessage>(&message.value().body);
  if (view == nullptr || !view->restart) return std::nullopt;
  return view->restart->state;
}

std::optional<NewcomerInfo> unpack_newcomer_info(const std::string& text) {
  Fields fields(text);
  NewcomerInfo info;
  const auto read = [&]<class Number>(Number& number) {
    const auto field = fields.number<Number>();
    if (field) number = *field;
    return field.has_value();
  };
  int must_agree = 0;
  if (!read(info.id) || !read(info.ranks) || !read(info.peers_on_host) || !read(info.first_term) ||
      !read(must_agree)) {
    return std::nullopt;
  }
  info.must_agree = must_agree != 0;
  for (std::string* field : {&info.run_file, &info.checkpoints, &info.resumed_from, &info.build,
                             &info.fingerprint, &info.deck}) {
    auto read_text = fields.text();
    if (!read_text) return std::nullopt;
    *field = *std::move(read_text);
  }
  const auto state = fields.text();
  const std::optional<ResumeState> unpacked = state ? unpack_state(*state) : std::nullopt;
  if (!unpacked || !fields.done()) return std::nullopt;
  info.state = *unpacked;
  return info;
}

// The counterpart of prepare_run() for a process that joins later: the run has chosen deck, outputs
// and restart state already, so this host only has to be able to serve them.
Result<PreparedRun> prepare_newcomer(const NewcomerInfo& info) {
  if (info.build != build_line()) {
    return Status::bad_input("build mismatch: the run uses " + info.build + ", this host has " +
                             build_line() + ": install the same build on all hosts");
  }
  const Result<Config> parsed = parse_deck(info.deck, "the run's deck", {});
  if (!parsed.ok()) return parsed.status();
  Config config = parsed.value();
  std::vector<StageSpec> specs = partition_model(config.model, config.swarm.stages);
  Result<std::unique_ptr<kernels::Backend>> backend = make_backend(config);
  if (!backend.ok()) return backend.status();
  Result<Dataset> data = Dataset::open(config);
  if (!data.ok()) return data.status();
  backend.value()->prepare_thread();
  const std::string own = hex(fingerprint(config, *backend.value()));
  if (own != info.fingerprint) {
    return Status::bad_input("fingerprint mismatch: this host computes " + own + ", the run " +
                             info.fingerprint +
                             ": spawn on processors of one kind, or start the run with "
                             "compute.max_isa or compute.kernels = \"reference\"");
  }
  StartPoint start;
  if (!info.resumed_from.empty()) {
    Result<Checkpoint> checkpoint = Checkpoint::open(info.resumed_from);
    if (checkpoint.ok()) start.checkpoint = std::move(checkpoint).value();
  }
  start.state = info.state;
  start.must_agree = info.must_agree;
  start.first_term = info.first_term;
  OutputPaths paths{info.run_file, journal_folder(info.run_file), info.checkpoints};
  InitialMembership membership = make_membership(info.ranks, config.swarm.spares);
  membership.first_term = Term(info.first_term);
  return PreparedRun{std::move(config),
                     std::move(paths),
                     std::move(data).value(),
                     std::move(specs),
                     std::move(backend).value(),
                     own,
                     std::move(start),
                     PeerId(info.id),
                     std::move(membership),
                     {},
                     {}};
}

Outcome refused(const Status& status) { return {.status = status, .saw_the_end = false}; }

Outcome run_newcomer(MpiSession& session, Inbox& inbox, SignalWatch& signals) {
  const Result<std::string> start_info = session.receive_start_info();
  if (!start_info.ok()) return refused(start_info.status());
  const std::optional<NewcomerInfo> info = unpack_newcomer_info(start_info.value());
  if (!info) {
    return refused(
        Status::failed("handshake mismatch: the rank that spawned this process sent start "
                       "information that this build (" +
                       build_line() + ") cannot read: install the same build on all hosts"));
  }
  Result<PreparedRun> prepared = prepare_newcomer(*info);
  if (!prepared.ok()) return refused(prepared.status());
  PreparedRun& run = prepared.value();
  PayloadPool payloads;
  EmulatedProcess emulated_process;
  MpiTransportOptions options;
  options.emulated_process = &emulated_process;
  MpiTransport transport(session, payloads, options);
  transport.admit(run.self);
  PeerEnvironment environment{host_name(), info->peers_on_host, true};
  environment.emulated_process = &emulated_process;
  environment.inject_fault = [](FaultEvent) {};
  signals.deliver();
  return run_peer(run, {}, transport, payloads, environment, inbox, true);
}

}  // namespace

std::vector<std::string> arguments_of_spawned() { return {"spawned"}; }

std::string packed_newcomer_info(const PreparedRun& run, PeerId newcomer,
                                 std::int64_t peers_on_host) {
  std::string text;
  const auto ranks = static_cast<std::int64_t>(run.membership.all().size());
  for (const std::int64_t number : {std::int64_t{newcomer.value}, ranks, peers_on_host,
                                    run.start.first_term, std::int64_t{run.start.must_agree}}) {
    append_field(text, std::to_string(number));
  }
  append_field(text, run.paths.run_file);
  append_field(text, run.paths.checkpoints);
  append_field(text, run.start.checkpoint ? run.start.checkpoint->path() : "");
  append_field(text, build_line());
  append_field(text, run.fingerprint);
  append_field(text, resolved_deck(run.config));
  append_field(text, packed_state(run.start.state));
  return text;
}

ExitStatus run_spawned() {
  Inbox inbox;
  SignalWatch signals(inbox, true);
  survive_file_size_limits();
  Result<std::unique_ptr<MpiSession>> session = MpiSession::start(kStartLimitS);
  if (!session.ok() || !session.value()->spawned()) {
    std::fprintf(stderr,
                 "swarmpi: only a running swarm may start `swarmpi spawned` (swarm.spawn = true); "
                 "start runs with `swarmpi train`\n");
    return ExitStatus::bad_input;
  }
  const Outcome outcome = run_newcomer(*session.value(), inbox, signals);
  const Status& status = outcome.status;
  if (status.code() == ExitStatus::no || status.code() == ExitStatus::bad_input) {
    std::fprintf(stderr, "swarmpi: spawned process on %s: %s\n", host_name().c_str(),
                 status.message().c_str());
  }
  std::fflush(nullptr);
  // MPI_Finalize would wait for the rank that spawned this process, and that rank notices only a
  // process that dies.
  if (session.value()->lost_a_rank() || !outcome.saw_the_end) MpiSession::leave();
  (void)session.value()->finish();
  return status.code() == ExitStatus::stopped ? ExitStatus::good : status.code();
}

}  // namespace swarmpi
