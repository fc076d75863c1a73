#include "kernels/cuda/device.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "core/check.hpp"

namespace swarmpi::kernels::cuda {
namespace {

constexpr std::size_t kResultAlignment = 16;

int number_in(const char* variable, int otherwise) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return otherwise;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  return end != text && value >= 0 && value < 1 << 20 ? static_cast<int>(value) : otherwise;
}

int first_number_in(std::initializer_list<const char*> variables, int otherwise) {
  for (const char* const variable : variables) {
    if (const int value = number_in(variable, -1); value >= 0) return value;
  }
  return otherwise;
}

int device_count() {
  int devices = 0;
  check(cudaGetDeviceCount(&devices), "counting the devices");
  return devices;
}

}  // namespace

void check(cudaError_t status, const char* what) {
  SWARMPI_CHECK(status == cudaSuccess, std::string("the GPU failed (") + what +
                                           "): " + cudaGetErrorName(status) + ", " +
                                           cudaGetErrorString(status));
}

int device_of(int local_rank, int devices) { return local_rank % devices; }

int local_rank() {
  return first_number_in({"OMPI_COMM_WORLD_LOCAL_RANK", "PMIX_LOCAL_RANK", "SLURM_LOCALID"}, 0);
}

int ranks_on_device(int devices) {
  const int ranks = first_number_in(
      {"OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE"}, 1);
  return std::max(1, (ranks + devices - 1) / devices);
}

int choose_device(int devices) {
  if (local_rank() > 0 || ranks_on_device(1) > 1) return device_of(local_rank(), devices);
  int best = 0;
  std::size_t most = 0;
  for (int device = 0; devices > 1 && device < devices; ++device) {
    std::size_t free = 0, total = 0;
    check(cudaSetDevice(device), "choosing a device");
    check(cudaMemGetInfo(&free, &total), "asking for the free memory");
    if (free > most) best = device;
    most = std::max(most, free);
  }
  return best;
}

std::string description(const cudaDeviceProp& properties) {
  return std::string(properties.name) + ", " + std::to_string(properties.multiProcessorCount) +
         " multiprocessors, compute capability " + std::to_string(properties.major) + "." +
         std::to_string(properties.minor);
}

DeviceMemory::DeviceMemory(int device, std::size_t size_bytes)
    : device_(device), size_bytes_(size_bytes) {
  check(cudaSetDevice(device), "choosing the device");
  const std::size_t taken = std::max<std::size_t>(size_bytes, 1);
  const cudaError_t status = cudaMalloc(&data_, taken);
  SWARMPI_CHECK(status != cudaErrorMemoryAllocation,
                "the GPU has no " + std::to_string(size_bytes) +
                    " bytes left: set [compute] memory_gb to what this rank may take of it");
  check(status, "taking memory");
  check(cudaMemset(data_, 0, taken), "clearing memory");
  check(cudaDeviceSynchronize(), "clearing memory");
}

DeviceMemory::~DeviceMemory() {
  cudaSetDevice(device_);
  cudaFree(data_);  // at the end of a process the driver may be gone already
}

void* DeviceScratch::take(std::size_t size_bytes) {
  if (memory_ == nullptr || memory_->size_bytes() < size_bytes) {
    check(cudaDeviceSynchronize(), "waiting for what uses scratch memory");
    memory_.reset();
    memory_ = std::make_unique<DeviceMemory>(device_, size_bytes);
  }
  return memory_->data();
}

Device::Device() {
  const int devices = device_count();
  index_ = choose_device(devices);
  select();
  check(cudaGetDeviceProperties(&properties_, index_), "asking for the device's properties");
  share_bytes_ = memory().share_among(static_cast<std::size_t>(ranks_on_device(devices)));
  check(cudaStreamCreateWithFlags(&compute_, cudaStreamNonBlocking), "making a stream");
  check(cudaStreamCreateWithFlags(&aside_, cudaStreamNonBlocking), "making a stream");
  word_ = std::make_unique<DeviceMemory>(index_, sizeof(std::uint64_t));
  make_room(std::size_t(1) << 16);
}

