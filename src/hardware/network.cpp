#include "hardware/network.hpp"

#include <algorithm>

#include "core/random.hpp"

namespace swarmpi {
namespace {

// Of each connection that shares a line, in the line's queue at a time: less than its window, which
// is seldom filled. It follows from runs over lines of 50 to 200 Mbit/s (docs/simulation.md).
constexpr double kQueuedBytes = 100e3;

}  // namespace

Network::Network(const Config& config, const AheadBound& ahead, CommonLines* common)
    : seed_(config.swarm.seed),
      ahead_(ahead),
      links_(config.links),
      own_(common_mbps(config)),
      common_(common != nullptr ? *common : own_) {
  for (const double mbps : common_mbps(config)) {
    common_ns_per_byte_.push_back(SharedLine(mbps).ns_per_byte());
  }
  for (std::size_t s = 0; s < config.sites.size(); ++s) {
    site_numbers_[config.sites[s].name] = static_cast<int>(s);
  }
  for (std::size_t r = 0; r < config.routes.size(); ++r) {
    const RouteConfig& row = config.routes[r];
    const int a = site_numbers_.at(row.sites.at(0)), b = site_numbers_.at(row.sites.at(1));
    routes_[{a, b}] = {row.latency_s, route_line(config, r, false)};
    routes_[{b, a}] = {row.latency_s, route_line(config, r, true)};
  }
  rest_ = config.peer_classes.size();
  for (std::size_t i = 0; i < config.peer_classes.size(); ++i) {
    const PeersConfig& row = config.peer_classes[i];
    classes_.push_back(make_access(row));
    for (const std::int64_t peer : row.peers) rows_[static_cast<std::int32_t>(peer)] = i;
    if (row.peers.empty()) rest_ = i;
  }
  classes_.emplace_back();
}

Network::Access Network::make_access(const PeersConfig& row) const {
  Access made;
  const auto link = std::find_if(links_.begin(), links_.end(),
                                 [&](const LinkConfig& l) { return l.name == row.link; });
  if (link != links_.end()) {
    made.latency_s = link->latency_s;
    made.jitter_s = link->jitter_s;
    made.up = SharedLine(link->up_mbps);
    made.down = SharedLine(link->down_mbps);
    made.slow_start = link->slow_start;
  }
  if (!row.site.empty()) made.site = site_numbers_.at(row.site);
  return made;
}

Network::Access& Network::access(PeerId peer) {
  const auto index = static_cast<std::size_t>(peer.value);
  if (index >= accesses_.size()) accesses_.resize(index + 1);
  std::unique_ptr<Access>& access = accesses_[index];
  if (!access) access = std::make_unique<Access>(class_of(peer));
  return *access;
}

const Network::Access& Network::class_of(PeerId peer) const {
  const auto row = rows_.find(peer.value);
  return classes_[row == rows_.end() ? rest_ : row->second];
}

SharedLine::Flow Network::flow(PeerId from, PeerId to) {
  return std::uint64_t{static_cast<std::uint32_t>(from.value)} << 32 |
         static_cast<std::uint32_t>(to.value);
}

const Network::Route* Network::route(int from, int to) const {
  const auto found = routes_.find({from, to});
  return found == routes_.end() ? nullptr : &found->second;
}

template <class Use>
void Network::for_each_between(const Access& from, const Access& to, Use use) const {
  if (from.site == to.site) return;
  if (from.site != kNowhere) use(site_uplink(static_cast<std::size_t>(from.site)));
  if (const Route* const between = route(from.site, to.site)) use(between->line);
  if (to.site != kNowhere) use(site_downlink(static_cast<std::size_t>(to.site)));
}

double Network::slowest_between(const Access& from, const Access& to, double ns_per_byte) const {
  for_each_between(from, to, [&](std::size_t line) {
    ns_per_byte = std::max(ns_per_byte, common_ns_per_byte_[line]);
  });
  return ns_per_byte;
}

double Network::latency_s(const Access& from, const Access& to) const {
  const Route* const between = route(from.site, to.site);
  return from.latency_s + to.latency_s + (between != nullptr ? between->latency_s : 0);
}

TcpWindow* Network::window(PeerId from, PeerId to) {
  if (!class_of(from).slow_start && !class_of(to).slow_start) return nullptr;
  return &access(from).windows.try_emplace(to.value, ahead_.most_bytes).first->second;
}

// Packets wait behind those of other connections on the way there, acknowledgements on the way
// back.
TcpWindow::Path Network::path(PeerId from_id, PeerId to_id, Nanoseconds now) {
  Access& from = access(from_id);
  const Access& to = class_of(to_id);
  const double ns_per_byte =
      slowest_between(from, to, std::max(from.up.ns_per_byte(), to.down.ns_per_byte()));
  const Nanoseconds queues = from.up.queue(flow(from_id, to_id), kQueuedBytes, now) +
                             from.down.queue(flow(to_id, from_id), kQueuedBytes, now);
  return {to_ns(2 * latency_s(from, to)) + queues, ns_per_byte};
}

Nanoseconds Network::delay(Access& from, const Access& to, PeerId sender) {
  double delay_s = latency_s(from, to);
  const double jitter_s = from.jitter_s + to.jitter_s;
  if (jitter_s > 0) {
    const auto key = static_cast<std::uint32_t>(sender.value);
    delay_s += jitter_s * RandomStream(seed_, Stream::network, key, from.draws++).fraction();
  }
  return to_ns(delay_s);
}

Nanoseconds Network::pass(SharedLine& line, const Shipment& shipment,
                          const Passage& passage) const {
  return line.pass(flow(shipment.from, shipment.to), shipment.bytes, passage, ahead(shipment));
}

Passage Network::leave(const Shipment& shipment, Nanoseconds now) {
  if (shipment.from == shipment.to) return {now, now};
  Access& from = access(shipment.from);
  const Access& to = class_of(shipment.to);
  Passage passage{now, now};
  passage.last = pass(from.up, shipment, passage);
  for_each_between(from, to, [&](std::size_t line) {
    passage.last = common_.pass(line, flow(shipment.from, shipment.to), shipment.bytes, passage,
                                ahead(shipment));
  });
  if (TcpWindow* const window = this->window(shipment.from, shipment.to)) {
    const TcpWindow::Path path = this->path(shipment.from, shipment.to, now);
    if (shipment.overtakes) {
      window->pass_beside({now, now}, path);
    } else {
      passage.last = std::max(passage.last, window->pass(shipment.bytes, path, now));
    }
  }
  const Nanoseconds delay_ns = delay(from, to, shipment.from);
  return {passage.first + delay_ns, passage.last + delay_ns};
}

Nanoseconds Network::arrive(const Shipment& shipment, const Passage& passage) {
  if (shipment.from == shipment.to) return passage.last;
  const Nanoseconds due = pass(access(shipment.to).down, shipment, passage);
  if (TcpWindow* const back = window(shipment.to, shipment.from)) {
    back->pass_beside({passage.first, due}, path(shipment.to, shipment.from, passage.first));
  }
  return due;
}

Nanoseconds Network::spread(const Shipment& shipment) {
  const Access& from = class_of(shipment.from);
  const double ns_per_byte = slowest_between(from, class_of(shipment.to), from.up.ns_per_byte());
  return rounded_ns(static_cast<double>(shipment.bytes) * ns_per_byte);
}

bool Network::concerns(PeerId peer) const {
  const Access& of = class_of(peer);
  return of.latency_s > 0 || of.jitter_s > 0 || of.up.ns_per_byte() > 0 ||
         of.down.ns_per_byte() > 0 || of.site != kNowhere;
}

}  // namespace swarmpi
