#pragma once
// Values of the deck that are one of a few: decks, resolved decks, messages and the deck reference
// all read their names here.

#include <cstdint>

#include "core/choices.hpp"

namespace swarmpi {

enum class Precision : std::uint8_t { fp32, bf16 };
constexpr auto names_of(Precision) { return names({"fp32", "bf16"}); }
enum class DataFormat : std::uint8_t { bytes, tokens_u16, tokens_u32 };
constexpr auto names_of(DataFormat) { return names({"bytes", "tokens_u16", "tokens_u32"}); }
enum class Optimizer : std::uint8_t { adamw, lamb };
constexpr auto names_of(Optimizer) { return names({"adamw", "lamb"}); }
enum class Schedule : std::uint8_t { cosine, linear, constant };
constexpr auto names_of(Schedule) { return names({"cosine", "linear", "constant"}); }
enum class Updates : std::uint8_t { synchronous, delayed };
constexpr auto names_of(Updates) { return names({"synchronous", "delayed"}); }
enum class Sums : std::uint8_t { reproducible, fast };
constexpr auto names_of(Sums) { return names({"reproducible", "fast"}); }
enum class Method : std::uint8_t { swarm, gpipe, one_f_one_b, data_parallel, zero_offload };
constexpr auto names_of(Method) {
  return names({"swarm", "gpipe", "1f1b", "data_parallel", "zero_offload"});
}
enum class Wiring : std::uint8_t { iwrr, uniform, round_robin, fixed };
constexpr auto names_of(Wiring) { return names({"iwrr", "uniform", "round_robin", "fixed"}); }
enum class WiringTies : std::uint8_t { rotated, random };
constexpr auto names_of(WiringTies) { return names({"rotated", "random"}); }
enum class Rebalance : std::uint8_t { none, paper, adaptive };
constexpr auto names_of(Rebalance) { return names({"none", "paper", "adaptive"}); }
enum class RebalanceLoad : std::uint8_t { sum, mean };
constexpr auto names_of(RebalanceLoad) { return names({"sum", "mean"}); }
enum class NewcomerPolicy : std::uint8_t { even, weakest, loaded };
constexpr auto names_of(NewcomerPolicy) { return names({"even", "weakest", "loaded"}); }
enum class Recovery : std::uint8_t { lineage, redo, off };
constexpr auto names_of(Recovery) { return names({"lineage", "redo", "off"}); }
enum class Codec : std::uint8_t { none, fp16, bf16, blockwise8, uniform8, int4 };
constexpr auto names_of(Codec) {
  return names({"none", "fp16", "bf16", "blockwise8", "uniform8", "int4"});
}
enum class Boundary : std::uint8_t { plain, bottleneck, maxout };
constexpr auto names_of(Boundary) { return names({"plain", "bottleneck", "maxout"}); }
enum class Collectives : std::uint8_t { none, nccl };
constexpr auto names_of(Collectives) { return names({"none", "nccl"}); }
enum class Kernels : std::uint8_t { native, reference, cuda, none };
constexpr auto names_of(Kernels) { return names({"native", "reference", "cuda", "none"}); }
/// Of some peers; `as_all`: those of [compute].
enum class PeerKernels : std::uint8_t { as_all, native, reference, cuda };
constexpr auto names_of(PeerKernels) { return names({"", "native", "reference", "cuda"}); }
enum class MaxIsa : std::uint8_t { any, avx2, avx512, avx512_bf16, amx };
constexpr auto names_of(MaxIsa) { return names({"", "avx2", "avx512", "avx512_bf16", "amx"}); }
enum class Recompute : std::uint8_t { as_needed, always, never };
constexpr auto names_of(Recompute) { return names({"auto", "always", "never"}); }
enum class Fidelity : std::uint8_t { real, emulated, simulated };
constexpr auto names_of(Fidelity) { return names({"real", "emulated", "simulated"}); }
enum class FaultsMode : std::uint8_t { none, emulated, kill };
constexpr auto names_of(FaultsMode) { return names({"none", "emulated", "kill"}); }

/// What happens to a peer, by the deck or by a trace of preemptions.
enum class FaultEvent : std::uint8_t { kill, notice, join, stop, go_on, cut, heal, flip };
constexpr auto names_of(FaultEvent) {
  return names({"kill", "notice", "join", "stop", "continue", "cut", "heal", "flip"});
}

/// What a peer is about to do when a fault of the deck happens.
enum class FaultPoint : std::uint8_t { any, forward, backward, reduce, commit, apply, checkpoint };
constexpr auto names_of(FaultPoint) {
  return names({"any", "forward", "backward", "reduce", "commit", "apply", "checkpoint"});
}

}  // namespace swarmpi