Device::~Device() {
  cudaSetDevice(index_);
  cudaFreeHost(results_on_host_);
  cudaStreamDestroy(compute_);
  cudaStreamDestroy(aside_);
}

OwnMemory Device::memory() const {
  select();
  OwnMemory memory{0, share_bytes_, 0};
  check(cudaMemGetInfo(&memory.free_bytes, &memory.total_bytes), "asking for the free memory");
  return memory;
}

void Device::select() const { check(cudaSetDevice(index_), "choosing the device"); }

cudaStream_t Device::compute() {
  const std::thread::id self = std::this_thread::get_id();
  if (computing_.load(std::memory_order_relaxed) != self) {
    select();
    computing_.store(self);
  }
  return compute_;
}

void Device::make_room(std::size_t size_bytes) {
  results_ = std::make_unique<DeviceMemory>(index_, size_bytes);
  check(cudaFreeHost(results_on_host_), "giving memory back");
  results_on_host_ = nullptr;
  check(cudaHostAlloc(&results_on_host_, size_bytes, cudaHostAllocDefault), "taking host memory");
  results_capacity_ = size_bytes;
}

void* Device::expect_bytes(std::size_t size_bytes, std::function<void(const void*)> use) {
  const std::size_t taken =
      (size_bytes + kResultAlignment - 1) / kResultAlignment * kResultAlignment;
  if (results_used_ + taken > results_capacity_) {
    finish();
    if (taken > results_capacity_) make_room(std::max(2 * results_capacity_, taken));
  }
  expected_.push_back({results_used_, std::move(use)});
  results_used_ += taken;
  return results_->as<std::byte>() + expected_.back().place;
}

void Device::finish() {
  const cudaStream_t stream = compute();
  if (results_used_ > 0) {
    check(cudaMemcpyAsync(results_on_host_, results_->data(), results_used_, cudaMemcpyDeviceToHost,
                          stream),
          "copying results");
  }
  check(cudaStreamSynchronize(stream), "waiting for operations");
  for (const Expected& expected : expected_) {
    expected.use(static_cast<const std::byte*>(results_on_host_) + expected.place);
  }
  expected_.clear();
  results_used_ = 0;
}

cudaStream_t Device::stream_of_caller() {
  if (computing_.load() == std::this_thread::get_id()) return compute_;
  select();
  return aside_;
}

void Device::upload(void* to, const void* from_host, std::size_t size_bytes) {
  if (size_bytes == 0) return;  // of tensors of which nothing is owned
  const cudaStream_t stream = stream_of_caller();
  check(cudaMemcpyAsync(to, from_host, size_bytes, cudaMemcpyHostToDevice, stream), "an upload");
  check(cudaStreamSynchronize(stream), "an upload");
}

void Device::download(void* to_host, const void* from, std::size_t size_bytes) {
  if (size_bytes == 0) return;
  const cudaStream_t stream = stream_of_caller();
  check(cudaMemcpyAsync(to_host, from, size_bytes, cudaMemcpyDeviceToHost, stream), "a download");
  check(cudaStreamSynchronize(stream), "a download");
}

std::uint64_t Device::make_word(const std::function<void(cudaStream_t, std::uint64_t*)>& launch) {
  const std::lock_guard lock(aside_mutex_);
  const cudaStream_t stream = stream_of_caller();
  auto* const word = word_->as<std::uint64_t>();
  launch(stream, word);
  check(cudaGetLastError(), "starting a hash");
  std::uint64_t value = 0;
  check(cudaMemcpyAsync(&value, word, sizeof value, cudaMemcpyDeviceToHost, stream), "a hash");
  check(cudaStreamSynchronize(stream), "a hash");
  return value;
}

}  // namespace swarmpi::kernels::cuda
