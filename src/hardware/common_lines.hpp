#pragma once
// Lines that several peers share: the uplink and the downlink of each site, and each route in
// either direction.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "config/config.hpp"
#include "hardware/shared_line.hpp"

namespace swarmpi {

class CommonLines {
 public:
  virtual ~CommonLines() = default;
  /// What SharedLine::pass() says of the line with this number.
  virtual Nanoseconds pass(std::size_t line, SharedLine::Flow flow, std::int64_t bytes,
                           const Passage& passage, const AheadBound& ahead) = 0;
};

/// Those of a deck, where all peers live in one process.
class OwnLines final : public CommonLines {
 public:
  /// `mbps`: of each line; 0: no bound.
  explicit OwnLines(const std::vector<double>& mbps) : lines_(mbps.begin(), mbps.end()) {}

  Nanoseconds pass(std::size_t line, SharedLine::Flow flow, std::int64_t bytes,
                   const Passage& passage, const AheadBound& ahead) override {
    return lines_[line].pass(flow, bytes, passage, ahead);
  }

 private:
  std::vector<SharedLine> lines_;
};

// Their numbers: first those of sites, as they stand in the deck, then those of routes.

inline std::size_t site_uplink(std::size_t site) { return 2 * site; }
inline std::size_t site_downlink(std::size_t site) { return 2 * site + 1; }
/// `back`: from the second site of the route to the first.
inline std::size_t route_line(const Config& config, std::size_t route, bool back) {
  return 2 * (config.sites.size() + route) + (back ? 1 : 0);
}
/// The rate of each line in Mbit/s; 0: no bound.
std::vector<double> common_mbps(const Config& config);

}  // namespace swarmpi
