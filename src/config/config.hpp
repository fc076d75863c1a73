#pragma once
// The deck as typed values. Every member is described once, in the tables of the schema; nothing
// else knows key names.

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "config/choices.hpp"

namespace swarmpi {

struct ModelConfig {
  std::int64_t layers = 4;
  std::int64_t width = 128;
  std::int64_t heads = 4;
  std::int64_t ffn = 0;  ///< 0: four times the width
  std::int64_t context = 128;
  std::int64_t vocab = 256;
  std::int64_t shared_groups = 0;  ///< groups of layers that share weights; 0: none do
  Precision precision = Precision::fp32;
  std::string initial;       ///< file of the weights to begin with; "": drawn from train.seed
  std::string initial_hash;  ///< 16 hex digits that they must have; "": any. Set in resolved decks

  std::int64_t hidden() const { return ffn > 0 ? ffn : 4 * width; }
  /// Sets of layer weights that exist.
  std::int64_t layer_sets() const { return shared_groups > 0 ? shared_groups : layers; }
};

struct DataConfig {
  std::vector<std::string> paths;
  DataFormat format = DataFormat::bytes;
  std::vector<std::string> validation_paths;  ///< empty: a share of `paths` is held out
  double validation_fraction = 0.01;
  std::string hash;  ///< 16 hex digits that the content must have; "": any. Set in resolved decks
};

struct TrainConfig {
  std::int64_t steps = 100;
  std::int64_t microbatches = 8;
  std::int64_t microbatch_size = 8;
  Optimizer optimizer = Optimizer::adamw;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double lr = 1e-3;
  double min_lr = 0.0;
  std::int64_t warmup_steps = 0;
  Schedule schedule = Schedule::cosine;
  std::int64_t schedule_steps = 0;  ///< 0: as steps
  double weight_decay = 0.1;
  double clip = 1.0;  ///< 0: no clipping
  std::uint64_t seed = 1;
  Updates updates = Updates::synchronous;
  Sums reduction = Sums::reproducible;
  double max_hours = 0;  ///< 0: no limit

  /// Updates over which the learning rate rises and falls.
  std::int64_t scheduled_steps() const { return schedule_steps > 0 ? schedule_steps : steps; }
  /// d: step t computes on the weights after step t - d.
  std::int64_t delay() const { return updates == Updates::delayed ? 2 : 1; }
};

struct SwarmConfig {
  Method method = Method::swarm;
  std::int64_t stages = 1;
  std::vector<std::int64_t> cuts;  ///< first layers of all stages but the first; empty: dealt
  std::int64_t peers = 1;
  std::int64_t spares = 0;
  std::vector<std::int64_t> pins;
  Wiring wiring = Wiring::iwrr;
  WiringTies wiring_ties = WiringTies::rotated;
  std::uint64_t seed = 1;
  std::int64_t window = 0;  ///< 0: max(2 * stages, working peers)
  Rebalance rebalance = Rebalance::none;
  double rebalance_period_s = 60;
  RebalanceLoad rebalance_load = RebalanceLoad::sum;
  NewcomerPolicy newcomers = NewcomerPolicy::even;
  Recovery recovery = Recovery::lineage;
  double cache_memory_gb = 0;
  std::int64_t shadows = 0;
  bool spawn = false;
  double hedge_after_s = 0;
  double heartbeat_s = 0.2;
  double suspect_after_s = 3;
  double give_up_after_s = 120;
  double spare_delay_s = 0;
  double notice_s = 0;
  bool allow_mixed = false;
  Codec compress_activations = Codec::none;
  Codec compress_gradients = Codec::none;
  double fp16_scale = 1;
  Boundary boundary = Boundary::plain;
  std::int64_t boundary_factor = 2;
  Codec compress_reduction = Codec::none;
  Collectives collectives = Collectives::none;

