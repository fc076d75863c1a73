#pragma once
// The text trace of a run: a line for every event and every action, heartbeats and timers excepted.

#include <cstdio>
#include <string>

#include "protocol/messages/message_kinds.hpp"
#include "protocol/observer.hpp"

namespace swarmpi {

/// A message or a job in words: its name and its fields. Of payloads and of lists of numbers only
/// the size is told.
std::string describe(const Message& message);
std::string describe(const Job& job);
/// "microbatch 3 of step 2, stage 1".
std::string describe(const WorkId& work);

class EventTrace final : public Observer {
 public:
  explicit EventTrace(std::FILE* out) : out_(out) {}
  void happened(double now_s, PeerId peer, const Event& event) override;
  void asked(double now_s, PeerId peer, const Action& action) override;
  void died(double now_s, PeerId peer) override;

 private:
  void line(double now_s, PeerId peer, char sign, const std::string& what);

  std::FILE* out_;
};

}  // namespace swarmpi
