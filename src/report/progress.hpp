#pragma once
// What a run prints while it goes on: on a terminal one line that is rewritten, elsewhere a line
// now and then; events and validation losses as they come.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>
#include <set>
#include <string>

#include "config/config.hpp"
#include "protocol/record_observer.hpp"
#include "report/skip_notices.hpp"

namespace swarmpi {

/// The peers that serve each stage.
using Serving = std::map<std::int64_t, std::set<std::int64_t>>;

/// Steps a second at present: an average in which a step counts less the longer ago it was, over
/// about ten seconds, or about ten steps where these take longer.
class RecentSpeed {
 public:
  /// Counts a step. Steps that arrive in bunches give the same average as evenly spread ones.
  void step_done(double now_s) {
    if (last_s_ >= 0) {
      const double seconds = std::max(0.0, now_s - last_s_);
      const double keep = std::max(std::exp(-seconds / kForgetS), kKeepAtLeast);
      steps_ = steps_ * keep + 1;
      seconds_ = seconds_ * keep + seconds;
    }
    last_s_ = now_s;
  }
  /// 0 until two steps have come at different times.
  double steps_per_s() const { return seconds_ > 0 ? steps_ / seconds_ : 0; }

 private:
  static constexpr double kForgetS = 10;
  static constexpr double kKeepAtLeast = 0.9;

  double last_s_ = -1;
  double steps_ = 0, seconds_ = 0;
};

/// When lines are due that stay where they are printed: often at first, and more rarely the longer
/// a run goes on.
class LinePace {
 public:
  LinePace(double least_s, double most_s) : least_s_(least_s), most_s_(most_s) {}
  /// Whether one is due now; then the next one is due later.
  bool due(double now_s) {
    if (now_s < next_s_) return false;
    if (first_s_ < 0) first_s_ = now_s;
    next_s_ = now_s + std::clamp(kShare * (now_s - first_s_), least_s_, most_s_);
    return true;
  }

 private:
  static constexpr double kShare = 0.1;  // of the time that it has gone on for

  double least_s_, most_s_;
  double first_s_ = -1, next_s_ = 0;
};

class Progress final : public RecordObserver {
 public:
  /// Writes to `out`; `quiet`: nothing. `relayed`: a launcher hands the output on, line by line.
  Progress(const Config& config, std::FILE* out, bool quiet, bool relayed = false);
  ~Progress() override;

  /// The peer rows of a step follow its step row.
  void stored(double now_s, const StoreRecord& record) override;
  /// Ends the line that is rewritten, so that something else can be printed.
  void end_line();

 private:
  /// Of what a person must hear of in any case, on stderr.
  static void warn(const StoreRecord& record);
  void show(const StepRow& row, double now_s);
  void show(const ValidationRow& row);
  void show(const EventRow& row);
  void show(const PeerRow& row);
  void show(const ThroughputRow&) {}
  void show(const GoodputRow&) {}
  void print(const std::string& text);
  /// The most that a line may have.
  std::size_t columns() const;

  const Config& config_;
  std::FILE* out_;
  bool quiet_;
  bool terminal_;
  bool renews_;  // a line on the terminal
  bool line_open_ = false;
  LinePace pace_;
  RecentSpeed speed_;
  SkipNotices skips_;
  Serving serving_;       // in the last step whose peer rows have all arrived
  Serving next_serving_;  // in the step whose peer rows are arriving
};

/// Time, step, peer, stage, kind, detail and cost of an event; detail and cost on lines of their
/// own where one of `columns` is too short.
std::string event_line(const EventRow& row,
                       std::size_t columns = std::numeric_limits<std::size_t>::max());

/// The line after a step, in at most `columns`; parts that do not fit are left out, the least
/// important first.
std::string progress_line(const Config& config, const StepRow& row, double steps_per_s,
                          const Serving& serving, std::size_t columns);

/// "peers 2+1+1": how many serve each stage, in its order; "" where a single peer serves all.
std::string peers_text(const Serving& serving);
/// "2.1034 (3.035 bits/byte)", or nats alone where tokens are not bytes.
std::string loss_text(double nats, bool bytes);
/// "1:02:03" or "2:03".
std::string duration_text(double seconds);

}  // namespace swarmpi
