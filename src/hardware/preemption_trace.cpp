#include "hardware/preemption_trace.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include "config/suggest.hpp"

namespace swarmpi {
namespace {

constexpr char kHeader[] = "time_s,event,peer";
constexpr std::int64_t kManyPeers = 1 << 20;

std::vector<std::string> csv_fields(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream in(line);
  for (std::string field; std::getline(in, field, ',');) {
    const std::size_t first = field.find_first_not_of(" \t\r");
    const std::size_t last = field.find_last_not_of(" \t\r");
    fields.push_back(first == std::string::npos ? "" : field.substr(first, last - first + 1));
  }
  return fields;
}

// The whole text is a number that is not negative.
bool read_number(const std::string& text, double& number) {
  char* end = nullptr;
  number = std::strtod(text.c_str(), &end);
  return !text.empty() && *end == '\0' && std::isfinite(number) && number >= 0;
}

// What is wrong with a line; "" if nothing.
std::string read_line(const std::string& line, TraceEvent& event) {
  const std::vector<std::string> fields = csv_fields(line);
  if (fields.size() != 3) return fmt::format("expected {}, not `{}`", kHeader, line);
  double peer = 0;
  if (!read_number(fields[0], event.time_s)) {
    return "the time must be a number of seconds >= 0, not `" + fields[0] + "`";
  }
  const auto known = value_named<FaultEvent>(fields[1]);
  if (!known) {
    const auto& names = kNamesOf<FaultEvent>;
    return "unknown event `" + fields[1] + "`" +
           suggest_choice(fields[1], {names.begin(), names.end()});
  }
  if (!read_number(fields[2], peer) || peer != std::floor(peer) || peer >= kManyPeers) {
    return fmt::format("the peer must be a whole number below {}, not `{}`", kManyPeers, fields[2]);
  }
  event.event = *known;
  event.peer = static_cast<std::int64_t>(peer);
  return "";
}

}  // namespace

Result<std::vector<TraceEvent>> parse_trace(const std::string& text, const std::string& name) {
  std::vector<TraceEvent> events;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    const std::size_t first = line.find_first_not_of(" \t");
    const bool empty = first == std::string::npos || line[first] == '#';
    if (empty || (events.empty() && csv_fields(line) == csv_fields(kHeader))) continue;
    const std::string wrong = read_line(line, events.emplace_back());
    if (!wrong.empty()) return Status::bad_input(fmt::format("{}:{}: ", name, number) + wrong);
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const TraceEvent& a, const TraceEvent& b) { return a.time_s < b.time_s; });
  return events;
}

std::string trace_text(const std::vector<TraceEvent>& events) {
  std::string text = std::string(kHeader) + "\n";
  for (const TraceEvent& event : events) {
    text += fmt::format("{:.3f},{},{}\n", event.time_s, name_of(event.event), event.peer);
  }
  return text;
}

}  // namespace swarmpi
