#pragma once
// The text trace of a run: a line for every event and every action, heartbeats and timers excepted.

#include <cstdio>
#include <string>

#include "protocol/observer.hpp"

namespace swarmpi {

/// A message or a job in a few words: its name and what identifies it.
std::string describe(const Message& message);
std::string describe(const Job& job);

class EventTrace final : public Observer {
 public:
  explicit EventTrace(std::FILE* out) : out_(out) {}
  void happened(double now_s, PeerId peer, const Event& event) override;
  void asked(double now_s, PeerId peer, const Action& action) override;
  void died(double now_s, PeerId peer) override;

 private:
  void line(double now_s, PeerId peer, const char* sign, const char* what,
            const std::string& about);

  std::FILE* out_;
};

}  // namespace swarmpi
