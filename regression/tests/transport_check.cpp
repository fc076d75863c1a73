// Checks of the transport over MPI, made by all ranks of an mpirun; transport_test.py runs them.
// usage: mpirun ... transport_check CHECK FOLDER [NUMBER]...
//   traffic MESSAGES SEED      all send to all; every message arrives whole, once, in order
//   deaths SECONDS SEED RANK...  the same, while these ranks kill themselves
//   crowded SECONDS [both]     even ranks send to odd ones all that goes, or each of these to each
//                              of those; how old pings are
//   idle SECONDS               no rank does anything; how much CPU time that takes
//   speed [threads]            rank 0 and 1 against MPI itself; with an MPI that threads may share
// A rank writes what it found to FOLDER/rank-R once MPI has ended; the last line is "good" if
// nothing was wrong.

#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/check.hpp"
#include "core/hash.hpp"
#include "core/overloaded.hpp"
#include "protocol/messages/all_ports.hpp"
#include "protocol/messages/checkpoints.hpp"
#include "protocol/messages/ending.hpp"
#include "protocol/messages/liveness.hpp"
#include "protocol/messages/reduction.hpp"
#include "transport/mpi/link_speed.hpp"
#include "transport/mpi/mpi_transport.hpp"
#include "transport/mpi/session.hpp"

namespace swarmpi {
namespace {

constexpr std::size_t kLargestPayloadBytes = 5 << 20;
constexpr int kUnanswered = 8;

// The same on all ranks of a host.
double now_s() {
  const auto since_boot = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since_boot).count();
}

std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// The content of the `number`th message from one rank to another: sizes from nothing to the
// largest, small ones as often as large ones.
struct Parcel {
  Parcel(std::uint64_t seed, int from, int to, std::int64_t number)
      : key(mix(
            mix(seed + static_cast<std::uint64_t>(from) * 1009 + static_cast<std::uint64_t>(to)) +
            static_cast<std::uint64_t>(number))) {
    const std::size_t limit = kLargestPayloadBytes >> (key % 23);
    size_bytes = mix(key) % (limit + 1);
    in_header = key % 7 == 0;
    late = key % 7 == 1 && from != to;
  }
  std::byte at(std::size_t index) const {
    return static_cast<std::byte>(key + index * 31 + (index >> 8));
  }

  std::uint64_t key;
  std::size_t size_bytes = 0;
  bool in_header = false;  // as text, without a payload
  bool late = false;       // sent before its content is there
};

// Payloads that were sent before their content was there.
class LatePayloads {
 public:
  void add(std::shared_ptr<Payload> payload, const Parcel& parcel) {
    payload->comes_later();
    waiting_.emplace_back(std::move(payload), parcel);
  }
  void fill_all() {
    for (auto& [payload, parcel] : waiting_) {
      for (std::size_t i = 0; i < parcel.size_bytes; ++i) payload->data()[i] = parcel.at(i);
      payload->has_come();
    }
    waiting_.clear();
  }

 private:
  std::vector<std::pair<std::shared_ptr<Payload>, Parcel>> waiting_;
};

MessageBody wrap(const Parcel& parcel, std::int64_t number, PayloadPool& payloads,
                 LatePayloads& late) {
  const SealId seal{Incarnation(0), Term(0), number};
  if (parcel.in_header) {
    std::string text(parcel.size_bytes, '\0');
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(parcel.at(i));
    return StageStoredMessage{Step(number), StageId(0), true, {std::move(text), parcel.key, 0}, {}};
  }
  const auto payload = payloads.take(parcel.size_bytes);
  std::fill_n(payload->data(), parcel.size_bytes, std::byte{0xde});
  late.add(payload, parcel);
  if (!parcel.late) late.fill_all();  // and with it those before
  return ShareMessage{seal, StageId(0), 0, {}, payload};
}

class TransportCheck {
 public:
  TransportCheck(MpiSession& session, PayloadPool& payloads)
      : session_(session),
        payloads_(payloads),
        transport_(std::make_unique<MpiTransport>(session, payloads)),
        rank_(session.rank()),
        ranks_(session.ranks()),
        lanes_(static_cast<std::size_t>(ranks_)) {}

