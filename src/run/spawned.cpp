#include "run/spawned.hpp"

#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "config/deck.hpp"
#include "core/fields.hpp"
#include "core/hash.hpp"
#include "core/host_name.hpp"
#include "core/version.hpp"
#include "io/journal.hpp"
#include "model/make_backend.hpp"
#include "model/stage_model.hpp"
#include "run/peer_life.hpp"
#include "transport/mpi_session.hpp"
#include "transport/mpi_transport.hpp"
#include "transport/wire.hpp"
#include "worker/signals.hpp"

namespace swarmpi {
namespace {

// Whoever starts it may die meanwhile, and MPI would wait for ever.
constexpr double kStartLimitS = 20;

struct Greeting {
  std::int32_t id = 0;
  std::int64_t ranks = 0, peers_on_host = 0, first_term = 0;
  bool must_agree = true;
  std::string run_file, checkpoints, resumed_from;
  std::string build, fingerprint, deck;
  ResumeState state;
};

// The wire knows how to carry the state.
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

std::optional<Greeting> unpack_greeting(const std::string& text) {
  Fields fields(text);
  Greeting greeting;
  const auto read = [&]<class Number>(Number& number) {
    const auto field = fields.number<Number>();
    if (field) number = *field;
    return field.has_value();
  };
  int must_agree = 0;
  if (!read(greeting.id) || !read(greeting.ranks) || !read(greeting.peers_on_host) ||
      !read(greeting.first_term) || !read(must_agree)) {
    return std::nullopt;
  }
  greeting.must_agree = must_agree != 0;
  for (std::string* field : {&greeting.run_file, &greeting.checkpoints, &greeting.resumed_from,
                             &greeting.build, &greeting.fingerprint, &greeting.deck}) {
    auto read_text = fields.text();
    if (!read_text) return std::nullopt;
    *field = *std::move(read_text);
  }
  const auto state = fields.text();
  const std::optional<ResumeState> unpacked = state ? unpack_state(*state) : std::nullopt;
  if (!unpacked || !fields.done()) return std::nullopt;
  greeting.state = *unpacked;
  return greeting;
}

// As prepare() does it for those of the start, but nothing is to be decided any more.
Result<Preparation> prepare_newcomer(const Greeting& greeting) {
  if (greeting.build != build_line()) {
    return Status::bad_input("another build of the program stands on this host");
  }
  const Result<Config> parsed = parse_deck(greeting.deck, "the run's deck", {});
  if (!parsed.ok()) return parsed.status();
  Config config = parsed.value();
  std::vector<StageSpec> specs = partition_model(config.model, config.swarm.stages);
  Result<std::unique_ptr<kernels::Backend>> backend = make_backend(config);
  if (!backend.ok()) return backend.status();
  Result<Dataset> data = Dataset::open(config);
  if (!data.ok()) return data.status();
  backend.value()->prepare_thread();
  const std::string own = hex(fingerprint(config, *backend.value()));
  if (own != greeting.fingerprint) {
    return Status::bad_input("this host computes other bits (fingerprint " + own + ", not " +
                             greeting.fingerprint + ")");
  }
  StartPoint start;
  if (!greeting.resumed_from.empty()) {
    Result<Checkpoint> checkpoint = Checkpoint::open(greeting.resumed_from);
    if (checkpoint.ok()) start.checkpoint = std::move(checkpoint).value();
  }
  start.state = greeting.state;
  start.must_agree = greeting.must_agree;
  start.first_term = greeting.first_term;
  OutputPaths paths{greeting.run_file, journal_folder(greeting.run_file), greeting.checkpoints};
  Roster roster = make_roster(greeting.ranks, config.swarm.spares);
  roster.first_term = Term(greeting.first_term);
  return Preparation{std::move(config),
                     std::move(paths),
                     std::move(data).value(),
                     std::move(specs),
                     std::move(backend).value(),
                     own,
                     std::move(start),
                     PeerId(greeting.id),
                     std::move(roster),
                     {},
                     {}};
}

Outcome refused(const Status& status) { return {status, true, false, false, false}; }

Outcome live_as_newcomer(MpiSession& session, Inbox& inbox, SignalWatch& signals) {
  const Result<std::string> hello = session.hear_hello();
  if (!hello.ok()) return refused(hello.status());
  const std::optional<Greeting> greeting = unpack_greeting(hello.value());
  if (!greeting) {
    return refused(Status::failed("what started this process speaks another language"));
  }
  Result<Preparation> prepared = prepare_newcomer(*greeting);
  if (!prepared.ok()) return refused(prepared.status());
  Preparation& run = prepared.value();
  PayloadPool payloads;
  Fate fate;
  MpiTransportOptions options;
  options.fate = &fate;
  MpiTransport transport(session, payloads, options);
  transport.settle(run.self);
  Surroundings around{host_name(), greeting->peers_on_host, true};
  around.fate = &fate;
  around.strike = [](const std::string&) {};
  signals.deliver();
  return live(run, {}, transport, payloads, around, inbox, true);
}

}  // namespace

std::vector<std::string> arguments_of_spawned() { return {"spawned"}; }

std::string greeting(const Preparation& run, PeerId newcomer, std::int64_t peers_on_host) {
  std::string text;
  const auto ranks = static_cast<std::int64_t>(run.roster.all().size());
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
    std::fprintf(stderr, "swarmpi: only a run starts such a process (swarm.spawn)\n");
    return ExitStatus::bad_input;
  }
  const Outcome outcome = live_as_newcomer(*session.value(), inbox, signals);
  const Status& status = outcome.status;
  if (status.code() == ExitStatus::no || status.code() == ExitStatus::bad_input) {
    std::fprintf(stderr, "swarmpi: a newcomer on %s: %s\n", host_name().c_str(),
                 status.message().c_str());
  }
  std::fflush(nullptr);
  // MPI's own end waits for the one that has started it, who does not hear of any other.
  if (session.value()->lost_a_rank() || !outcome.saw_the_end) MpiSession::leave();
  (void)session.value()->finish();
  return status.code() == ExitStatus::stopped ? ExitStatus::good : status.code();
}

}  // namespace swarmpi
