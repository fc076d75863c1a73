#pragma once
// When messages arrive, by the deck's [links], [sites] and [[routes]]: no clock, no thread, no
// memory of messages. Emulation and simulation both ask here.
//
// A message passes the sender's uplink, its site's uplink, the route to the other site, that site's
// downlink and the receiver's downlink, those that there are. It is a stream of packets: the last
// byte comes as late as the slowest of these lets it, not as late as all of them one after another.
// The latencies of both links, the route's and the jitter come on top, and where a link says so
// what TCP takes to open its window (hardware/tcp_window.hpp).
//
// What overtakes (heartbeats, in protocol/messages/lanes.hpp) waits behind a bounded part of what
// its own pair has sent, as over MPI.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "config/config.hpp"
#include "core/ids.hpp"
#include "hardware/common_lines.hpp"
#include "hardware/shared_line.hpp"
#include "hardware/tcp_window.hpp"

namespace swarmpi {

/// A message, as a network sees it.
struct Shipment {
  PeerId from;
  PeerId to;
  std::int64_t bytes = 0;
  bool overtakes = false;
};

class Network {
 public:
  /// Only [links], [sites], [[routes]], [[peers]] and swarm.seed of the deck are used.
  /// `ahead`: of its pair, that what overtakes waits for. `common`: the lines of sites and routes,
  /// which others may use as well, and which outlive this; null: it has its own.
  explicit Network(const Config& config, const AheadBound& ahead = {},
                   CommonLines* common = nullptr);
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  // A message takes two calls, one by who knows what leaves the sender, and one by who knows what
  // comes to the receiver. Each line is told of it as its first byte comes there: what comes
  // meanwhile from others then shares the line with it. Where links have jitter, or a small message
  // follows a large one, it may arrive before one that was sent to the same peer before it: whoever
  // delivers them keeps the order.

  /// When the message's bytes come to the receiver's downlink, if it is handed over now: the first
  /// one as soon as it may, the last one behind all that leaves before it. To oneself: at once.
  /// `now` must not go back from call to call.
  Passage leave(const Shipment& shipment, Nanoseconds now);
  /// How long after its first byte the last one comes to the receiver's downlink, at least: the
  /// other call is due so long before the last byte comes.
  Nanoseconds spread(const Shipment& shipment);
  /// What a word without bytes takes that waits for nothing: the latencies and the jitter.
  Nanoseconds latency(PeerId from, PeerId to) { return delay(access(from), class_of(to), from); }
  /// When the message has passed the receiver's downlink.
  Nanoseconds arrive(const Shipment& shipment, const Passage& passage);

  /// Whether messages to and from this peer take time.
  bool concerns(PeerId peer) const;

 private:
  // What a peer is joined to the network by.
  struct Access {
    double latency_s = 0;
    double jitter_s = 0;
    SharedLine up, down;
    int site = kNowhere;
    std::uint64_t draws = 0;  // of random numbers
    bool slow_start = false;
    std::unordered_map<std::int32_t, TcpWindow> windows = {};  // by receiver
  };
  struct Route {
    double latency_s = 0;
    std::size_t line = 0;
  };
  static constexpr int kNowhere = -1;

  Access make_access(const PeersConfig& row) const;
  Access& access(PeerId peer);
  /// As it begins.
  const Access& class_of(PeerId peer) const;
  static SharedLine::Flow flow(PeerId from, PeerId to);
  const Route* route(int from, int to) const;
  /// Calls `use` with the number of each line between the peers' own.
  template <class Use>
  void for_each_between(const Access& from, const Access& to, Use use) const;
  /// Of the slowest of these, and of so much a byte.
  double slowest_between(const Access& from, const Access& to, double ns_per_byte) const;
  Nanoseconds delay(Access& from, const Access& to, PeerId sender);
  /// Both links' and the route's.
  double latency_s(const Access& from, const Access& to) const;
  /// The window of the connection from one to the other; null where windows do not matter.
  TcpWindow* window(PeerId from, PeerId to);
  /// What a connection finds now whose sender knows the queues of its own lines alone.
  TcpWindow::Path path(PeerId from, PeerId to, Nanoseconds now);
  AheadBound ahead(const Shipment& shipment) const {
    return shipment.overtakes ? ahead_ : AheadBound();
  }
  Nanoseconds pass(SharedLine& line, const Shipment& shipment, const Passage& passage) const;

  std::uint64_t seed_;
  AheadBound ahead_;
  std::vector<LinkConfig> links_;
  std::map<std::string, int> site_numbers_;
  std::map<std::pair<int, int>, Route> routes_;  // of each direction
  OwnLines own_;
  CommonLines& common_;
  std::vector<double> common_ns_per_byte_;
  std::vector<Access> classes_;  // as they begin: by row of [[peers]], then the rest
  std::unordered_map<std::int32_t, std::size_t> rows_;  // of peers that a row names
  std::size_t rest_ = 0;
  std::vector<std::unique_ptr<Access>> accesses_;  // of peers that have sent or received
};

}  // namespace swarmpi
