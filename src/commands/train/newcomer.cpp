#include "commands/train/newcomer.hpp"

#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "commands/train/prepared_run.hpp"
#include "commands/train/train.hpp"
#include "config/deck.hpp"
#include "core/fields.hpp"
#include "core/version.hpp"
#include "transport/wire/wire.hpp"

namespace swarmpi {
namespace {

// The rank that spawns this process may die meanwhile, and MPI_Init would then wait for ever.
constexpr double kStartLimitS = 20;

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

Result<TrainOptions> unpack_options(const std::string& text) {
  Fields fields(text);
  const auto read = [&]<class Value>(Value& value) {
    std::optional<Value> field;
    if constexpr (std::is_same_v<Value, std::string>) {
      field = fields.text();
    } else {
      field = fields.template number<Value>();
    }
    if (field) value = *field;
    return field.has_value();
  };
  std::string build, run_file, packed;
  // The build stands first: what follows it may be another in each.
  const bool sent = read(build);
  if (sent && build != build_line()) {
    return Status::bad_input("build mismatch: the run uses " + build + ", this host has " +
                             build_line() + ": install the same build on all hosts");
  }
  RunningSwarm swarm;
  int must_agree = 0;
  const bool read_all = sent && read(swarm.self.value) && read(swarm.ranks) &&
                        read(swarm.peers_on_host) && read(swarm.first_term) && read(must_agree) &&
                        read(run_file) && read(swarm.resumed_from) && read(swarm.fingerprint) &&
                        read(swarm.deck) && read(packed) && fields.done();
  const std::optional<ResumeState> state = unpack_state(packed);
  if (!read_all || !state) {
    return Status::failed(
        "handshake mismatch: the rank that spawned this process sent start information that this "
        "build (" +
        build_line() + ") cannot read: install the same build on all hosts");
  }
  swarm.must_agree = must_agree != 0;
  swarm.state = *state;
  return TrainOptions{.deck = {}, .out = run_file, .quiet = true, .joins = swarm};
}

}  // namespace

std::vector<std::string> arguments_of_spawned() { return {"spawned"}; }

std::string packed_options(const PreparedRun& run, PeerId newcomer) {
  std::string text;
  append_field(text, build_line());
  const auto ranks = static_cast<std::int64_t>(run.membership.all().size());
  for (const std::int64_t number : {std::int64_t{newcomer.value}, ranks, run.peers_on_host,
                                    run.start.first_term, std::int64_t{run.start.must_agree}}) {
    append_field(text, std::to_string(number));
  }
  append_field(text, run.paths.run_file);
  append_field(text, run.start.checkpoint ? run.start.checkpoint->path() : "");
  append_field(text, run.fingerprint);
  append_field(text, resolved_deck(run.config));
  append_field(text, packed_state(run.start.state));
  return text;
}

Result<std::unique_ptr<MpiSession>> open_session_of_newcomer() {
  Result<std::unique_ptr<MpiSession>> session = MpiSession::start(kStartLimitS);
  if (session.ok() && session.value()->spawned()) return session;
  return Status::bad_input(
      "only a running swarm may start `swarmpi spawned` (swarm.spawn = true); start runs with "
      "`swarmpi train`");
}

Result<TrainOptions> receive_options(MpiSession& session) {
  const Result<std::string> text = session.receive_start_info();
  return text.ok() ? unpack_options(text.value()) : Result<TrainOptions>(text.status());
}

}  // namespace swarmpi
