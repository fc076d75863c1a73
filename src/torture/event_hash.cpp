#include "torture/event_hash.hpp"

#include <bit>
#include <memory>
#include <optional>
#include <ranges>
#include <tuple>
#include <type_traits>
#include <variant>

#include "core/hash.hpp"
#include "simulation/synthetic_model.hpp"

namespace swarmpi {
namespace {

// Stands for a member of any type, to count how many an aggregate has.
struct Anything {
  template <class T>
  operator T() const;  // NOLINT: the conversion is the point
};

template <class T, class... Members>
constexpr std::size_t member_count() {
  if constexpr (requires { T{Members{}..., Anything{}}; }) {
    return member_count<T, Members..., Anything>();
  } else {
    return sizeof...(Members);
  }
}

// The members of an aggregate, in order. A type with more of them does not compile.
template <class T>
auto members(const T& object) {
  constexpr std::size_t n = member_count<T>();
  if constexpr (n == 0) {
    return std::tie();
  } else if constexpr (n == 1) {
    const auto& [a] = object;
    return std::tie(a);
  } else if constexpr (n == 2) {
    const auto& [a, b] = object;
    return std::tie(a, b);
  } else if constexpr (n == 3) {
    const auto& [a, b, c] = object;
    return std::tie(a, b, c);
  } else if constexpr (n == 4) {
    const auto& [a, b, c, d] = object;
    return std::tie(a, b, c, d);
  } else if constexpr (n == 5) {
    const auto& [a, b, c, d, e] = object;
    return std::tie(a, b, c, d, e);
  } else if constexpr (n == 6) {
    const auto& [a, b, c, d, e, f] = object;
    return std::tie(a, b, c, d, e, f);
  } else if constexpr (n == 7) {
    const auto& [a, b, c, d, e, f, g] = object;
    return std::tie(a, b, c, d, e, f, g);
  } else if constexpr (n == 8) {
    const auto& [a, b, c, d, e, f, g, h] = object;
    return std::tie(a, b, c, d, e, f, g, h);
  } else if constexpr (n == 9) {
    const auto& [a, b, c, d, e, f, g, h, i] = object;
    return std::tie(a, b, c, d, e, f, g, h, i);
  } else if constexpr (n == 11) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k] = object;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k);
  } else if constexpr (n == 12) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l] = object;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l);
  } else if constexpr (n == 13) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m] = object;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m);
  } else {
    static_assert(n == 18, "name as many members as the type has");
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q, r, s] = object;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q, r, s);
  }
}

class Digest {
 public:
  explicit Digest(std::uint64_t value) : value_(value) {}
  std::uint64_t value() const { return value_; }

  void word(std::uint64_t bits) { value_ = mix_bits(value_ ^ mix_bits(bits)); }

  template <class T>
  void add(const T& object) {
    if constexpr (std::is_floating_point_v<T>) {
      word(std::bit_cast<std::uint64_t>(static_cast<double>(object)));
    } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      word(static_cast<std::uint64_t>(object));
    } else if constexpr (std::ranges::range<T>) {
      word(static_cast<std::uint64_t>(std::ranges::size(object)));
      for (const std::ranges::range_value_t<T>& element : object) add(element);
    } else {
      std::apply([this](const auto&... member) { (add(member), ...); }, members(object));
    }
  }
  template <class Tag, class Value>
  void add(const Id<Tag, Value>& id) {
    add(id.value);
  }
  template <class First, class Second>
  void add(const std::pair<First, Second>& pair) {
    add(pair.first);
    add(pair.second);
  }
  template <class T>
  void add(const std::optional<T>& value) {
    add(value.has_value());
    if (value) add(*value);
  }
  template <class T>
  void add(const std::shared_ptr<const T>& pointer) {
    add(pointer != nullptr);
    if (pointer) add(*pointer);
  }
  template <class... Kinds>
  void add(const std::variant<Kinds...>& choice) {
    add(choice.index());
    std::visit([this](const auto& kind) { add(kind); }, choice);
  }
  void add(const Payload& payload) { word(hash_bytes(payload.data(), payload.size_bytes())); }
  void add(const ViewRef& view) {
    add(view->number);
    add(view->members());
    add(view->learners());
    add(view->leaving());
  }
  void add(const Bitmap& bitmap) {
    add(bitmap.size());
    for (std::int64_t i = 0; i < bitmap.size(); ++i) add(bitmap.contains(i));
  }

  // Of types that carry text for people, the other members only.
  void add(const Status& status) { add(status.code()); }
  void add(const EndMessage& end) { add(end.code); }
  void add(const FailureMessage& failure) { add(failure.code); }
  void add(const StoreEnd& end) { add(end.code); }
  void add(const NoticeMessage&) {}
  void add(const StopRequested&) {}
  void add(const SpawnFailed&) {}
  void add(const EventRow& row) {
    add(row.time_s);
    add(row.step);
    add(row.kind);
    add(row.peer);
    add(row.stage);
    add(row.cost_s);
  }

 private:
  std::uint64_t value_;
};

enum class Entry : std::uint8_t { event, action, death };

template <class T>
std::uint64_t with(std::uint64_t value, Entry entry, double now_s, PeerId peer, const T& what) {
  Digest digest(value);
  digest.add(entry);
  digest.add(now_s);
  digest.add(peer);
  digest.add(what);
  return digest.value();
}

}  // namespace

void EventHash::happened(double now_s, PeerId peer, const Event& event) {
  value_ = with(value_, Entry::event, now_s, peer, event);
}

void EventHash::asked(double now_s, PeerId peer, const Action& action) {
  value_ = with(value_, Entry::action, now_s, peer, action);
}

void EventHash::died(double now_s, PeerId peer) {
  value_ = with(value_, Entry::death, now_s, peer, true);
}

}  // namespace swarmpi
