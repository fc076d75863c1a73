#pragma once
// The parts of checkpoints that this process has written. Where its host does not share the folder
// (any more) nobody else sees them, so that nobody else can remove those of checkpoints that were
// dropped.

#include <deque>
#include <string>

namespace swarmpi {

class OwnParts {
 public:
  void wrote(const std::string& path, double now_s) { parts_.push_back({path, now_s}); }
  /// Removes those that were written a quarter of an hour ago and that still have no manifest
  /// beside them: longer than any checkpoint takes, or a manifest to be seen on another host. Their
  /// folders go with them once empty.
  void remove_lost(double now_s);

 private:
  struct Part {
    std::string path;
    double written_s = 0;
  };
  std::deque<Part> parts_;  // the oldest first
};

}  // namespace swarmpi