  /// Whether what is computed depends on where the model is cut into stages.
  bool cuts_matter() const {
    return stages > 1 && (compress_activations != Codec::none ||
                          compress_gradients != Codec::none || boundary != Boundary::plain);
  }
  /// Columns of what crosses a cut, of a model of this width.
  std::int64_t boundary_width(std::int64_t width) const {
    return boundary == Boundary::plain ? width : width / boundary_factor;
  }
  bool codes_fp16() const {
    return compress_activations == Codec::fp16 || compress_gradients == Codec::fp16;
  }
  /// Whether the peers form static pipelines of one peer a stage: a comparison, not SWARM.
  bool has_pipelines() const { return method != Method::swarm; }
  /// Whether each replica owns the moments of a range of its stage, and makes the weights there.
  bool has_owners() const { return method == Method::zero_offload; }
  /// Whether the sums of a stage may be added up by a collective of its replicas.
  bool has_collectives() const { return collectives != Collectives::none && !has_owners(); }
  /// Whether the leader decides by what waits at each peer.
  bool needs_loads() const {
    return rebalance != Rebalance::none || newcomers == NewcomerPolicy::loaded;
  }
  /// Microbatches in flight at most: `window`, or twice the stages, but at least the peers that
  /// serve one. Of method "swarm" only.
  std::int64_t in_flight(std::int64_t workers) const {
    return window > 0 ? window : std::max(2 * stages, workers);
  }
};

struct ComputeConfig {
  Kernels kernels = Kernels::native;
  std::int64_t threads = 1;
  MaxIsa max_isa = MaxIsa::any;
  bool tf32 = false;  ///< of CUDA kernels
  Recompute recompute = Recompute::as_needed;
  double memory_gb = 0;  ///< 0: a share of nine tenths of what the machine has
  double job_timeout_s = 600;
  Fidelity fidelity = Fidelity::real;
};

struct FaultsConfig {
  FaultsMode mode = FaultsMode::none;
  std::string trace;
  double mtbf_s = 0;
  std::uint64_t seed = 1;
};

struct OutputConfig {
  std::string run = "RUN.h5";
  std::string checkpoint;             ///< "": folder RUN.checkpoints beside RUN.h5
  std::int64_t checkpoint_every = 0;  ///< steps; 0: not by steps
  double checkpoint_every_s = 600;    ///< 0: not by time
  std::int64_t keep = 2;
  double publish_every_s = 30;
  double storage_timeout_s = 120;
  std::int64_t validate_every = 0;  ///< steps; 0: never
};

/// A class of devices that an emulated or simulated peer may be. Its speed is given as it is
/// sustained, or as a peak of which products reach a share by their shape.
struct DeviceConfig {
  std::string name;
  double gflops = 0;           ///< sustained GFLOP/s; 0: by the peak
  double overhead_s = 0;       ///< of each job
  double peak_tflops = 0;      ///< 0: by gflops
  double efficiency = 1;       ///< share of the peak that products of the widest models reach
  double half_width = 0;       ///< model.width at which half of that share is reached
  double memory_gb_per_s = 0;  ///< of passes over memory, as updates; 0: they take no time
  double memory_gb = 0;        ///< 0: no bound
  double price_per_hour = 0;
};

/// A class of access links: between a peer and the network that all peers share. A message pays at
/// both of its ends.
struct LinkConfig {
  std::string name;
  double latency_s = 0;
  double jitter_s = 0;      ///< the most by which the latency is longer, at random
  double up_mbps = 0;       ///< 0: no bound
  double down_mbps = 0;     ///< 0: no bound
  bool slow_start = false;  ///< connections begin slowly after a pause, as TCP's do
};

/// A place whose peers share what leads out of it.
struct SiteConfig {
  std::string name;
  double up_mbps = 0;    ///< 0: no bound
  double down_mbps = 0;  ///< 0: no bound
};

/// The way between two sites, the same in both directions, each with the rate of its own.
struct RouteConfig {
  std::vector<std::string> sites;  ///< both names
  double latency_s = 0;
  double mbps = 0;  ///< 0: no bound
};

/// Peers of one device class, link and site, or with kernels of their own. Those in no row run as
/// their machines do.
struct PeersConfig {
  std::vector<std::int64_t> peers;  ///< ids; empty: all that no other row names
  std::string device;               ///< name of a class; "": none
  PeerKernels kernels = PeerKernels::as_all;
  std::string link = {};  ///< name of a class; "": none
  std::string site = {};  ///< name; "": none
};

/// A fault of one peer at one point of the run: a row of [[faults.at]].
struct FaultAt {
  std::int64_t step = 0;
  std::int64_t peer = 0;
  FaultEvent event = FaultEvent::kill;
  FaultPoint point = FaultPoint::any;  ///< what the peer is about to do
  std::int64_t microbatch = -1;        ///< of that pass; < 0: any
};

struct Config {
  ModelConfig model;
  DataConfig data;
  TrainConfig train;
  SwarmConfig swarm;
  ComputeConfig compute;
  FaultsConfig faults;
  OutputConfig output;
  std::vector<DeviceConfig> devices;
  std::vector<LinkConfig> links;
  std::vector<SiteConfig> sites;
  std::vector<RouteConfig> routes;
  std::vector<PeersConfig> peer_classes;
  std::vector<FaultAt> faults_at;

  /// Where each key and table was given ("deck.toml:12", "--set ..."), for messages; "" names the
  /// deck, "peers[0].device" is a key of the first [[peers]]. Not part of what the deck says.
  std::map<std::string, std::string> places;
};

}  // namespace swarmpi
