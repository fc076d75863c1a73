#include "torture/random_swarm.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "config/rules.hpp"
#include "protocol/membership/initial_membership.hpp"
#include "protocol/method/layout.hpp"
#include "simulation/real_compute.hpp"

namespace swarmpi {
namespace {

// What the bits depend on: the training.
void draw_training(RandomSwarm& swarm) {
  RandomStream draws(swarm.seed, Stream::simulation, 10);
  RunPlan& plan = swarm.plan;
  const SwarmSizes& sizes = swarm.sizes;
  plan.train.steps = draws.between(1, sizes.most_steps);
  plan.train.microbatches = draws.between(1, sizes.most_microbatches);
  plan.train.updates = draws.chance(0.4) ? Updates::delayed : Updates::synchronous;
  plan.train.clip = draws.one_of<double>({0, 0.5, 1, 100});
  plan.train.warmup_steps = draws.between(0, 3);
  plan.tokens_per_microbatch = draws.between(1, 100);
  if (draws.chance(0.5)) {
    plan.validate_every = draws.between(1, 4);
    plan.validation_microbatches = draws.between(1, 4);
  }
  if (draws.chance(0.5)) plan.checkpoint_every = draws.between(1, 3);
  const std::int64_t tensors = draws.between(sizes.most_stages, sizes.most_stages + 3);
  for (std::int64_t t = 0; t < tensors; ++t) {
    plan.tensor_names.push_back(fmt::format("tensor.{}", t));
    plan.tensor_elements.push_back(
        draws.one_of<std::int64_t>({1, 100, 4096, 4097, 10'000, 16'384}));
  }
  swarm.model = {mix_bits(swarm.seed), plan.train.microbatches,
                 draws.chance(0.3) ? log_uniform(draws, 1e-3, 0.1) : 0};
}

void divide_into_stages(RunPlan& plan, std::int64_t stages, RandomStream& draws) {
  const auto tensors = plan.tensors();
  std::vector<std::int32_t> cuts;  // first tensors of the stages behind the first
  for (std::int32_t t = 1; t < tensors; ++t) cuts.push_back(t);
  while (static_cast<std::int64_t>(cuts.size()) >= stages) {
    const auto victim = draws.between(0, static_cast<std::int64_t>(cuts.size()) - 1);
    cuts.erase(cuts.begin() + victim);
  }
  plan.stage_tensors.assign(1, {});
  plan.stage_costs.clear();
  for (std::int32_t t = 0; t < tensors; ++t) {
    if (std::find(cuts.begin(), cuts.end(), t) != cuts.end()) plan.stage_tensors.emplace_back();
    plan.stage_tensors.back().push_back(t);
  }
  for (std::int64_t s = 0; s < stages; ++s) plan.stage_costs.push_back(draws.uniform(1, 4));
}

// Whether bits depend on where the model is cut into stages, and on their number.
bool keeps_its_cuts(const RandomSwarm& swarm) {
  if (!swarm.deck) return false;
  SwarmConfig in_stages = swarm.deck->swarm;
  in_stages.stages = 2;
  return in_stages.cuts_matter();
}

// Bad memory or a bad link: replicas hold different gradients for a moment.
void draw_damage(RandomSwarm& swarm) {
  RandomStream draws(swarm.seed, Stream::simulation, 22);
  swarm.damaged_chunk.reset();
  if (draws.chance(0.1)) swarm.damaged_chunk = draws.between(1, 30);
  RandomStream more(swarm.seed, Stream::simulation, 41);
  swarm.damaged_piece.reset();
  if (more.chance(0.1)) swarm.damaged_piece = more.between(1, 10);
}

// In which pieces a stage is learned, and how many gradients are kept for those under way.
void draw_learning(RandomSwarm& swarm) {
  RandomStream draws(swarm.seed, Stream::simulation, 42);
  TortureOnly& own = swarm.plan.torture_only;
  own.piece_elements = draws.one_of<std::int64_t>({1, 4096, 8192, 20'000, 1 << 17});
  own.kept_gradient_bytes = draws.one_of<std::int64_t>({0, 8, 40, 1 << 20});
  RandomStream sizes(swarm.seed, Stream::simulation, 36);
  const bool large = sizes.chance(0.3);
  swarm.links.piece_s =
      large ? swarm.plan.swarm.suspect_after_s * log_uniform(sizes, 1e-3, 0.5) : 0;
}

// Lines on which messages wait for one another; in a second at most 100 kB, which are many here.
// Where pieces of state hold them up they are as fast as signs of life must have them
// (docs/limits.md): no more than a tenth of the time to suspicion behind 1 MB for each peer.
void draw_queues(RandomSwarm& swarm) {
  RandomStream draws(swarm.seed, Stream::simulation, 44);
  swarm.links.queue = Queue::none;
  if (!draws.chance(0.3)) return;
  swarm.links.queue = draws.chance(0.5) ? Queue::uplink : Queue::pair;
  swarm.links.bytes_per_s = std::max(swarm.links.bytes_per_s, log_uniform(draws, 1e5, 1e7));
  if (swarm.links.piece_s == 0) return;
  constexpr std::size_t kMostNewcomers = 2;
  const auto peers = static_cast<double>(swarm.membership.all().size() + kMostNewcomers);
  const double least = 1e7 * peers / swarm.plan.swarm.suspect_after_s;
  swarm.links.bytes_per_s = std::max(swarm.links.bytes_per_s, least);
}

// How what crosses boundaries is coded, or how long it is.
void draw_boundaries(RandomSwarm& swarm) {
  RandomStream draws(swarm.seed, Stream::simulation, 19);
  if (!swarm.deck) {
    if (draws.chance(0.7)) return;
    swarm.model.activation_words = draws.between(1, 40);
    swarm.model.gradient_words = draws.between(1, 40);
    return;
  }
  if (draws.chance(0.3)) return;
  SwarmConfig& config = swarm.deck->swarm;
  const auto codec = [&draws] {
    return draws.one_of<Codec>(
        {Codec::none, Codec::fp16, Codec::bf16, Codec::uniform8, Codec::blockwise8});
  };
  config.compress_activations = codec();
  config.compress_gradients = codec();
  config.fp16_scale = draws.one_of<double>({1, 0.125, 64});
  config.boundary = draws.one_of<Boundary>(
      {Boundary::plain, Boundary::plain, Boundary::bottleneck, Boundary::maxout});
  config.boundary_factor =
      swarm.deck->model.width % 8 == 0 ? draws.one_of<std::int64_t>({2, 4}) : 2;
}

// Pins some workers to stages, if that leaves a worker for each stage.
void draw_pins(RandomSwarm& swarm, RandomStream& draws) {
  SwarmConfig& plan = swarm.plan.swarm;
  plan.pins.clear();
  if (!draws.chance(0.3)) return;
  const auto workers = static_cast<std::int64_t>(swarm.membership.workers.size());
  for (std::int64_t pins = draws.between(1, workers); pins > 0; --pins) {
    plan.pins.push_back(draws.between(0, swarm.plan.stages() - 1));
  }
  if (!can_serve_all_stages(swarm)) plan.pins.clear();
}

// Peers and stages, and how the work is spread.
void draw_peers(RandomSwarm& swarm, RandomStream& draws) {
  RunPlan& plan = swarm.plan;
  std::int64_t stages = draws.between(1, swarm.sizes.most_stages);
  if (keeps_its_cuts(swarm) && plan.stages() > 0) stages = plan.stages();
  if (swarm.deck) {
    swarm.deck->swarm.stages = stages;
    set_stages(plan, *swarm.deck);
  } else {
    divide_into_stages(plan, stages, draws);
  }
  plan.swarm.stages = stages;
  plan.swarm.wiring = draws.one_of<Wiring>(
      {Wiring::iwrr, Wiring::iwrr, Wiring::uniform, Wiring::round_robin, Wiring::fixed});
  plan.swarm.seed = draws.bits();
  plan.window = draws.between(1, 20);
  TortureOnly& own = plan.torture_only;
  own.checks_counts = true;
  own.reduction_pattern.reset();
  if (draws.chance(0.7)) {
    own.reduction_pattern = draws.chance(0.5) ? ReductionPattern::ring : ReductionPattern::direct;
  }
  own.reduction_chunk_elements = draws.one_of<std::int64_t>({1, 4096, 8192, 20'000, 1 << 17});
  const std::int64_t workers = draws.between(swarm.sizes.least_workers, swarm.sizes.most_workers);
  const std::int64_t spares = draws.chance(0.4) ? draws.between(1, 2) : 0;
  const Term first_term = swarm.membership.first_term;
  swarm.membership = make_membership(workers + spares, spares);
  swarm.membership.first_term = first_term;
  plan.swarm.spares = spares;
  draw_pins(swarm, draws);
}

// Choices that came later have a stream of their own: known schedules keep all other draws.
void draw_later_choices(RandomSwarm& swarm) {
  RandomStream draws(swarm.seed, Stream::simulation, 16);
  swarm.plan.swarm.wiring_ties =
      draws.one_of<WiringTies>({WiringTies::rotated, WiringTies::random});
}

// What differs from run to run on a cluster: links, speeds, disks, starts, clocks and stop
// requests.
void draw_environment(RandomSwarm& swarm, RandomStream& draws) {
  swarm.links.least_s = log_uniform(draws, 1e-7, 1e-3);
  swarm.links.most_s = swarm.links.least_s * log_uniform(draws, 1, 30);
  swarm.links.jitter = draws.one_of<double>({0, 0.5, 5});
  swarm.links.spike_chance = draws.chance(0.3) ? 0.05 : 0;
  swarm.links.bytes_per_s = log_uniform(draws, 1e4, 1e9);
  swarm.links.delays_to_self = draws.chance(0.5);
  swarm.costs.second_per_pass = draws.chance(0.05) ? 0 : log_uniform(draws, 1e-7, 1e-3);
  swarm.costs.noise = draws.one_of<double>({0, 0.2, 2});
  swarm.costs.speed_ratio = draws.chance(0.5) ? log_uniform(draws, 1, 20) : 1;
  swarm.disks = {};
  swarm.disks.most_s = draws.chance(0.1) ? 0 : log_uniform(draws, 1e-6, 1e-1);
  swarm.start_most_s = draws.one_of<double>({0, 1e-3, 1});
  swarm.clock_offset_most_s = draws.one_of<double>({0, 1000});
  swarm.stop.reset();
  if (draws.chance(0.2)) {
    const auto after = static_cast<std::int64_t>(log_uniform(draws, 1, 3000));
    const std::vector<PeerId> all = swarm.membership.all();
    swarm.stop = {after, draws.chance(0.5) ? all : std::vector{draws.one_of(all)}};
  }
}

// Large enough for every stage to have replicas, small enough for many schedules.
SwarmSizes draw_sizes(std::uint64_t seed) {
  RandomStream draws(seed, Stream::simulation, 15);
  SwarmSizes sizes;
  sizes.most_steps = 5;
  sizes.most_microbatches = 10;
  sizes.most_stages = 4;
  sizes.least_workers = 4;
  sizes.most_workers = 8;
  if (draws.chance(0.1)) {
    sizes.least_workers = 1;
    sizes.most_workers = 12;
  }
  // More than a word of a bitmap.
  if (RandomStream(seed, Stream::simulation, 25).chance(0.02)) sizes.most_microbatches = 150;
  RandomStream larger(seed, Stream::simulation, 30);
  if (larger.chance(0.02)) sizes.most_steps = 12;
  if (larger.chance(0.02)) sizes.most_workers = 16;
  if (larger.chance(0.003)) {
    sizes.least_workers = 20;
    sizes.most_workers = 40;
    sizes.most_microbatches = 60;
  }
  return sizes;
}

}  // namespace

void lift_memory_limits(RandomSwarm& swarm) {
  swarm.plan.needs = {};
  swarm.membership.budgets.clear();
  swarm.refused_stage.reset();
}

bool can_serve_all_stages(const RandomSwarm& swarm) {
  Config config;
  config.swarm = swarm.plan.swarm;
  return check_ranks(config, static_cast<std::int64_t>(swarm.membership.all().size())).ok();
}

RandomSwarm draw_swarm(std::uint64_t seed, const SwarmSizes& sizes) {
  RandomSwarm swarm;
  swarm.seed = seed;
  swarm.sizes = sizes;
  swarm.membership.first_term = Term(1);
  draw_training(swarm);
  draw_boundaries(swarm);
  // Whether a tensor's blocks have something in common.
  const bool coupled = RandomStream(seed, Stream::simulation, 43).chance(0.3);
  swarm.plan.train.optimizer = coupled ? Optimizer::lamb : Optimizer::adamw;
  RandomStream draws(seed, Stream::simulation, 11);
  draw_peers(swarm, draws);
  draw_environment(swarm, draws);
  draw_later_choices(swarm);
  draw_learning(swarm);
  draw_queues(swarm);
  return swarm;
}

RandomSwarm draw_real_swarm(std::uint64_t seed, const SwarmSizes& sizes) {
  RandomSwarm swarm;
  swarm.seed = seed;
  swarm.sizes = sizes;
  swarm.membership.first_term = Term(1);
  draw_training(swarm);
  RandomStream draws(seed, Stream::simulation, 13);
  Config& deck = swarm.deck.emplace();
  deck.model.layers = sizes.most_stages + draws.between(0, 1);
  deck.model.width = draws.one_of<std::int64_t>({4, 8});
  deck.model.heads = 2;
  deck.model.context = draws.between(2, 5);
  deck.model.vocab = draws.between(5, 17);
  deck.model.precision = draws.chance(0.5) ? Precision::bf16 : Precision::fp32;
  deck.train = swarm.plan.train;
  deck.train.microbatch_size = draws.between(1, 2);
  deck.train.optimizer = draws.chance(0.3) ? Optimizer::lamb : Optimizer::adamw;
  deck.train.lr = 1e-2;
  deck.train.seed = seed;
  deck.compute.kernels = Kernels::reference;
  draw_boundaries(swarm);
  swarm.plan.train = deck.train;
  swarm.plan.tokens_per_microbatch = deck.train.microbatch_size * deck.model.context;
  draw_peers(swarm, draws);
  draw_environment(swarm, draws);
  draw_later_choices(swarm);
  draw_learning(swarm);
  draw_queues(swarm);
  return swarm;
}

namespace {

// Algorithm 2, with periods as short as a few messages take. Peers are not moved by a plan as well.
void draw_rebalancing(RandomSwarm& swarm) {
  RandomStream draws(swarm.seed, Stream::simulation, 17);
  SwarmConfig& config = swarm.plan.swarm;
  const bool rebalances = draws.chance(0.4) && !swarm.faults.has(Fault::Kind::flip);
  config.rebalance = rebalances ? Rebalance::paper : Rebalance::none;
  config.rebalance_period_s = log_uniform(draws, 1e-6, 1e-1);
  config.rebalance_load = draws.one_of<RebalanceLoad>({RebalanceLoad::sum, RebalanceLoad::mean});
  config.newcomers = draws.one_of<NewcomerPolicy>(
      {NewcomerPolicy::even, NewcomerPolicy::weakest, NewcomerPolicy::loaded});
  if (rebalances) swarm.plan.torture_only.moves.clear();
}

std::vector<Method> methods_for(const RunPlan& plan, const FaultOptions& options) {
  constexpr Method kOwners = Method::zero_offload;
  if (options.owners.value_or(false)) return {kOwners, kOwners, kOwners, Method::data_parallel};
  std::vector<Method> methods = {Method::gpipe, Method::one_f_one_b};
  if (plan.stages() > 1) return methods;
  methods.push_back(Method::data_parallel);
  const bool can = !options.owners && plan.train.optimizer != Optimizer::lamb;
  if (can) methods.insert(methods.end(), {kOwners, kOwners});
  return methods;
}

// Static pipelines instead of SWARM: they have no delayed updates and no shadows, and where a bit
// is to flip, a death must not undo it.
void draw_method(RandomSwarm& swarm) {
  RandomStream draws(swarm.seed, Stream::simulation, 18);
  RunPlan& plan = swarm.plan;
  const FaultOptions& options = swarm.fault_options;
  plan.swarm.method = Method::swarm;
  plan.between_deaths_s = 0;
  const bool can = plan.delay() == 1 && !swarm.faults.has(Fault::Kind::flip) &&
                   (options.pipelines.value_or(false) || !options.shadows.value_or(false));
  if (!options.pipelines.value_or(draws.chance(0.1)) || !can) return;
  plan.swarm.method = draws.one_of(methods_for(plan, options));
  plan.swarm.rebalance = Rebalance::none;
  plan.swarm.shadows = 0;
  plan.swarm.pins.clear();
  plan.torture_only.moves.clear();
  plan.window = kNoWindow;
  plan.kept_bytes = 0;
  if (draws.chance(0.7)) plan.between_deaths_s = log_uniform(draws, 1e-3, 10);
}

// Spares that take their time, as machines that boot.
void draw_delays_of_spares(RandomSwarm& swarm) {
  RandomStream draws(swarm.seed, Stream::simulation, 31);
  swarm.plan.swarm.spare_delay_s = draws.chance(0.2) ? log_uniform(draws, 1e-4, 1) : 0;
}

// Jobs and disks that hang. What is waited for is short, for a schedule's time is.
void draw_hangs(RandomSwarm& swarm) {
  RandomStream draws(swarm.seed, Stream::simulation, 24);
  RunPlan& plan = swarm.plan;
  plan.job_timeout_s = plan.swarm.suspect_after_s * draws.uniform(15, 40);
  plan.storage_timeout_s = plan.swarm.suspect_after_s * draws.uniform(2, 20);
  plan.swarm.give_up_after_s =
      plan.swarm.suspect_after_s * RandomStream(swarm.seed, Stream::simulation, 26).uniform(0, 6);
  if (draws.chance(0.1)) swarm.disks.lost_part = draws.between(1, 3);
  if (draws.chance(0.5)) swarm.disks.damaged = draws.between(1, 2);
  using Damage = DiskModel::Damage;
  swarm.disks.damage = RandomStream(swarm.seed, Stream::simulation, 35)
                           .one_of<Damage>({Damage::cut_off, Damage::bit, Damage::misread});
  const bool hangs = draws.chance(0.1) && !swarm.faults.has(Fault::Kind::flip);
  if (hangs) add_hang(swarm.faults, swarm.seed, plan, swarm.membership);
  if (hangs && RandomStream(swarm.seed, Stream::simulation, 29).chance(0.1)) {
    add_hang_in_loading(swarm.faults, swarm.seed, plan, swarm.membership);
  }
}

// Collectives that fail in many ways, and faults at each moment of them.
void draw_collectives(RandomSwarm& swarm) {
  RandomStream draws(swarm.seed, Stream::simulation, 45);
  RunPlan& plan = swarm.plan;
  plan.swarm.collectives = Collectives::none;
  swarm.damaged_sum.reset();
  const bool can = !plan.swarm.has_owners();
  if (!swarm.fault_options.collectives.value_or(false) || !can || draws.chance(0.05)) return;
  plan.swarm.collectives = Collectives::nccl;
  const double step_s = swarm.links.most_s + swarm.costs.second_per_pass;
  swarm.collectives.making_most_s = step_s * log_uniform(draws, 0.1, 30);
  swarm.collectives.adding_most_s = step_s * log_uniform(draws, 0.1, 30);
  swarm.collectives.deadline_s = swarm.collectives.adding_most_s * log_uniform(draws, 0.5, 100);
  swarm.collectives.trouble = draws.one_of<double>({0, 0.1, 0.3, 0.7});
  if (swarm.faults.has(Fault::Kind::flip)) return;
  if (!draws.chance(0.1) || swarm.deck) {
    return add_faults_of_collectives(swarm.faults, swarm.seed, plan, swarm.membership);
  }
  // Nothing else: the replicas that show the difference must live, and stay where they are. What
  // one of them alone has rounded when the view changes is a fact, like what a chunk's owner has.
  swarm.damaged_sum = draws.between(1, 30);
  swarm.collectives.trouble = 0;
  swarm.faults.all.clear();
  swarm.stop.reset();
  swarm.joins.clear();
  plan.torture_only.moves.clear();
  plan.swarm.rebalance = Rebalance::none;
  plan.swarm.shadows = 0;
}

// What the stages take, and what peers may take: at least so much that the run can begin.
void draw_memory(RandomSwarm& swarm) {
  RandomStream draws(swarm.seed, Stream::simulation, 40);
  RunPlan& plan = swarm.plan;
  InitialMembership& membership = swarm.membership;
  lift_memory_limits(swarm);
  const bool can = !plan.swarm.has_pipelines() && !swarm.faults.has(Fault::Kind::flip);
  if (!draws.chance(0.2) || !can || swarm.damaged_sum) return;
  plan.needs.peer_bytes = draws.between(0, 20);
  for (std::int64_t s = 0; s < plan.stages(); ++s) {
    const std::int64_t serving_bytes = draws.between(10, 100);
    plan.needs.stages.push_back({serving_bytes, serving_bytes + draws.between(0, 20)});
  }
  const View view = first_view(plan, membership);
  std::vector<std::int64_t> budgets;
  const bool plenty = draws.chance(0.5);
  for (const auto& [peer, stages] : view.members()) {
    const std::int64_t least =
        stages.empty() ? draws.between(0, 120) : least_bytes(plan.needs, stages, {});
    const double more = plenty ? draws.uniform(1, 5) : draws.uniform(1, 2);
    budgets.push_back(static_cast<std::int64_t>(static_cast<double>(least) * more));
  }
  const auto give = [&] {
    for (std::size_t i = 0; const PeerId peer : membership.all()) {
      membership.budgets[peer] = budgets[i++];
    }
  };
  give();
  // As good a deal may have to be searched for, or spares be needed for it.
  std::vector<std::int64_t> in_order = budgets;
  for (std::size_t i = budgets.size(); i > 1; --i) {
    std::swap(
        budgets[i - 1],
        budgets[static_cast<std::size_t>(draws.between(0, static_cast<std::int64_t>(i) - 1))]);
  }
  give();
  if (!first_deal(plan, membership)) {
    budgets = std::move(in_order);
    give();
  }
  for (const Newcomer& newcomer : swarm.joins) {
    membership.budgets[newcomer.peer] = draws.between(0, 250);
  }
  if (draws.chance(0.2)) membership.budgets.erase(draws.one_of(membership.all()));
  if (draws.chance(0.3)) swarm.refused_stage = draws.between(1, 6);
}

}  // namespace

void add_faults(RandomSwarm& swarm, const FaultOptions& fault_options) {
  RandomStream draws(swarm.seed, Stream::simulation, 14);
  RunPlan& plan = swarm.plan;
  plan.recovers = true;
  plan.swarm.recovery = draws.chance(0.7) ? Recovery::lineage : Recovery::redo;
  plan.kept_bytes = draws.one_of<std::int64_t>({64, 1000, 1'000'000'000, 1'000'000'000});
  if (plan.swarm.recovery == Recovery::redo) plan.kept_bytes = 0;
  TortureOnly& own = plan.torture_only;
  own.notices_together_s = log_uniform(draws, 1e-4, 1);
  own.learner_patience_s = log_uniform(draws, 1e-3, 1);
  swarm.links.kill_delivery_most_s =
      plan.swarm.suspect_after_s * (draws.chance(0.1) ? 3 : log_uniform(draws, 1e-4, 0.3));
  swarm.links.duplicate_chance = draws.chance(0.1) ? 0.05 : 0;
  swarm.links.loss_known_most_s = log_uniform(draws, 1e-7, 0.3);
  swarm.fault_options = fault_options;
  plan.swarm.shadows = fault_options.shadows.value_or(draws.chance(0.5)) ? draws.between(1, 2) : 0;
  if (fault_options.shadows.value_or(false) && swarm.membership.spares.empty()) {
    swarm.membership.spares.push_back(swarm.membership.all().back().next());
    plan.swarm.spares = 1;
  }
  const auto spares = static_cast<std::int64_t>(swarm.membership.spares.size());
  plan.swarm.shadows = std::min(plan.swarm.shadows, spares);
  swarm.joins.clear();
  PeerId newcomer = swarm.membership.all().back();
  const bool joins = fault_options.joins.value_or(draws.chance(0.3));
  for (auto left = joins ? draws.between(1, 2) : 0; left > 0; --left) {
    newcomer = newcomer.next();
    const double latest_s = draws.chance(0.8) ? 3e-2 : 3;  // most runs are over by then
    swarm.joins.push_back({newcomer, log_uniform(draws, 1e-6, latest_s)});
  }
  own.moves.clear();
  for (auto moves = draws.chance(0.2) ? draws.between(1, 3) : 0; moves > 0; --moves) {
    own.moves.push_back({Step(draws.between(-1, plan.train.steps)),
                         draws.one_of(swarm.membership.all()),
                         StageId(static_cast<std::int32_t>(draws.between(0, plan.stages() - 1)))});
  }
  const bool cuts = fault_options.cuts.value_or(draws.chance(0.3));
  // Tiny swarms whose boundaries are coded are there to be repaired.
  const std::size_t more = keeps_its_cuts(swarm) ? 3 : 0;
  swarm.faults =
      draw_schedule(swarm.seed, plan, swarm.membership, cuts, fault_options.flips(), more);
  swarm.disks.outlives_writer_chance = 0.5;
  if (swarm.faults.has(Fault::Kind::flip)) {
    swarm.stop.reset();  // peers must not leave, either
    swarm.joins.clear();
    own.moves.clear();
    plan.swarm.shadows = 0;
  }
  draw_rebalancing(swarm);
  draw_method(swarm);
  draw_damage(swarm);
  draw_hangs(swarm);
  draw_collectives(swarm);
  if (keeps_its_cuts(swarm) && !swarm.faults.has(Fault::Kind::flip)) {
    add_deaths(swarm.faults, swarm.seed, plan, swarm.membership);
  }
  draw_delays_of_spares(swarm);
  draw_memory(swarm);
  if (fault_options.outbids.value_or(false) && !swarm.faults.has(Fault::Kind::flip)) {
    add_outbids(swarm.faults, swarm.seed, plan, swarm.membership);
  }
  if (draws.chance(0.05)) {
    swarm.disks.writes_until_full = static_cast<std::int64_t>(log_uniform(draws, 1, 200));
    if (draws.chance(0.5)) swarm.disks.failing_peer = draws.one_of(swarm.membership.all());
  }
}

RandomSwarm draw_tortured_swarm(std::uint64_t seed, const TortureRules& rules) {
  SwarmSizes sizes = draw_sizes(seed);
  const bool has_owners = rules.faults.owners.value_or(false);
  if (has_owners) sizes.most_stages = 1;
  RandomSwarm swarm = rules.real ? draw_real_swarm(seed, sizes) : draw_swarm(seed, sizes);
  if (rules.delayed) {
    swarm.plan.train.updates = *rules.delayed ? Updates::delayed : Updates::synchronous;
  }
  if (rules.faults.pipelines.value_or(false)) swarm.plan.train.updates = Updates::synchronous;
  if (has_owners) swarm.plan.train.optimizer = Optimizer::adamw;
  if (swarm.deck) swarm.deck->train = swarm.plan.train;
  add_faults(swarm, rules.faults);
  return swarm;
}

RandomSwarm draw_other_swarm(const RandomSwarm& swarm, std::uint64_t seed) {
  RandomSwarm other = swarm;
  other.seed = seed;
  RandomStream draws(seed, Stream::simulation, 12);
  draw_peers(other, draws);
  draw_environment(other, draws);
  draw_later_choices(other);
  draw_learning(other);
  draw_queues(other);
  if (swarm.plan.recovers) add_faults(other, swarm.fault_options);
  return other;
}

RandomSwarm alone(const RandomSwarm& swarm) {
  RandomSwarm one;
  one.seed = swarm.seed;
  one.plan = swarm.plan;
  one.model = swarm.model;
  one.deck = swarm.deck;
  one.membership = {{PeerId(0)}, {}, Term(1)};
  if (!keeps_its_cuts(swarm)) {
    one.plan.stage_tensors.assign(1, std::vector<std::int32_t>(swarm.plan.tensor_names.size()));
    std::iota(one.plan.stage_tensors[0].begin(), one.plan.stage_tensors[0].end(), 0);
    one.plan.stage_costs = {1};
    one.plan.swarm.stages = 1;
  }
  one.plan.needs = {};
  one.plan.swarm.method = Method::swarm;
  one.plan.swarm.collectives = Collectives::none;
  one.plan.swarm.spares = 0;
  one.plan.swarm.pins.clear();
  one.plan.recovers = false;
  one.plan.torture_only.moves.clear();
  one.plan.swarm.shadows = 0;
  return one;
}

namespace {

std::string stage_bytes_text(const MemoryNeeds& needs) {
  std::string text;
  for (const StageNeeds& stage : needs.stages) {
    text += fmt::format("{}{} ({} to learn)", text.empty() ? "" : ", ", stage.serving_bytes,
                        stage.learning_bytes);
  }
  return text;
}

}  // namespace

std::string RandomSwarm::text() const {
  const TortureOnly& own = plan.torture_only;
  std::string line = plan.swarm.has_pipelines() ? name_of(plan.swarm.method) + ": " : "";
  line += fmt::format(
      "{} workers ({} pinned), {} spares, {} stages, {} x {} microbatches, {}, window {}, {} ({} "
      "ties), {} reduction of {} elements, pieces of {}, {}, validation {} x {}, checkpoints {}, "
      "flags {:g}",
      membership.workers.size(), plan.swarm.pins.size(), membership.spares.size(), plan.stages(),
      plan.train.steps, plan.train.microbatches, name_of(plan.train.updates), plan.window,
      name_of(plan.swarm.wiring), name_of(plan.swarm.wiring_ties),
      !own.reduction_pattern                             ? "any"
      : *own.reduction_pattern == ReductionPattern::ring ? "ring"
                                                         : "direct",
      own.reduction_chunk_elements.value_or(0), own.piece_elements, name_of(plan.train.optimizer),
      plan.validate_every, plan.validation_microbatches, plan.checkpoint_every, model.flag_chance);
  if (deck && deck->swarm.cuts_matter()) {
    line += fmt::format(", {} boundaries, {} and {}", name_of(deck->swarm.boundary),
                        name_of(deck->swarm.compress_activations),
                        name_of(deck->swarm.compress_gradients));
  } else if (!deck && (model.activation_words > 1 || model.gradient_words > 1)) {
    line += fmt::format(", boundaries of {} and {} words", model.activation_words,
                        model.gradient_words);
  }
  if (links.queue != Queue::none) {
    line += fmt::format(", {} of {:.0f} kB/s", links.queue == Queue::uplink ? "uplinks" : "lines",
                        links.bytes_per_s * 1e-3);
  }
  if (links.piece_s > 0) line += fmt::format(", a piece of state takes {:.6f} s", links.piece_s);
  if (stop) {
    line +=
        fmt::format(", {} asked to stop after {} events", stop->peers.size(), stop->after_events);
  }
  if (plan.recovers) {
    for (const Newcomer& newcomer : joins) {
      line += fmt::format(", peer {} comes at {:.6f} s", newcomer.peer.value, newcomer.at_s);
    }
    for (const Move& move : own.moves) {
      line += fmt::format(", peer {} moves to stage {} after step {}", move.peer.value,
                          move.to.value, move.after.value);
    }
    if (plan.between_deaths_s > 0) {
      line += fmt::format(", checkpoints for a death each {:.6f} s", plan.between_deaths_s);
    }
    if (plan.swarm.rebalance != Rebalance::none) {
      line += fmt::format(", rebalanced each {:.6f} s by the {}", plan.swarm.rebalance_period_s,
                          name_of(plan.swarm.rebalance_load));
    }
    if (plan.swarm.spare_delay_s > 0) {
      line += fmt::format(", spares take {:.6f} s", plan.swarm.spare_delay_s);
    }
    line += fmt::format(", newcomers {}, {} shadows, recovery by {} with {} bytes, ",
                        name_of(plan.swarm.newcomers), plan.swarm.shadows,
                        name_of(plan.swarm.recovery), plan.kept_bytes) +
            faults.text();
    if (plan.needs.known()) {
      line += fmt::format("; stages take {} bytes, each peer {}", stage_bytes_text(plan.needs),
                          plan.needs.peer_bytes);
      for (const auto& [peer, bytes] : membership.budgets) {
        line += fmt::format(", peer {} may take {}", peer.value, bytes);
      }
    }
    if (refused_stage) line += fmt::format("; stage {} finds no memory", *refused_stage);
    if (damaged_chunk) line += fmt::format("; reduced chunk {} is damaged", *damaged_chunk);
    if (damaged_piece) line += fmt::format("; piece {} of state is damaged", *damaged_piece);
    if (plan.swarm.has_collectives()) {
      line += fmt::format(
          "; collectives are made in {:.6f} s, add up in {:.6f} s, have a deadline of "
          "{:.6f} s, and fail at {:g}",
          collectives.making_most_s, collectives.adding_most_s, collectives.deadline_s,
          collectives.trouble);
    }
    if (damaged_sum) line += fmt::format("; rounded sum {} is damaged", *damaged_sum);
    if (disks.lost_part) line += fmt::format("; manifest {} lacks a part", *disks.lost_part);
    if (disks.damaged) {
      constexpr std::array kSeen{"no damage", "damage", "damage as it loads", "what is misread"};
      line += fmt::format("; going back {} finds {}", *disks.damaged,
                          kSeen.at(static_cast<std::size_t>(disks.damage)));
    }
    if (disks.writes_until_full) {
      line += fmt::format("; {} after {} writes",
                          disks.failing_peer
                              ? fmt::format("the disk of peer {} fails", disks.failing_peer->value)
                              : "the disk is full",
                          *disks.writes_until_full);
    }
  }
  return line;
}

std::unique_ptr<ComputeFactory> make_compute_factory(const RandomSwarm& swarm) {
  if (swarm.deck) return std::make_unique<RealComputeFactory>(*swarm.deck);
  auto factory = std::make_unique<SyntheticComputeFactory>(swarm.model);
  if (swarm.damaged_chunk) factory->damage_chunk(*swarm.damaged_chunk);
  if (swarm.damaged_piece) factory->damage_piece(*swarm.damaged_piece);
  if (swarm.damaged_sum) factory->damage_sum(*swarm.damaged_sum);
  if (swarm.refused_stage) factory->refuse_stage(*swarm.refused_stage);
  return factory;
}

SwarmEnd run(const RandomSwarm& swarm, const ResumeState& resume, ComputeFactory& compute_factory,
             VirtualDisk& disk, Observer* observer) {
  RandomLinks links(swarm.seed, swarm.links);
  RandomCosts costs(swarm.seed, swarm.costs, swarm.plan);
  RandomDisks disks(swarm.seed, swarm.disks);
  RandomCollectives collectives(swarm.seed, swarm.collectives);
  RandomStream starts(swarm.seed, Stream::simulation, 6);
  RandomStream clocks(swarm.seed, Stream::simulation, 7);
  SwarmSetting setting;
  setting.plan = swarm.plan;
  setting.membership = swarm.membership;
  setting.resume = resume;
  setting.stop = swarm.stop;
  setting.faults = swarm.faults;
  setting.states_may_differ = swarm.faults.has(Fault::Kind::flip);
  setting.state_holds_up_messages = swarm.links.piece_s > 0 && swarm.links.queue != Queue::none;
  setting.joins = swarm.joins;
  if (swarm.plan.swarm.has_collectives()) setting.collectives = &collectives;
  setting.start_s = [&](PeerId) { return starts.uniform(0, swarm.start_most_s); };
  setting.clock_offset_s = [&](PeerId) { return clocks.uniform(0, swarm.clock_offset_most_s); };
  setting.compute = [&](PeerId id) {
    return compute_factory.make(id, swarm.plan, swarm.membership, resume);
  };
  return run_swarm(setting, links, costs, disks, disk, observer);
}

}  // namespace swarmpi
