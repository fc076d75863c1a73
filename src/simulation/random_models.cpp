#include "simulation/random_models.hpp"

#include <algorithm>
#include <limits>

#include "hardware/device.hpp"
#include "kernels/portable_math.hpp"
#include "protocol/messages/all_jobs.hpp"
#include "protocol/messages/lanes.hpp"
#include "protocol/messages/message.hpp"

namespace swarmpi {
namespace {

// The time of a job, in forward passes of the cheapest stage.
struct Effort {
  const std::vector<double>& stages;

  double stage(StageId id) const { return stages[static_cast<std::size_t>(id.value)]; }
  double operator()(const ForwardJob& job) const { return stage(job.work.stage); }
  double operator()(const BackwardJob& job) const { return 2 * stage(job.work.stage); }
  double operator()(const ShareJob& job) const { return blocks(job.blocks); }
  double operator()(const ReduceJob& job) const { return blocks(job.blocks); }
  double operator()(const PlaceJob& job) const { return blocks(job.blocks); }
  double operator()(const GatherJob& job) const { return blocks(job.blocks); }
  double operator()(const ApplyJob& job) const { return 0.2 * stage(job.stage); }
  double operator()(const UpdateJob& job) const { return blocks(job.blocks); }
  double operator()(const PlaceWeightsJob& job) const { return blocks(job.blocks); }
  double operator()(const CopyWeightsJob& job) const { return blocks(job.blocks); }
  double operator()(const PrepareJob&) const { return 0; }
  double operator()(const ReadJob&) const { return 0.1; }
  double operator()(const WriteJob&) const { return 0.1; }
  double operator()(const DropJob&) const { return 0; }
  double operator()(const TryJob&) const { return 0; }
  static double blocks(const BlockRange& range) {
    return 0.05 * static_cast<double>(range.end - range.first);
  }
};

}  // namespace

double log_uniform(RandomStream& stream, double least, double most) {
  return least * kernels::portable_pow(most / least, stream.fraction());
}

Delivery RandomLinks::deliver(PeerId from, PeerId to, const Message& message, double now_s) {
  if (from == to && !plan_.delays_to_self) return {};
  const auto [base, is_new] = base_delay_s_.try_emplace({from, to});
  if (is_new) base->second = log_uniform(link_base_stream_, plan_.least_s, plan_.most_s);
  double delay_s = base->second * (1 + plan_.jitter * link_delay_stream_.fraction());
  if (plan_.spike_chance > 0 && link_delay_stream_.chance(plan_.spike_chance)) delay_s *= 10;
  const auto bytes = static_cast<std::int64_t>(static_cast<double>(payload_bytes(message)) *
                                               plan_.bytes_per_payload_byte);
  const bool is_piece = holds_alternative<PieceMessage>(message.body);
  const double own_s = link_s(0, plan_.bytes_per_s, bytes) + (is_piece ? plan_.piece_s : 0);
  const double carried_in_s =
      overtakes(message) ? overtaking_s(from, to, now_s) : carried_s(from, to, own_s, now_s);
  return {delay_s + carried_in_s,
          plan_.duplicate_chance > 0 && link_delay_stream_.chance(plan_.duplicate_chance) ? 2 : 1};
}

double RandomLinks::carried_s(PeerId from, PeerId to, double own_s, double now_s) {
  if (plan_.queue == Queue::none || from == to) return own_s;
  double& free_s = line_free_s_[line(from, to)];
  free_s = std::max(free_s, now_s) + own_s;
  return free_s - now_s;
}

std::pair<PeerId, PeerId> RandomLinks::line(PeerId from, PeerId to) const {
  return {from, plan_.queue == Queue::uplink ? from : to};
}

// On an uplink are as many bytes for each peer that is sent something.
double RandomLinks::overtaking_s(PeerId from, PeerId to, double now_s) const {
  const auto free = line_free_s_.find(line(from, to));
  if (free == line_free_s_.end() || plan_.queue == Queue::none) return 0;
  const auto links = std::count_if(base_delay_s_.begin(), base_delay_s_.end(), [&](const auto& l) {
    return l.first.first == from && l.first.second != from;
  });
  const auto ahead = static_cast<std::int64_t>(kAhead.most_bytes);
  const double most_s =
      link_s(0, plan_.bytes_per_s, plan_.queue == Queue::uplink ? links * ahead : ahead);
  return std::clamp(free->second - now_s, 0.0, most_s);
}

// After a death the messages under way are lost, or all arrive, or those up to some time.
DeathPropagation RandomLinks::death_propagation(PeerId, PeerId) {
  const double outcome = death_stream_.fraction();
  const double until = death_stream_.uniform(0, 3 * plan_.most_s);
  const double all = std::numeric_limits<double>::infinity();
  const double messages_until_s = outcome < 0.2 ? 0 : outcome < 0.5 ? all : until;
  return {messages_until_s, death_stream_.uniform(0, plan_.loss_known_most_s)};
}

double RandomLinks::kill_delivery_s(PeerId, PeerId) {
  return death_stream_.uniform(0, plan_.kill_delivery_most_s);
}

RandomCosts::RandomCosts(std::uint64_t seed, const RandomCostsPlan& plan, const RunPlan& run)
    : plan_(plan),
      stages_(run.stage_costs),
      speed_stream_(seed, Stream::simulation, 3),
      noise_stream_(seed, Stream::simulation, 4) {
  const double cheapest = *std::min_element(stages_.begin(), stages_.end());
  for (double& cost : stages_) cost /= cheapest;
}

double RandomCosts::seconds(PeerId peer, const Job& job) {
  const auto [slowness, is_new] = slowness_.try_emplace(peer);
  if (is_new) slowness->second = log_uniform(speed_stream_, 1, plan_.speed_ratio);
  const double effort = visit(Effort{stages_}, job);
  return plan_.second_per_pass * effort * slowness->second *
         (1 + plan_.noise * noise_stream_.fraction());
}

WriteAnswer RandomDisks::write(PeerId peer, const Action&) {
  WriteAnswer answer{write_time_stream_.uniform(0, plan_.most_s),
                     {},
                     writer_death_stream_.chance(plan_.outlives_writer_chance)};
  const bool concerned = !plan_.failing_peer || plan_.failing_peer == peer;
  if (concerned && plan_.writes_until_full && written_++ >= *plan_.writes_until_full) {
    answer.status = plan_.failing_peer ? Status::stopped("input/output error")
                                       : Status::stopped("no space left on the device");
  }
  return answer;
}

std::optional<double> RandomCollectives::making_s() {
  if (stream_.chance(0.1 * plan_.trouble)) return std::nullopt;
  return stream_.uniform(0, plan_.making_most_s);
}

CollectiveFate RandomCollectives::fate() {
  using End = CollectiveFate::End;
  CollectiveFate fate;
  if (stream_.chance(plan_.trouble)) {
    fate.end = stream_.one_of<End>({End::hangs, End::fails, End::splits, End::miscounts});
  }
  fate.longest_s = stream_.uniform(0, plan_.adding_most_s);
  fate.deadline_s = stream_.chance(0.2) ? 0 : plan_.deadline_s;
  fate.victim = stream_.bits();
  return fate;
}

}  // namespace swarmpi
