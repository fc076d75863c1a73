#pragma once
// What a peer's time goes by with, for /goodput: each instant of its life is in one column
// (docs/files.md). A story goes in: from when on a job runs, or why none does, and what came of
// jobs; columns come out. Of a pass it is known at its step's commit only whether it was of use:
// until then its time is in none.

#include <map>
#include <optional>

#include "core/ids.hpp"
#include "core/records.hpp"

namespace swarmpi {

class TimeLedger {
 public:
  /// Why no job runs; where several hold, the first counts.
  enum class Wait : std::uint8_t {
    start,       ///< it cannot take work yet
    repair,      ///< a death's plan is awaited, or nothing but a download is done
    checkpoint,  ///< what is to be updated is being written
    others,      ///< it waits for others: by a link, while something is on its way, or idly
  };
  using Column = double GoodputRow::*;

  /// Its process began at `at_s` on its clock; else its life begins with the first pass().
  void born(double at_s) { until_s_ = at_s; }
  /// Time has come to `now_s`: since the call before no job ran, because of this. `carried_s`: how
  /// long in all something was on its way to the peer or from it.
  void waited(double now_s, Wait why, double carried_s);
  /// Likewise, and a job ran all the while.
  void worked(double now_s, double carried_s);
  /// That job is over, and took so long; what passed beyond that went by with waiting for it.
  void job_over(double took_s);

  // Each job that is over has its time booked by one of these.
  void book(Column column, double took_s) { booked_.*column += took_s; }
  /// A pass of an open step, which may yet be of use.
  void open(Step step, double took_s) { steps_[step].open_s += took_s; }
  /// Of the open passes of a step so much is in its sums: it is of use once that is committed.
  void counts(Step step, double took_s);

  /// The step, and all before it, are committed: what is open of them has come to nothing.
  void committed(Step step);
  /// All goes back: what was done for steps that are not committed is lost.
  void go_back();

  /// What is booked since the last call.
  GoodputRow take();
  const GoodputRow& booked() const { return booked_; }
  /// How much of its life no row has told yet.
  double untold_s() const;

 private:
  struct OpenStep {
    double open_s = 0;    // passes of which nothing has come yet
    double counts_s = 0;  // passes whose gradients are in the sums
  };

  /// How much time has passed, and how much of it something was carried.
  struct Passed {
    double seconds = 0, carried_s = 0;
  };
  Passed pass(double now_s, double carried_s);

  std::optional<double> until_s_;  // up to then it is known what passed
  double carried_until_s_ = 0;
  double in_job_s_ = 0;  // of the job that runs
  std::map<Step, OpenStep> steps_;
  GoodputRow booked_;
};

}  // namespace swarmpi
