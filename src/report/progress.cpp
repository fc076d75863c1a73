#include "report/progress.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/overloaded.hpp"
#include "io/row_fields.hpp"
#include "protocol/messages/record_port.hpp"
#include "report/terminal.hpp"

namespace swarmpi {
namespace {

// Lines that a person reads as they come, and those of a log.
constexpr double kReadAtLeastS = 2, kReadAtMostS = 30;
constexpr double kLogAtLeastS = 10, kLogAtMostS = 60;
constexpr std::size_t kDetailIndent = 13;
// A longer list of peers is replaced by their number.
constexpr std::size_t kPeersListCharacters = 16;

std::string rate_text(double tokens_per_s) {
  if (tokens_per_s >= 1e6) return fmt::format("{:.2f}M", tokens_per_s / 1e6);
  if (tokens_per_s >= 1e4) return fmt::format("{:.1f}k", tokens_per_s / 1e3);
  return fmt::format("{:.0f}", tokens_per_s);
}

std::string cost_text(double seconds) {
  if (seconds < 0.9995) return fmt::format("{:.{}f} ms", 1e3 * seconds, seconds < 0.00995 ? 1 : 0);
  return fmt::format("{:.1f} s", seconds);
}

std::string joined(const std::vector<std::string>& parts) {
  std::string line;
  for (const std::string& part : parts) {
    if (!part.empty()) line += (line.empty() ? "" : "  ") + part;
  }
  return line;
}

}  // namespace

std::string loss_text(double nats, bool bytes) {
  if (!bytes || std::isnan(nats)) return fmt::format("{:.4f}", nats);
  return fmt::format("{:.4f} ({:.3f} bits/byte)", nats, nats / std::numbers::ln2);
}

std::string duration_text(double seconds) {
  const auto whole = std::llround(std::max(0.0, seconds));
  if (whole >= 3600) {
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  }
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string peers_text(const Serving& serving) {
  std::set<std::int64_t> all;
  std::string list;
  for (const auto& [stage, peers] : serving) {
    all.insert(peers.begin(), peers.end());
    list += (list.empty() ? "" : "+") + std::to_string(peers.size());
  }
  if (all.size() < 2) return "";
  if (list.size() <= kPeersListCharacters) return "peers " + list;
  return fmt::format("peers {} on {} stages", all.size(), serving.size());
}

std::string event_line(const EventRow& row, std::size_t columns) {
  const auto named = [](const char* noun, std::int64_t number) {
    return number < 0 ? "" : fmt::format("{} {}", noun, number);
  };
  std::string head =
      fmt::format("{:>9.2f} s  {:12} {:9} {:9} {:11} ", row.time_s, named("step", row.step),
                  named("peer", row.peer), named("stage", row.stage), name_of(row.kind));
  std::string detail = row.detail;
  if (row.cost_s > 0) detail += (detail.empty() ? "" : ", ") + cost_text(row.cost_s);
  if (head.size() + shown_width(detail) <= columns) head += std::exchange(detail, "");
  head.resize(head.find_last_not_of(' ') + 1);
  if (detail.empty()) return head;
  return head + "\n" + std::string(kDetailIndent, ' ') +
         wrapped(detail, columns, kDetailIndent, kDetailIndent);
}

std::string progress_line(const Config& config, const StepRow& row, double steps_per_s,
                          const Serving& serving, std::size_t columns) {
  const std::int64_t steps = config.train.steps;
  const bool bytes = config.data.format == DataFormat::bytes;
  const std::string step = fmt::format("step {}/{}", row.step, steps);
  const std::string loss = "loss " + loss_text(row.loss, bytes);
  const std::string short_loss =
      bytes ? fmt::format("{:.3f} bits/byte", row.loss / std::numbers::ln2) : loss;
  const std::string peers = peers_text(serving);
  std::string rate, remaining;
  if (steps_per_s > 0) {
    rate = rate_text(steps_per_s * static_cast<double>(row.tokens)) + " tokens/s";
    if (row.step < steps) {
      remaining = duration_text(static_cast<double>(steps - row.step) / steps_per_s) + " left";
    }
  }
  const std::vector<std::vector<std::string>> choices = {{step, loss, rate, remaining, peers},
                                                         {step, short_loss, rate, remaining, peers},
                                                         {step, short_loss, remaining, peers},
                                                         {step, short_loss, peers},
                                                         {step, short_loss}};
  for (const std::vector<std::string>& parts : choices) {
    std::string line = joined(parts);
    if (line.size() <= columns) return line;
  }
  return joined(choices.back()).substr(0, columns);
}

// A launcher holds back what does not end with a newline: a line that is rewritten would never
// be seen.
Progress::Progress(const Config& config, std::FILE* out, bool quiet, bool relayed)
    : config_(config),
      out_(out),
      quiet_(quiet),
      terminal_(can_renew_lines(out)),
      renews_(terminal_ && !relayed),
      pace_(terminal_ ? LinePace(kReadAtLeastS, kReadAtMostS)
                      : LinePace(kLogAtLeastS, kLogAtMostS)),
      skips_(config.train) {}

Progress::~Progress() { end_line(); }

void Progress::end_line() {
  if (line_open_) std::fputc('\n', out_);
  line_open_ = false;
  std::fflush(out_);
}

void Progress::print(const std::string& text) {
  std::fputs(text.c_str(), out_);
  std::fflush(out_);
}

void Progress::stored(double now_s, const StoreRecord& record) {
  if (quiet_) return warn(record);
  const bool computes = config_.compute.kernels != Kernels::none;
  std::visit(Overloaded{[&](const StepRow& row) { show(row, now_s); },
                        [this](const auto& row) { show(row); }},
             computes ? record.row : without_losses(record.row));
}

void Progress::warn(const StoreRecord& record) {
  const auto* event = std::get_if<EventRow>(&record.row);
  if (event == nullptr || event->kind != EventKind::dropped) return;
  std::fprintf(stderr, "swarmpi: warning: step %lld: %s\n", static_cast<long long>(event->step),
               event->detail.c_str());
}

void Progress::show(const StepRow& row, double now_s) {
  if (!next_serving_.empty()) serving_ = std::exchange(next_serving_, {});
  speed_.step_done(now_s);
  const bool last = row.step == config_.train.steps;
  if (!renews_ && !pace_.due(now_s) && !last) return;

  const std::string line = progress_line(config_, row, speed_.steps_per_s(), serving_, columns());
  print(renews_ ? "\r\033[K" + line : line + "\n");
  line_open_ = renews_;
}

// One less than the terminal has: a line that wraps cannot be rewritten.
std::size_t Progress::columns() const {
  return terminal_ ? terminal_columns(out_) - 1 : std::numeric_limits<std::size_t>::max();
}

void Progress::show(const PeerRow& row) {
  if (row.stage >= 0) next_serving_[row.stage].insert(row.peer);
}

void Progress::show(const ValidationRow& row) {
  end_line();
  print(fmt::format("held-out loss after step {}: {}\n", row.step,
                    loss_text(row.loss, config_.data.format == DataFormat::bytes)));
}

// What hangs was said when it was heard of: see HangNotices.
void Progress::show(const EventRow& row) {
  if (row.kind == EventKind::commit || row.kind == EventKind::late) return;
  const std::optional<EventRow> told = row.kind == EventKind::skip ? skips_.told(row) : row;
  if (!told) return;
  end_line();
  print(event_line(*told, columns()) + "\n");
}

}  // namespace swarmpi
