#include "simulation/event_trace.hpp"

#include <fmt/core.h>

#include <memory>
#include <optional>
#include <ranges>
#include <string_view>
#include <type_traits>
#include <variant>

#include "core/choices.hpp"
#include "protocol/messages/all_jobs.hpp"
#include "protocol/messages/all_ports.hpp"
#include "protocol/messages/message_table.hpp"

namespace swarmpi {
namespace {

// A value in words, which begin with what it is where the type says it: "stage 3". "" for nothing:
// null, an empty list, false.
struct Words {
  static std::string of(PeerId peer) { return "peer " + of(peer.value); }
  static std::string of(StageId stage) { return "stage " + of(stage.value); }
  static std::string of(Step step) { return "step " + of(step.value); }
  static std::string of(Term term) { return "term " + of(term.value); }
  static std::string of(Incarnation incarnation) { return "incarnation " + of(incarnation.value); }
  static std::string of(const MicrobatchId& id) {
    return (id.purpose == Purpose::train ? "microbatch " : "validation ") + of(id.index) + " of " +
           of(id.step);
  }
  static std::string of(const WorkId& work) { return of(work.microbatch) + ", " + of(work.stage); }
  static std::string of(const SealId& seal) {
    return "seal " + of(seal.term.value) + "." + of(seal.number);
  }
  static std::string of(const ViewNumber& view) {
    return "view " + of(view.term.value) + "." + of(view.number);
  }
  static std::string of(const View& view) {
    const auto roles = [](const char* name, const View::Roles& peers) {
      return peers.empty() ? "" : name + of(peers);
    };
    return of(view.number) + roles(", members ", view.members()) +
           roles(", learners ", view.learners()) + roles(", leaving ", view.leaving()) +
           (view.move() ? ", moving " + of(*view.move()) : "") +
           (view.abstaining().empty() ? "" : ", abstaining " + of(view.abstaining())) +
           (view.budgets().empty() ? "" : ", may take " + of(view.budgets()));
  }
  static std::string of(const Bitmap& bitmap) { return bitmap.text(); }
  static std::string of(const Payload& payload) { return of(payload.size_bytes()) + " bytes"; }
  static std::string of(const Status& status) {
    return of(status.code()) + ": " + status.message();
  }
  static std::string of(const Message& message) { return of(message.body); }
  static std::string of(Phase phase) {
    static constexpr const char* kNames[] = {"to_forward", "passed_on", "to_backward", "over"};
    return kNames[static_cast<int>(phase)];
  }
  static std::string of(const std::string& text) { return text; }
  template <class T>
  static std::string of(const std::optional<T>& value) {
    return value ? of(*value) : "";
  }
  template <class T>
  static std::string of(const std::shared_ptr<const T>& value) {
    return value ? of(*value) : "";
  }
  template <class First, class Second>
  static std::string of(const std::pair<First, Second>& pair) {
    return of(pair.first) + ": " + of(pair.second);
  }
  template <class Kind>
  static std::string with_name(const Kind& kind) {
    return std::string(kTypeName<Kind>) + fields(kind, " ", "");
  }
  template <class Kinds>
  static std::string of(const OpaqueVariant<Kinds>& choice) {
    return visit([](const auto& kind) { return with_name(kind); }, choice);
  }
  static std::string of(const Record& record) {
    return std::visit([](const auto& row) { return with_name(row); }, record);
  }
  template <class T>
  static std::string of(const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      return value ? "true" : "";
    } else if constexpr (std::is_floating_point_v<T>) {
      return fmt::format("{:.9g}", static_cast<double>(value));
    } else if constexpr (Choice<T>) {
      return name_of(value);
    } else if constexpr (std::is_enum_v<T>) {
      return std::to_string(static_cast<int>(value));
    } else if constexpr (std::is_integral_v<T>) {
      return std::to_string(value);
    } else if constexpr (HasFields<T>) {
      return fields(value, "[", "]");
    } else {
      return list(value);
    }
  }

 private:
  // "[peer 1; peer 2]"; numbers are only counted.
  template <class List>
  static std::string list(const List& values) {
    if (values.empty()) return "";
    if (std::is_arithmetic_v<std::ranges::range_value_t<List>>) {
      return "(" + of(values.size()) + ")";
    }
    std::string text;
    for (const std::ranges::range_value_t<List>& value : values) {
      text += (text.empty() ? "[" : "; ") + of(value);
    }
    return text + "]";
  }

  // "step 3, written step 2, skipped": fields that hold something, by name where their words do not
  // begin with it.
  template <class T>
  static std::string fields(const T& object, const char* begin, const char* end) {
    std::string text;
    for_each_field(object, [&]<class Field>(std::string_view name, const Field& field) {
      const std::string words = of(field);
      if (words.empty()) return;
      if (!text.empty()) text += ", ";
      if (!words.starts_with(name)) text.append(name).append(" ");
      text += words;
    });
    return text.empty() ? "" : begin + text + end;
  }
};

// Heartbeats and timers, which would hide all else.
bool is_heartbeat(const Message& message) {
  return holds_alternative<HeartbeatMessage>(message.body);
}

}  // namespace

std::string describe(const Message& message) { return Words::of(message); }

std::string describe(const Job& job) { return Words::of(job); }

std::string describe(const WorkId& work) { return Words::of(work); }

void EventTrace::line(double now_s, PeerId peer, char sign, const std::string& what) {
  std::fprintf(out_, "%14.9f  peer %3d %c %s\n", now_s, peer.value, sign, what.c_str());
}

void EventTrace::happened(double now_s, PeerId peer, const Event& event) {
  if (const auto* arrived = get_if<MessageArrived>(&event)) {
    if (is_heartbeat(arrived->message)) return;
    line(now_s, peer, '<', "from " + Words::of(arrived->from) + ": " + describe(arrived->message));
  } else if (!holds_alternative<TimerDue>(event)) {
    line(now_s, peer, '<', Words::of(event));
  }
}

void EventTrace::asked(double now_s, PeerId peer, const Action& action) {
  if (const auto* send = get_if<Send>(&action)) {
    if (is_heartbeat(send->message)) return;
    line(now_s, peer, '>', "to " + Words::of(send->to) + ": " + describe(send->message));
  } else if (!holds_alternative<SetTimer>(action)) {
    line(now_s, peer, '>', Words::of(action));
  }
}

void EventTrace::died(double now_s, PeerId peer) { line(now_s, peer, 'x', "dies"); }

}  // namespace swarmpi
