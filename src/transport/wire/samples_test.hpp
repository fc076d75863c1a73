#pragma once
// For tests: messages of every kind, with values that are easily lost on the way.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "core/archive.hpp"
#include "core/status.hpp"
#include "protocol/messages/message_table.hpp"
#include "protocol/step/commit_record.hpp"
#include "protocol/step/restart_point.hpp"

namespace swarmpi::test {

// Bits of a NaN that no computation makes.
inline const double kOddNan = std::bit_cast<double>(0x7ff8'0000'dead'beefULL);
inline constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
inline constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

inline PayloadRef payload_of(std::size_t size_bytes) {
  auto payload = std::make_shared<Payload>(size_bytes);
  for (std::size_t i = 0; i < size_bytes; ++i) payload->data()[i] = std::byte(i * 7 + 1);
  return payload;
}

inline const MicrobatchId kMicrobatch{Step(kMost), Purpose::validate, -3};
inline const WorkId kWork{kMicrobatch, StageId(7)};
inline const SealId kSeal{Incarnation(kLeast), Term(5), kMost};

inline Bitmap odd_bitmap() {
  Bitmap bitmap(131);
  for (const int index : {0, 7, 8, 63, 64, 130}) bitmap.insert(index);
  return bitmap;
}

inline CommitRecord odd_record() {
  CommitRecord record;
  record.step = Step(-1);
  record.term = Term(kLeast);
  record.time_s = 1e-300;
  record.loss = kOddNan;
  record.validation_loss = std::numeric_limits<double>::infinity();
  record.tokens = kLeast;
  record.grad_norm = -0.0;
  record.clip = 1e-45F;
  record.lr = std::numeric_limits<float>::infinity();
  record.correction1 = -3.25F;
  record.correction2 = std::bit_cast<float>(0x7fc0'1234U);
  record.skipped = true;
  record.applied_updates = 11;
  record.skips_in_a_row = 2;
  record.next_exponents = {kernels::kNoExponent, -1, 0, 32767};
  record.hash_before = ~0ULL;
  record.exponents_between = {{1, -1}, {}};
  return record;
}

inline ReportMessage odd_report() {
  ReportMessage report;
  report.contributions.push_back({kWork, {{-7, true, false}, {kernels::kNoExponent, false, true}}});
  report.contributions.push_back({{}, {}});
  report.losses.push_back({kMicrobatch, 5e-324});
  report.hashes.push_back(
      {Step(3), StageId(-1), {std::vector<std::uint64_t>(100'000, ~0ULL), {7, 0}}});
  PeerRow row;
  row.step = 1;
  row.peer = 2;
  row.stage = 3;
  row.compute_s = 4.5;
  row.idle_s = -5.5;
  row.communication_s = 6.5;
  row.recovery_s = kOddNan;
  row.repeated = 8;
  row.queue = 9.5;
  row.bytes_sent = kMost;
  row.bytes_received = kLeast;
  row.microbatches = 12;
  row.transfer_s = 13.5;
  report.uses.push_back({row});
  report.goodput.push_back({kMost, 2, 3.5, -0.0, 5.5, kOddNan, 7.5, 8.5, 9.5, 10.5, 11, kLeast});
  return report;
}

inline PathRef odd_path() {
  return std::make_shared<const Path>(
      Path{{Term(kMost), -8},
           {{StageId(-2147483647), PeerId(5)}, {StageId(3), PeerId(-1)}, {StageId(4), PeerId(0)}},
           StageId(2147483647)});
}

inline std::shared_ptr<const StepFacts> odd_facts() {
  return std::make_shared<const StepFacts>(
      StepFacts{-0.0, kOddNan, {kernels::kNoExponent, 5, 32767}, {-1, 2147483647}});
}

inline StageSeal odd_stage_seal() {
  StageSeal seal;
  seal.stage = StageId(2);
  seal.seal = kSeal;
  seal.replicas = {PeerId(1), PeerId(2147483647)};
  seal.microbatches = odd_bitmap();
  seal.chunk_replicas = kMost;
  seal.finished_chunks = Bitmap(9);
  seal.finished_chunks.insert(8);
  seal.to_send = {{-7, {PeerId(1), PeerId(0)}}, {8, {}}};
  seal.senders = {PeerId(-2147483647), PeerId(2147483647), PeerId(0)};
  seal.learners = {PeerId(-5), PeerId(9)};
  seal.attempt = kMost;
  return seal;
}

inline TableMessage odd_table() {
  TableMessage table;
  table.view = {Term(-2), kLeast};
  table.incarnation = Incarnation(kMost);
  table.commits = {std::make_shared<const CommitRecord>(odd_record()),
                   std::make_shared<const CommitRecord>()};
  table.written = Step(-1);
  table.checkpointed = Step(kMost);
  table.hashes = odd_report().hashes;
  table.hashes.front().hash.tensors.resize(3);
  table.losses = {{kMicrobatch, -5e-324}, {{}, 0}};
  table.facts = {{Step(2), odd_facts()}, {Step(3), nullptr}};
  table.stages = {{Step(4), StageId(5), odd_bitmap(), {{-7, true, true}}, kLeast, {9, -9}, 2},
                  StageRow{}};
  table.works = {{kWork, Phase::to_forward, PeerId(6), {}, StageId(1), true, false, true},
                 {kWork, Phase::passed_on, std::nullopt, ViewNumber{Term(3), -4}, StageId(-1),
                  false, true, false},
                 {kWork, Phase::to_backward, PeerId(-6), {}, {}, false, false, false},
                 {kWork, Phase::over, PeerId(0), ViewNumber{}, StageId(7), true, true, true}};
  table.reduced = {{Step(7), StageId(8), 0, {{kOddNan}, 3, {}}},
                   {Step(9), StageId(10), kMost, {{}, 0, {5}}}};
  table.learned = {{StageId(11), Step(12), {~0ULL, 0}}, {StageId(-1), Step(kMost), {}}};
  table.end = std::make_shared<const EndMessage>(EndMessage{ExitStatus::stopped, "why"});
  table.goodput = {odd_report().goodput.front(), {}};
  table.untold_s = kOddNan;
  return table;
}

inline ViewMessage odd_view() {
  return {share({{Term(9), 77},
                 {{PeerId(0), {}},
                  {PeerId(4), {StageId(0), StageId(3)}},
                  {PeerId(2147483647), {StageId(-2147483647)}}},
                 {{PeerId(0), {StageId(1), StageId(2147483647)}}, {PeerId(7), {}}},
                 {{PeerId(4), {StageId(3)}}}}),
          nullptr};
}

inline std::shared_ptr<const RestartPoint> odd_checkpoint() {
  RestartPoint checkpoint;
  checkpoint.state.step = kLeast;
  checkpoint.state.applied_updates = kMost;
  checkpoint.state.skips_in_a_row = -3;
  checkpoint.state.incarnation = 4;
  checkpoint.state.exponents = {{kernels::kNoExponent, 7}, {}};
  checkpoint.state.state_hash = ~0ULL;
  checkpoint.state.time_s = kOddNan;
  checkpoint.files = {{std::string("a\0b\xff", 4), ~0ULL, kLeast}, {}};
  return std::make_shared<const RestartPoint>(std::move(checkpoint));
}

inline ViewMessage odd_restart() {
  ViewMessage message = odd_view();
  message.restart = odd_checkpoint();
  return message;
}

// Sets every field of an object to something unlike its default, and no two numbers alike.
class Filler {
 public:
  void fill(bool& value) { value = true; }
  template <Number T>
  void fill(T& value) {
    value = static_cast<T>(++last_);
  }
  template <class Enum>
  requires std::is_enum_v<Enum>
  void fill(Enum& value) { value = last_of(value); }
  template <class Tag, class Value>
  void fill(Id<Tag, Value>& id) {
    fill(id.value);
  }
  void fill(std::string& text) { text = std::to_string(++last_); }
  void fill(Status& status) { status = Status::bad_input(std::to_string(++last_)); }
  void fill(Bitmap& bitmap) {
    bitmap = Bitmap(++last_);
    bitmap.insert(0);
  }
  void fill(ViewRef& view) {
    const auto number = filled<ViewNumber>();
    view = share({number,
                  filled<View::Roles>(),
                  filled<View::Roles>(),
                  filled<View::Roles>(),
                  {},
                  filled<LeadingOrder>(),
                  filled<Budgets>()});
  }
  void fill(PayloadRef& payload) { payload = payload_of(static_cast<std::size_t>(++last_)); }
  void fill(SharedDoubles& values) { values = filled<std::vector<double>>(); }
  template <class T>
  void fill(std::vector<T>& values) {
    for (int i = 0; i < 2; ++i) fill(values.emplace_back());
  }
  template <class T>
  void fill(std::set<T>& values) {
    for (int i = 0; i < 2; ++i) values.insert(filled<T>());
  }
  template <class Key, class Value>
  void fill(std::map<Key, Value>& values) {
    for (int i = 0; i < 2; ++i) fill(values[filled<Key>()]);
  }
  template <class T>
  void fill(std::optional<T>& value) {
    fill(value.emplace());
  }
  template <class T>
  void fill(std::shared_ptr<const T>& pointer) {
    pointer = std::make_shared<const T>(filled<T>());
  }
  template <HasFields T>
  void fill(T& object) {
    for_each_field(object, [this](std::string_view, auto& field) { fill(field); });
  }

 private:
  template <class T>
  T filled() {
    T value;
    fill(value);
    return value;
  }

  int last_ = 0;
};

inline std::vector<MessageBody> one_of_each() {
  std::vector<MessageBody> all;
  MessageKinds::for_each_row([&]<std::uint8_t, class Body>() {
    Body body;
    Filler().fill(body);
    all.emplace_back(std::move(body));
  });
  std::ranges::sort(all, {}, &MessageBody::number);
  return all;
}

// One of every kind; then some that are easily damaged: extreme numbers, lists empty and long,
// payloads null, empty and large.
inline std::vector<MessageBody> one_of_everything() {
  std::vector<MessageBody> all = one_of_each();
  const std::vector<MessageBody> odd = {
      odd_view(),
      odd_restart(),
      ViewMessage{no_view(), std::make_shared<const RestartPoint>()},
      ViewMessage{},
      InquiryMessage{Term(-5)},
      InquiryAnswer{Term(6), odd_view().view, odd_checkpoint()},
      InquiryAnswer{},
      IssueMessage{kMicrobatch, odd_path()},
      IssueMessage{kMicrobatch, nullptr},
      ForwardMessage{kWork, payload_of(100'000), odd_path()},
      ForwardMessage{kWork, nullptr, nullptr},
      ResendMessage{kWork, odd_path()},
      ResendMessage{kWork, std::make_shared<const Path>()},
      ResendMessage{kWork, nullptr},
      ForwardDone{StageId(7), kOddNan},
      BackwardMessage{kWork, payload_of(0)},
      BackwardMessage{kWork, nullptr},
      odd_report(),
      ReportMessage{},
      SealMessage{Step(4), {odd_stage_seal(), StageSeal{}}, true, odd_facts()},
      SealMessage{Step(4), {}, false, nullptr},
      ReopenMessage{Step(kLeast), StageId(2)},
      SealRefused{kSeal, Step(-4), StageId(2), odd_bitmap()},
      ShareMessage{kSeal, StageId(3), -12, {5, 0xdeadbeefcafe0001}, payload_of(17)},
      ChunkMessage{kSeal, StageId(4), 13, {-1, 7}, {kOddNan, 0, 1e300}, 9, payload_of(4096)},
      ChunkRefused{kSeal, Step(11), StageId(4), 14, {3, 0xffffffffffffffff}},
      ReducedMessage{Step(-3), StageId(5), 1, {{0.1, 0.2}, 0x8000000000000001, {1, 0}}},
      CommitMessage{std::make_shared<const CommitRecord>(odd_record()), Step(kLeast), Step(-1)},
      odd_table(),
      TableMessage{},
      FetchMessage{StageId(-7), {kLeast, kMost}, Step(kLeast)},
      PieceMessage{StageId(8), {-2147483647, 3}, Step(kMost), ~0ULL, payload_of(129)},
      PieceMessage{StageId(8), {1, 2}, Step(2), 5, nullptr},
      RatiosMessage{StageId(8), Step(kMost), {0.5f, -0.0f, 1e-38f}},
      RatiosMessage{StageId(-8), Step(2), {}},
      LearnedMessage{StageId(9), Step(-1), {1, ~0ULL}},
      LearnedMessage{StageId(9), Step(3), {}},
      StageStoredMessage{
          Step(8), StageId(9), true, {std::string("a\0b\xff", 4), ~0ULL, 10}, {0, ~0ULL}},
      StageStoredMessage{Step(8), StageId(9), false, {}, {}},
      LostMessage{PeerId(-2147483647), true},
      HeartbeatMessage{1.5e300, kMost, 4e-320, -0.0, PeerId(-2147483647), 1},
      PingMessage{-1.5e300},
      PongMessage{4e-320},
      EndMessage{ExitStatus::no, std::string(100'000, 'x')},
  };
  all.insert(all.end(), odd.begin(), odd.end());
  return all;
}

}  // namespace swarmpi::test
