#include "transport/nccl/nccl_engine.hpp"

#include "transport/nccl/calls.hpp"

#ifdef SWARMPI_HAS_NCCL

#include <cuda_runtime_api.h>
#include <fmt/core.h>

#include <cstring>

namespace swarmpi {
namespace {

class NcclEngine final : public CollectiveEngine {
 public:
  explicit NcclEngine(const NcclCalls& calls) : calls_(calls) {}

  EngineAnswer begin(const CommunicatorPlan& plan) override;
  EngineAnswer made() override { return async_error(); }
  EngineAnswer enter(const Piece& piece) override;
  EngineAnswer event() override;
  EngineAnswer error() override { return async_error(); }
  Mark mark() override { return {marks_on_host_[2], marks_on_host_[3]}; }
  EngineAnswer abort() override;

 private:
  EngineAnswer prepare_device(int device);
  /// All-reduces of the piece and of its mark, as one call.
  ncclResult_t all_reduce(const void* in, const Piece& piece);
  EngineAnswer async_error();
  EngineAnswer record_event();
  void release_device();
  EngineAnswer explain(const char* call, ncclResult_t result);
  EngineAnswer explain(const char* call, cudaError_t result);
  /// Whether every call fails from now on.
  bool device_lost();

  const NcclCalls& calls_;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t through_ = nullptr;
  // This member's mark, and the sum of all.
  std::uint64_t* marks_ = nullptr;          // (4), on the device
  std::uint64_t* marks_on_host_ = nullptr;  // (4)
  void* zeros_ = nullptr;                   // while they are summed
  bool recorded_ = false;                   // the event of the last piece
};

#define SWARMPI_TRY_CUDA(call)                                                \
  do {                                                                        \
    const cudaError_t result_of_call = call;                                  \
    if (result_of_call != cudaSuccess) return explain(#call, result_of_call); \
  } while (false)

EngineAnswer NcclEngine::begin(const CommunicatorPlan& plan) {
  EngineAnswer prepared = prepare_device(plan.device);
  if (prepared.kind != EngineAnswer::Kind::done) return prepared;
  ncclUniqueId id{};
  std::memcpy(&id, plan.id.data(), sizeof id);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const ncclResult_t result =
      calls_.comm_init_rank_config(&comm_, plan.size, id, plan.place, &config);
  return result == ncclInProgress ? EngineAnswer::done()
                                  : explain("ncclCommInitRankConfig", result);
}

// Memory comes from the stream's pool: to take or give back other memory waits for all kernels of
// the device, and a kernel of NCCL may wait for another process.
EngineAnswer NcclEngine::prepare_device(int device) {
  SWARMPI_TRY_CUDA(cudaSetDevice(device));
  int least = 0;
  int greatest = 0;
  SWARMPI_TRY_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  // Kernels that wait for other processes should not wait for those of the passes as well.
  SWARMPI_TRY_CUDA(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest));
  SWARMPI_TRY_CUDA(cudaEventCreateWithFlags(&through_, cudaEventDisableTiming));
  void* memory = nullptr;
  SWARMPI_TRY_CUDA(cudaHostAlloc(&memory, 4 * sizeof(std::uint64_t), cudaHostAllocDefault));
  marks_on_host_ = static_cast<std::uint64_t*>(memory);
  SWARMPI_TRY_CUDA(cudaMallocAsync(&memory, 4 * sizeof(std::uint64_t), stream_));
  marks_ = static_cast<std::uint64_t*>(memory);
  return EngineAnswer::done();
}

EngineAnswer NcclEngine::enter(const Piece& piece) {
  recorded_ = false;
  std::memcpy(marks_on_host_, piece.mark.data(), sizeof piece.mark);
  SWARMPI_TRY_CUDA(
      cudaMemcpyAsync(marks_, marks_on_host_, sizeof piece.mark, cudaMemcpyHostToDevice, stream_));
  const void* in = piece.in;
  if (in == nullptr && piece.count > 0) {
    const auto size = static_cast<std::size_t>(piece.count * size_of(piece.element));
    SWARMPI_TRY_CUDA(cudaMallocAsync(&zeros_, size, stream_));
    SWARMPI_TRY_CUDA(cudaMemsetAsync(zeros_, 0, size, stream_));
    in = zeros_;
  }
  const ncclResult_t result = all_reduce(in, piece);
  return result == ncclInProgress ? EngineAnswer::done() : explain("ncclAllReduce", result);
}

ncclResult_t NcclEngine::all_reduce(const void* in, const Piece& piece) {
  const ncclDataType_t type = piece.element == SumElement::int64 ? ncclInt64 : ncclInt32;
  // Zeros may be summed in place: nobody needs them afterwards.
  void* out = piece.in == nullptr ? zeros_ : piece.out;
  ncclResult_t worst = calls_.group_start();
  const auto note = [&](ncclResult_t result) {
    if (worst == ncclSuccess || worst == ncclInProgress) worst = result;
  };
  if (piece.count > 0) {
    note(calls_.all_reduce(in, out, static_cast<std::size_t>(piece.count), type, ncclSum, comm_,
                           stream_));
  }
  note(calls_.all_reduce(marks_, marks_ + 2, 2, ncclUint64, ncclSum, comm_, stream_));
  note(calls_.group_end());  // also after an error: else all later calls belong to this group
  return worst;
}

// The library puts kernels on the stream by a thread of its own: an event that is recorded before
// it says that it has would fire too early.
EngineAnswer NcclEngine::event() {
  EngineAnswer known = async_error();
  if (!recorded_) {
    if (known.kind != EngineAnswer::Kind::done) return known;
    return record_event();
  }
  const cudaError_t fired = cudaEventQuery(through_);
  if (fired == cudaSuccess) return EngineAnswer::done();
  if (fired != cudaErrorNotReady) return explain("cudaEventQuery", fired);
  // Where another member has died the kernel would wait for ever.
  if (known.kind != EngineAnswer::Kind::done) return known;
  return EngineAnswer::pending();
}

EngineAnswer NcclEngine::record_event() {
  SWARMPI_TRY_CUDA(cudaMemcpyAsync(marks_on_host_ + 2, marks_ + 2, sizeof(Mark),
                                   cudaMemcpyDeviceToHost, stream_));
  if (zeros_ != nullptr) {
    SWARMPI_TRY_CUDA(cudaFreeAsync(zeros_, stream_));
    zeros_ = nullptr;
  }
  SWARMPI_TRY_CUDA(cudaEventRecord(through_, stream_));
  recorded_ = true;
  return EngineAnswer::pending();
}

EngineAnswer NcclEngine::async_error() {
  ncclResult_t error = ncclSuccess;
  const ncclResult_t result = calls_.comm_get_async_error(comm_, &error);
  if (result != ncclSuccess) return explain("ncclCommGetAsyncError", result);
  if (error == ncclInProgress) return EngineAnswer::pending();
  return explain("the communicator", error);
}

// No ncclCommFinalize, and no ncclCommDestroy: they wait for the other members.
EngineAnswer NcclEngine::abort() {
  if (comm_ != nullptr) {
    const ncclResult_t result = calls_.comm_abort(comm_);
    comm_ = nullptr;
    if (result != ncclSuccess) return explain("ncclCommAbort", result);
  }
  if (stream_ == nullptr) return EngineAnswer::done();
  SWARMPI_TRY_CUDA(cudaStreamSynchronize(stream_));
  release_device();
  return EngineAnswer::done();
}

void NcclEngine::release_device() {
  if (zeros_ != nullptr) cudaFreeAsync(zeros_, stream_);
  if (marks_ != nullptr) cudaFreeAsync(marks_, stream_);
  if (through_ != nullptr) cudaEventDestroy(through_);
  cudaStreamDestroy(stream_);
  cudaFreeHost(marks_on_host_);
}

#undef SWARMPI_TRY_CUDA

EngineAnswer NcclEngine::explain(const char* call, ncclResult_t result) {
  if (result == ncclSuccess) return EngineAnswer::done();
  const char* detail = comm_ != nullptr ? calls_.get_last_error(comm_) : "";
  const std::string why = fmt::format("{}: {} ({})", call, calls_.get_error_string(result),
                                      detail != nullptr ? detail : "");
  if (device_lost()) return EngineAnswer::device_lost(why);
  return EngineAnswer::failed(why);
}

EngineAnswer NcclEngine::explain(const char* call, cudaError_t result) {
  const std::string why = fmt::format("{}: {}", call, cudaGetErrorString(result));
  if (device_lost()) return EngineAnswer::device_lost(why);
  return EngineAnswer::failed(why);
}

bool NcclEngine::device_lost() {
  cudaGetLastError();  // forgets an error that does not last
  if (stream_ == nullptr) return false;
  const cudaError_t now = cudaStreamQuery(stream_);
  return now != cudaSuccess && now != cudaErrorNotReady;
}

}  // namespace

std::unique_ptr<CollectiveEngine> make_nccl_engine(const NcclLibrary& library) {
  return std::make_unique<NcclEngine>(library.calls());
}

}  // namespace swarmpi

#else

namespace swarmpi {

std::unique_ptr<CollectiveEngine> make_nccl_engine(const NcclLibrary&) { return nullptr; }

}  // namespace swarmpi

#endif
