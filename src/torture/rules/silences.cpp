#include "torture/rules/silences.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "core/ids.hpp"
#include "protocol/ending_words.hpp"
#include "protocol/messages/record_port.hpp"
#include "torture/rules/population.hpp"

namespace swarmpi {

bool is_planned_at_a_deadline(const EventRow& event) {
  return event.kind == EventKind::repair && event.detail.rfind("at a deadline: ", 0) == 0;
}

void Silences::died(double now_s, PeerId peer) {
  const auto found = silences_.find(peer);
  if (found == silences_.end()) return;
  for (Silence& silence : found->second) silence.until_s = std::min(silence.until_s, now_s);
}

// Silent for long, until just now.
std::string Silences::kills(double now_s, PeerId victim) const {
  const auto explains = [&](const Silence& silence) {
    const bool long_enough = std::min(silence.until_s, now_s) - silence.from_s > patience_s_ / 3;
    return long_enough && now_s < silence.until_s + 1.1 * patience_s_;
  };
  const auto found = silences_.find(victim);
  if (found != silences_.end() &&
      std::any_of(found->second.begin(), found->second.end(), explains)) {
    return "";
  }
  return fmt::format("only silent peers are killed: peer {}", victim.value);
}

std::string Silences::ends(double now_s, const Status& status) const {
  if (says(status, ending_words::kHearsNobody)) return ends_alone(now_s, give_up_after_s_, status);
  if (says(status, ending_words::kIsNotHeard)) return ends_alone(now_s, patience_s_, status);
  if (!says(status, ending_words::kCannotBeKilled)) return "";
  const bool waited = std::any_of(ordered_s_.begin(), ordered_s_.end(), [&](const auto& order) {
    return now_s - order.second >= give_up_after_s_;
  });
  return waited ? "" : "who cannot be killed is waited for: " + status.message();
}

std::string Silences::ends_alone(double now_s, double waits_s, const Status& status) const {
  const auto waited = [&](const auto& peer) {
    return std::any_of(peer.second.begin(), peer.second.end(), [&](const Silence& silence) {
      const bool lasts = now_s < silence.until_s + 1.5 * 1.1 * patience_s_;
      return lasts && now_s - silence.from_s >= waits_s;
    });
  };
  return std::any_of(silences_.begin(), silences_.end(), waited)
             ? ""
             : "whoever hears nobody waits for the others: " + status.message();
}

// Others may still be waiting because of a peer that was silent so recently.
std::string Silences::stores(double now_s, const StoreRecord& record) const {
  const auto* event = std::get_if<EventRow>(&record.row);
  if (event == nullptr || !is_planned_at_a_deadline(*event)) return "";
  if (slow_work_ && event->detail.ends_with(": 0 microbatches sent again")) return "";
  const double longest_s = 4.1 * patience_s_;
  for (const auto& [peer, silences] : silences_) {
    for (const Silence& silence : silences) {
      if (now_s < silence.until_s + longest_s) return "";
    }
  }
  return "no work is lost without a death that was noticed: repairs were planned at a deadline";
}

}  // namespace swarmpi
