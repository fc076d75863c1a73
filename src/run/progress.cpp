#include "run/progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numbers>
#include <string>

#include "core/text.hpp"

namespace swarmpi {
namespace {

// Seconds between plain lines where there is no terminal.
constexpr double kPlainLineEveryS = 10;

std::size_t terminal_columns(std::FILE* out) {
  winsize size{};
  const bool known = ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size.ws_col : 80;
}

bool can_renew_lines(std::FILE* out) {
  const char* kind = std::getenv("TERM");
  return isatty(fileno(out)) != 0 && kind != nullptr && std::string(kind) != "dumb";
}

std::string rate_text(double tokens_per_s) {
  if (tokens_per_s >= 1e6) return format("%.2fM", tokens_per_s / 1e6);
  if (tokens_per_s >= 1e4) return format("%.1fk", tokens_per_s / 1e3);
  return format("%.0f", tokens_per_s);
}

}  // namespace

std::string loss_text(double nats, bool bytes) {
  if (!bytes) return format("%.4f", nats);
  return format("%.4f (%.3f bits/byte)", nats, nats / std::numbers::ln2);
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<long long>(std::llround(std::max(0.0, seconds)));
  if (whole >= 3600) {
    return format("%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
  }
  return format("%lld:%02lld", whole / 60, whole % 60);
}

Progress::Progress(const Config& config, std::FILE* out, bool quiet)
    : config_(config), out_(out), quiet_(quiet), terminal_(can_renew_lines(out)) {}

Progress::~Progress() { end_line(); }

void Progress::end_line() {
  if (line_open_) std::fputc('\n', out_);
  line_open_ = false;
  std::fflush(out_);
}

void Progress::show(const StoreRecord& record, double now_s) {
  if (quiet_) return;
  if (const auto* row = std::get_if<StepRow>(&record.row)) return show(*row, now_s);
  std::visit([this](const auto& row) { show(row); }, record.row);
}

void Progress::show(const StepRow& row, double now_s) {
  const auto steps = static_cast<long long>(config_.train.steps);
  const bool last = row.step == config_.train.steps;
  if (first_s_ < 0) {
    first_s_ = now_s;
    first_step_ = row.step;
  }
  if (!terminal_ && !last && now_s - shown_s_ < kPlainLineEveryS) return;
  shown_s_ = now_s;

  std::string line = format("step %lld/%lld  loss %s", static_cast<long long>(row.step), steps,
                            loss_text(row.loss, config_.data.format == "bytes").c_str());
  if (const auto done = row.step - first_step_; done > 0 && now_s > first_s_) {
    const double steps_per_s = static_cast<double>(done) / (now_s - first_s_);
    line +=
        format("  %s tokens/s", rate_text(steps_per_s * static_cast<double>(row.tokens)).c_str());
    if (!last) {
      line += format("  %s left",
                     duration_text(static_cast<double>(steps - row.step) / steps_per_s).c_str());
    }
  }
  if (terminal_) {
    line.resize(
        std::min(line.size(), terminal_columns(out_) - 1));  // a wrapped line cannot renew itself
    std::fprintf(out_, "\r\033[K%s", line.c_str());
    line_open_ = true;
    std::fflush(out_);
  } else {
    std::fprintf(out_, "%s\n", line.c_str());
    std::fflush(out_);
  }
}

void Progress::show(const ValidationRow& row) {
  end_line();
  std::fprintf(out_, "held-out loss after step %lld: %s\n", static_cast<long long>(row.step),
               loss_text(row.loss, config_.data.format == "bytes").c_str());
  std::fflush(out_);
}

void Progress::show(const EventRow& row) {
  if (row.kind == "commit" || row.kind == "leader") return;
  end_line();
  std::fprintf(out_, "%9.2f s  step %-7lld %-10s %s\n", row.time_s,
               static_cast<long long>(row.step), row.kind.c_str(), row.detail.c_str());
  std::fflush(out_);
}

}  // namespace swarmpi
