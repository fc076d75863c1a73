#include "commands/train/fault_trace.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <sstream>
#include <string_view>

#include "io/files.hpp"

namespace swarmpi {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// What has become of the peers.
class PeersSoFar {
 public:
  /// Why the next event cannot happen; "" if it can.
  std::string take(const TraceEvent& event) {
    switch (event.event) {
      case FaultEvent::kill: {
        const auto [death, is_first] = died_s_.emplace(event.peer, event.time_s);
        if (is_first) return "";
        return fmt::format("it has died at {:g} s", death->second);
      }
      case FaultEvent::stop:
      case FaultEvent::cut:
        lasting_.emplace(event.peer, event.event);
        return "";
      case FaultEvent::go_on:
        return end(event.peer, FaultEvent::stop);
      case FaultEvent::heal:
        return end(event.peer, FaultEvent::cut);
      default:
        return "";
    }
  }

 private:
  std::string end(std::int64_t peer, FaultEvent begun) {
    if (lasting_.erase({peer, begun}) > 0) return "";
    return fmt::format("there is no {} before it", name_of(begun));
  }

  std::map<std::int64_t, double> died_s_;
  std::set<std::pair<std::int64_t, FaultEvent>> lasting_;
};

}  // namespace

Result<FaultTrace> FaultTrace::read(const std::string& path) {
  Result<std::string> read = read_file(path);
  if (!read.ok()) return read.status();
  std::string text = std::move(read).value();
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  Result<std::vector<TraceEvent>> events = parse_trace(text, path);
  if (!events.ok()) return events.status();
  return FaultTrace(path, std::move(text), std::move(events).value());
}

Status FaultTrace::check_order() const {
  PeersSoFar peers;
  for (std::size_t i = 0; i < events_.size(); ++i) {
    const TraceEvent& event = events_[i];
    const std::string why = peers.take(event);
    if (why.empty()) continue;
    return Status::bad_input(fmt::format("{}:{}: {} of peer {} at {:g} s: {}: leave the line out",
                                         path_, line_of(i), name_of(event.event), event.peer,
                                         event.time_s, why));
  }
  return {};
}

// Events of one time stay in the order of their lines.
int FaultTrace::line_of(std::size_t event) const {
  std::vector<std::pair<double, int>> lines;
  std::istringstream in(text_);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const Result<std::vector<TraceEvent>> here = parse_trace(line, path_);
    if (here.ok() && !here.value().empty()) {
      lines.emplace_back(here.value().front().time_s, number);
    }
  }
  std::sort(lines.begin(), lines.end());
  return lines.at(event).second;
}

}  // namespace swarmpi
