#include "protocol/replica/time_ledger.hpp"

#include <algorithm>
#include <utility>

namespace swarmpi {

TimeLedger::Passed TimeLedger::pass(double now_s, double carried_s) {
  const Passed passed{now_s - until_s_.value_or(now_s),
                      carried_s - std::exchange(carried_until_s_, carried_s)};
  until_s_ = now_s;
  return passed;
}

void TimeLedger::waited(double now_s, Wait why, double carried_s) {
  const Passed passed = pass(now_s, carried_s);
  switch (why) {
    case Wait::start:
      booked_.start_s += passed.seconds;
      break;
    case Wait::repair:
      booked_.repair_s += passed.seconds;
      break;
    case Wait::checkpoint:
      booked_.checkpoint_s += passed.seconds;
      break;
    case Wait::others:
      const double link_s = std::min(passed.carried_s, passed.seconds);
      booked_.link_s += link_s;
      booked_.idle_s += passed.seconds - link_s;
      break;
  }
}

void TimeLedger::worked(double now_s, double carried_s) {
  in_job_s_ += pass(now_s, carried_s).seconds;
}

void TimeLedger::job_over(double took_s) {
  booked_.idle_s += std::exchange(in_job_s_, 0.0) - took_s;
}

void TimeLedger::counts(Step step, double took_s) {
  OpenStep& of = steps_[step];
  of.open_s -= took_s;
  of.counts_s += took_s;
}

void TimeLedger::committed(Step step) {
  while (!steps_.empty() && steps_.begin()->first <= step) {
    booked_.useful_s += steps_.begin()->second.counts_s;
    booked_.repeated_s += std::max(0.0, steps_.begin()->second.open_s);  // a rounding error else
    steps_.erase(steps_.begin());
  }
}

void TimeLedger::go_back() {
  for (const auto& [step, of] : steps_) booked_.repeated_s += of.open_s + of.counts_s;
  steps_.clear();
}

GoodputRow TimeLedger::take() { return std::exchange(booked_, {}); }

double TimeLedger::untold_s() const {
  double all_s = booked_.total_s() + in_job_s_;
  for (const auto& [step, of] : steps_) all_s += of.open_s + of.counts_s;
  return all_s;
}

}  // namespace swarmpi
