#include "torture/event_hash.hpp"

#include <bit>
#include <memory>
#include <optional>
#include <ranges>
#include <string_view>
#include <type_traits>
#include <variant>

#include "core/choices.hpp"
#include "core/hash.hpp"
#include "protocol/messages/all_jobs.hpp"
#include "protocol/messages/all_ports.hpp"
#include "protocol/messages/message_table.hpp"
#include "simulation/synthetic_model.hpp"

namespace swarmpi {
namespace {

// Texts for people may be reworded without a change of what the protocol does.
bool is_prose(std::string_view field) { return field == "why" || field == "detail"; }

// A field that came later and says nothing leaves known hashes what they are.
template <class Field>
bool came_later(std::string_view, const Field&) {
  return false;
}
template <class T>
bool came_later(std::string_view field, const std::optional<T>& value) {
  return field == "collective" && !value;
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
    } else if constexpr (Choice<T>) {
      add(kNamesOf<T>[static_cast<std::size_t>(object)]);
    } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      word(static_cast<std::uint64_t>(object));
    } else if constexpr (std::ranges::range<T>) {
      word(static_cast<std::uint64_t>(std::ranges::size(object)));
      for (const std::ranges::range_value_t<T>& element : object) add(element);
    } else {
      for_each_field(object, [this](std::string_view name, const auto& field) {
        if (!is_prose(name) && !came_later(name, field)) add(field);
      });
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
  template <class Kinds>
  void add(const OpaqueVariant<Kinds>& choice) {
    add(choice.number());
    visit([this](const auto& kind) { add(kind); }, choice);
  }
  void add(const Record& record) {
    add(number_of(record) - kFirstRecordNumber);
    std::visit([this](const auto& row) { add(row); }, record);
  }
  void add(const Payload& payload) { word(hash_bytes(payload.data(), payload.size_bytes())); }
  void add(const ViewRef& view) {
    add(view->number);
    add(view->members());
    add(view->learners());
    add(view->leaving());
    add(view->move());
    if (!view->budgets().empty()) add(view->budgets());
  }
  void add(const Bitmap& bitmap) {
    add(bitmap.size());
    for (std::int64_t i = 0; i < bitmap.size(); ++i) add(bitmap.contains(i));
  }

  void add(const Status& status) { add(status.code()); }

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