  void traffic(std::uint64_t seed, std::int64_t messages, double seconds,
               const std::vector<int>& victims, double start_s);
  void idle(double seconds);
  void overtaking(const std::string& waits);
  void crowded(double seconds, bool both_ways);

  std::string report;
  bool good = true;

 private:
  struct Lane {
    std::int64_t sent = 0;
    std::int64_t received = 0;
    std::int64_t unanswered = 0;
    bool ended = false;
    bool lost = false;
  };

  void expect(bool condition, const std::string& what) {
    if (condition) return;
    good = false;
    report += "wrong: " + what + "\n";
  }
  void send(int to, MessageBody body) {
    transport_->send(PeerId(to), {Incarnation(0), ViewNumber{}, std::move(body)});
  }
  void take(const Event& event, std::uint64_t seed);
  void check(int from, std::uint64_t seed, std::int64_t number, const std::byte* data,
             std::size_t size_bytes);
  bool all_ended() const {
    return std::all_of(lanes_.begin(), lanes_.end(),
                       [](const Lane& l) { return l.ended || l.lost; });
  }

  MpiSession& session_;
  PayloadPool& payloads_;
  std::unique_ptr<MpiTransport> transport_;
  int rank_;
  int ranks_;
  std::vector<Lane> lanes_;
  std::map<int, double> lost_at_s_;
  double begin_s_ = now_s();
};

void TransportCheck::check(int from, std::uint64_t seed, std::int64_t number, const std::byte* data,
                           std::size_t size_bytes) {
  Lane& lane = lanes_[static_cast<std::size_t>(from)];
  expect(!lane.lost, fmt::format("rank {} sends after its death", from));
  expect(number == lane.received,
         fmt::format("from rank {} came {}, not {}", from, number, lane.received));
  lane.received = number + 1;
  const Parcel parcel(seed, from, rank_, number);
  bool same = size_bytes == parcel.size_bytes;
  for (std::size_t i = 0; same && i < size_bytes; ++i) same = data[i] == parcel.at(i);
  expect(same, fmt::format("message {} of rank {} is damaged", number, from));
  send(from, HeartbeatMessage{});
}

void TransportCheck::take(const Event& event, std::uint64_t seed) {
  if (const auto* lost = get_if<PeerLost>(&event)) {
    Lane& lane = lanes_[static_cast<std::size_t>(lost->peer.value)];
    expect(!lane.lost, fmt::format("rank {} is lost twice", lost->peer.value));
    lane.lost = true;
    lost_at_s_[lost->peer.value] = now_s();
    return;
  }
  const auto& arrived = get<MessageArrived>(event);
  const int from = arrived.from.value;
  Lane& lane = lanes_[static_cast<std::size_t>(from)];
  visit(Overloaded{
            [&](const ShareMessage& m) {
              check(from, seed, m.seal.number, m.sums->data(), m.sums->size_bytes());
            },
            [&](const StageStoredMessage& m) {
              check(from, seed, m.step.value,
                    reinterpret_cast<const std::byte*>(m.file.name.data()), m.file.name.size());
            },
            [&](const HeartbeatMessage&) { --lane.unanswered; },
            [&](const EndMessage& m) {
              expect(m.why == std::to_string(lane.received), "the end comes before all else");
              lane.ended = true;
            },
            [&](const auto&) { expect(false, "a kind of message that was not sent"); },
        },
        arrived.message.body);
}

void TransportCheck::traffic(std::uint64_t seed, std::int64_t messages, double seconds,
                             const std::vector<int>& victims, double start_s) {
  const bool victim = std::count(victims.begin(), victims.end(), rank_) > 0;
  std::uint64_t draw = mix(seed * 7919 + static_cast<std::uint64_t>(rank_));
  std::int64_t sent = 0;
  bool ending = false;
  double last_s = now_s();
  double longest_gap_s = 0;
  LatePayloads late;
  while (!ending || !all_ended()) {
    if (victim && now_s() > start_s + seconds / 2) raise(SIGKILL);
    while (const auto event = transport_->receive()) take(*event, seed);
    const bool over = messages > 0 ? sent == messages : now_s() > start_s + seconds;
    if (over && !ending) {
      ending = true;
      for (int to = 0; to < ranks_; ++to) {
        send(to, EndMessage{ExitStatus::good,
                            std::to_string(lanes_[static_cast<std::size_t>(to)].sent)});
      }
    }
    draw = mix(draw);
    const int to = static_cast<int>(draw % static_cast<std::uint64_t>(ranks_));
    Lane& lane = lanes_[static_cast<std::size_t>(to)];
    if (!over && !lane.lost && lane.unanswered < kUnanswered) {
      send(to, wrap(Parcel(seed, rank_, to, lane.sent), lane.sent, payloads_, late));
      ++lane.sent;
      ++lane.unanswered;
      ++sent;
    } else {
      late.fill_all();
      transport_->wait(-1, 0.05);
    }
    longest_gap_s = std::max(longest_gap_s, now_s() - last_s);
    last_s = now_s();
    if (now_s() > start_s + 50) {
      expect(false, "no end after 50 s");
      break;
    }
  }
  expect(transport_->flush(2), "what was sent does not leave");
  for (const int lost : victims) {
    expect(lost_at_s_.count(lost) == 1, fmt::format("the death of rank {} is not reported", lost));
    const double after_s = lost_at_s_[lost] - (start_s + seconds / 2);
    report += fmt::format("rank {} was reported lost after {:.1f} ms\n", lost, after_s * 1e3);
  }
  expect(lost_at_s_.size() <= victims.size(), "a rank is lost that lives");
  report += fmt::format("{} messages sent, longest gap {:.1f} ms\n", sent, longest_gap_s * 1e3);
}

void TransportCheck::idle(double seconds) {
  const auto cpu_s = [] {
    rusage use{};
    getrusage(RUSAGE_SELF, &use);
    return static_cast<double>(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           1e-6 * static_cast<double>(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
  };
  const double begin_s = now_s();
  const double used_s = cpu_s();
  while (now_s() < begin_s + seconds) {
    expect(!transport_->receive(), "something arrives");
    transport_->wait(-1, 1);
  }
  const double share = (cpu_s() - used_s) / (now_s() - begin_s);
  report += fmt::format("idle {:.3f} % of a core\n", share * 100);
}

// Rank 1 looks at MPI only once all is on its way, or waits to be: then rank 0 makes the file
// `waits`.
void TransportCheck::overtaking(const std::string& waits) {
  constexpr std::size_t kLargeBytes = 50'000'000;
  if (rank_ == 0) {
    const auto payload = payloads_.take(kLargeBytes);
    std::fill_n(payload->data(), kLargeBytes, std::byte{1});
    send(1, ShareMessage{SealId{}, StageId(0), 0, {}, payload});
    send(1, HeartbeatMessage{});
    send(1, PongMessage{0});
    expect(!transport_->flush(0.25), "MPI takes more than may be ahead of a heartbeat");
    std::ofstream(waits).flush();
    expect(transport_->flush(20), "what was sent does not leave");
    return;
  }
  if (rank_ > 1) return;
  while (!std::filesystem::exists(waits) && now_s() < begin_s_ + 20) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::string came;
  while (came.size() < 3 && now_s() < begin_s_ + 40) {
    const auto event = transport_->receive();
    if (!event) {
      transport_->wait(-1, 0.05);
      continue;
    }
    const MessageBody& body = get<MessageArrived>(*event).message.body;
    if (holds_alternative<ShareMessage>(body)) came += "s";
    if (holds_alternative<HeartbeatMessage>(body)) came += "h";
    if (holds_alternative<PongMessage>(body)) came += "p";
  }
  expect(came == "hsp", "a heartbeat overtakes, and a pong does not, but came " + came);
}

// Twice all that goes for so long, and between these small messages only. Each receiver answers
// every large message, so that its sender knows how many wait.
void TransportCheck::crowded(double seconds, bool both_ways) {
  constexpr std::size_t kLargeBytes = 300'000, kSmallBytes = 1000;
  constexpr int kWaiting = 2;
  constexpr double kPeriodS = 0.1, kPauseS = 2, kDeadlineS = 60;
  const bool sends = both_ways || rank_ % 2 == 0;
  std::vector<int> partners;
  for (int other = 1 - rank_ % 2; other < ranks_; other += 2) partners.push_back(other);
  const auto payload = payloads_.take(kLargeBytes);
  std::fill_n(payload->data(), kLargeBytes, std::byte{1});
  double oldest_s = 0;  // less the time in which this rank did not look
  double looked_s = now_s(), away_s = 0;
  std::size_t pings = 0, large = 0, ended = 0;
  const auto take = [&](int from, const MessageBody& body) {
    if (const auto* ping = get_if<PingMessage>(&body)) {
      oldest_s = std::max(oldest_s, now_s() - ping->sent_s - away_s);
      ++pings;
    } else if (holds_alternative<ShareMessage>(body)) {
      send(from, HeartbeatMessage{});
      ++large;
    } else if (holds_alternative<HeartbeatMessage>(body)) {
      --lanes_[static_cast<std::size_t>(from)].unanswered;
    } else if (holds_alternative<EndMessage>(body)) {
      ++ended;
      if (!sends) send(from, EndMessage{});
    }
  };
  const auto fill = [&](int to) {
    std::int64_t& waiting = lanes_[static_cast<std::size_t>(to)].unanswered;
    for (; waiting < kWaiting; ++waiting) send(to, ShareMessage{{}, StageId(0), 0, {}, payload});
  };
  double tick_s = begin_s_;
  while (ended < partners.size() && now_s() < begin_s_ + kDeadlineS) {
    away_s = now_s() - looked_s;
    while (const auto event = transport_->receive()) {
      const auto& arrived = get<MessageArrived>(*event);
      take(arrived.from.value, arrived.message.body);
    }
    const double since_s = now_s() - begin_s_;
    const bool over = since_s > 2 * seconds + kPauseS;
    const bool pauses = since_s > seconds && since_s < seconds + kPauseS;
    const bool ticks = now_s() >= tick_s;
    for (const int to : partners) {
      if (!sends) break;
      if (!over && !pauses) fill(to);
      if (!over && ticks) {
        send(to, PingMessage{now_s()});
        send(to, StageStoredMessage{{}, {}, true, {std::string(kSmallBytes, 'x'), 0, 0}, {}});
      }
      if (over && !std::exchange(lanes_[static_cast<std::size_t>(to)].ended, true)) {
        send(to, EndMessage{});
      }
    }
    if (ticks) tick_s += kPeriodS;
    looked_s = now_s();
    transport_->wait(-1, kPeriodS / 2);
  }
  expect(ended == partners.size(), fmt::format("no end after {} s", kDeadlineS));
  expect(transport_->flush(20), "what was sent does not leave");
  std::array<char, 64> host{};
  gethostname(host.data(), host.size() - 1);
  report += fmt::format("on {}: {} bytes; the oldest of {} pings was {:.3f} s old\n", host.data(),
                        large * kLargeBytes, pings, oldest_s);
}

// ---- speed

void ping_pong(MpiSession& session, PayloadPool& payloads, MpiTransportOptions options,
               std::size_t size_bytes, int rounds, int in_flight, const char* what,
               std::string& report) {
  MpiTransport transport(session, payloads, options);
  const int rank = session.rank();
  const PeerId other(rank == 0 ? 1 : 0);
  const std::shared_ptr<Payload> payload = payloads.take(size_bytes);
  std::fill_n(payload->data(), size_bytes, std::byte{1});
  const Message message{Incarnation(0), ViewNumber{},
                        ShareMessage{SealId{}, StageId(0), 0, {}, payload}};
  const auto receive = [&] {
    while (!transport.receive()) transport.wait(-1, 1);
  };
  session.gather("");
  if (rank < 2) {
    const double begin_s = now_s();
    for (int round = 0; round < rounds; ++round) {
      if (rank == 0) {
        for (int i = 0; i < in_flight; ++i) transport.send(other, message);
        receive();
      } else {
        for (int i = 0; i < in_flight; ++i) receive();
        transport.send(
            other, in_flight == 1 ? message : Message{Incarnation(0), ViewNumber{}, EndHeard{}});
      }
    }
    const double took_s = (now_s() - begin_s) / rounds;
    report +=
        in_flight == 1
            ? fmt::format("{}: {} B, half round trip {:.2f} us\n", what, size_bytes, took_s * 5e5)
            : fmt::format("{}: {} B, {:.2f} GB/s, {:.0f} messages/s\n", what, size_bytes,
                          static_cast<double>(size_bytes) * in_flight / took_s * 1e-9,
                          in_flight / took_s);
    transport.flush(1);
  }
}

void speed(MpiSession& session, PayloadPool& payloads, std::string& report) {
  MpiTransportOptions quiet;
  quiet.doorbell = false;
  for (const std::size_t size_bytes :
       {std::size_t{0}, std::size_t{3000}, std::size_t{65536}, std::size_t{1} << 20}) {
    const int rounds = size_bytes < 100000 ? 2000 : 200;
    session.gather("");  // no transport is left that could take the messages of others
    if (size_bytes >= 65536) {
      const LinkSpeed mpi = measure_link(session, size_bytes);
      report += fmt::format("MPI itself: 8 B, half round trip {:.2f} us; {} B, {:.2f} GB/s\n",
                            mpi.half_round_trip_s * 1e6, size_bytes, mpi.bytes_per_s * 1e-9);
    }
    ping_pong(session, payloads, {}, size_bytes, rounds, 1, "with doorbell", report);
    ping_pong(session, payloads, quiet, size_bytes, rounds, 1, "without doorbell", report);
    ping_pong(session, payloads, {}, size_bytes, rounds / 4, 16, "with doorbell", report);
  }
}

int run_check(const std::vector<std::string>& arguments) {
  auto started = MpiSession::start(arguments.back() == "threads");
  SWARMPI_CHECK(started.ok(), started.status().message());
  MpiSession& session = *started.value();
  const int rank = session.rank();
  PayloadPool payloads;
  const std::string& name = arguments[0];
  const auto number = [&](std::size_t index) { return std::stod(arguments.at(index)); };
  std::string report;
  bool good = true;
  if (name == "speed") {
    speed(session, payloads, report);
  } else {
    TransportCheck check(session, payloads);
    const double start_s = std::stod(session.gather(std::to_string(now_s()))[0]);
    if (name == "traffic") {
      check.traffic(static_cast<std::uint64_t>(number(3)), static_cast<std::int64_t>(number(2)), 0,
                    {}, start_s);
    } else if (name == "deaths") {
      std::vector<int> victims;
      for (std::size_t i = 4; i < arguments.size(); ++i) victims.push_back(std::stoi(arguments[i]));
      check.traffic(static_cast<std::uint64_t>(number(3)), 0, number(2), victims, start_s);
    } else if (name == "overtaking") {
      check.overtaking(arguments[1] + "/waits");
    } else if (name == "crowded") {
      check.crowded(number(2), arguments.size() > 3 && arguments[3] == "both");
    } else if (name == "idle") {
      check.idle(number(2));
    } else {
      SWARMPI_CHECK(false, "there is no check of the name " + name);
    }
    report = check.report;
    good = check.good;
  }
  const Status finished = session.finish();
  SWARMPI_CHECK(finished.ok(), finished.message());
  std::FILE* file = std::fopen((arguments[1] + "/rank-" + std::to_string(rank)).c_str(), "w");
  SWARMPI_CHECK(file != nullptr, "no report can be written");
  fmt::print(file, "{}{}\n", report, good ? "good" : "bad");
  std::fclose(file);
  return good ? 0 : 1;
}

}  // namespace
}  // namespace swarmpi

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  return swarmpi::run_check({argv + 1, argv + argc});
}
