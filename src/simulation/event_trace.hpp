#pragma once
// A run for a person to read: a line for every event, and for every action that it led to, but for
// signs of life.

#include <cstdio>
#include <string>

#include "simulation/world.hpp"

namespace swarmpi {

std::string describe(const Message& message);
std::string describe(const Job& job);

class Trace final : public Observer {
 public:
  explicit Trace(std::FILE* out) : out_(out) {}
  void happened(double now_s, PeerId peer, const Event& event) override;
  void asked(double now_s, PeerId peer, const Action& action) override;
  void died(double now_s, PeerId peer) override;

 private:
  void line(double now_s, PeerId peer, const char* sign, const char* what,
            const std::string& about);

  std::FILE* out_;
};

}  // namespace swarmpi
