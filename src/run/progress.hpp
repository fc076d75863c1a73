#pragma once
// What a person sees while a run goes on: one line that renews itself on a terminal, plain lines
// now and then elsewhere, events as they come.

#include <cstdint>
#include <cstdio>
#include <string>

#include "config/config.hpp"
#include "swarm/ports.hpp"

namespace swarmpi {

class Progress {
 public:
  /// Writes to `out`; `quiet`: nothing.
  Progress(const Config& config, std::FILE* out, bool quiet);
  ~Progress();

  /// A record that is on disk; `now_s` on the run's clock.
  void show(const StoreRecord& record, double now_s);
  /// Ends a renewing line, so that others may print.
  void end_line();

 private:
  void show(const StepRow& row, double now_s);
  void show(const ValidationRow& row);
  void show(const EventRow& row);
  template <class Row>
  void show(const Row&) {}

  const Config& config_;
  std::FILE* out_;
  bool quiet_;
  bool terminal_;
  bool line_open_ = false;
  double shown_s_ = -1e9;  // when a plain line was last printed
  double first_s_ = -1;    // of the first row seen, for the speed
  std::int64_t first_step_ = 0;
};

/// "2.1034 nats (3.035 bits/byte)", or nats alone where tokens are not bytes.
std::string loss_text(double nats, bool bytes);
/// "1:02:03" or "2:03".
std::string duration_text(double seconds);

}  // namespace swarmpi
