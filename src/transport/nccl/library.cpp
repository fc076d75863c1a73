#include "transport/nccl/library.hpp"

#include "transport/nccl/calls.hpp"

#ifdef SWARMPI_HAS_NCCL

#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstring>

namespace swarmpi {
namespace {

constexpr const char* kName = "libnccl.so.2";
// The first that makes communicators without blocking.
constexpr int kOldest = NCCL_VERSION(2, 14, 0);

// By name, else where it was when this program was built.
void* open_library(std::string& why) {
  for (const char* path : {kName,
#ifdef SWARMPI_NCCL_LIBRARY
                           SWARMPI_NCCL_LIBRARY
#endif
       }) {
    // Its symbols are for nobody else: another library may have another NCCL within.
    void* library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library != nullptr) return library;
    const char* error = ::dlerror();
    if (why.empty()) why = error != nullptr ? error : "dlopen() says nothing";
  }
  return nullptr;
}

template <class Function>
void look_up(void* library, const char* name, Function& function, std::string& missing) {
  void* found = ::dlsym(library, name);
  if (found == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(name);
  std::memcpy(&function, &found, sizeof function);
}

// The names that are not there, "" if all are.
std::string look_up_all(void* library, NcclCalls& calls) {
  std::string missing;
  look_up(library, "ncclGetVersion", calls.get_version, missing);
  look_up(library, "ncclGetUniqueId", calls.get_unique_id, missing);
  look_up(library, "ncclCommInitRankConfig", calls.comm_init_rank_config, missing);
  look_up(library, "ncclCommGetAsyncError", calls.comm_get_async_error, missing);
  look_up(library, "ncclCommAbort", calls.comm_abort, missing);
  look_up(library, "ncclGroupStart", calls.group_start, missing);
  look_up(library, "ncclGroupEnd", calls.group_end, missing);
  look_up(library, "ncclAllReduce", calls.all_reduce, missing);
  look_up(library, "ncclGetErrorString", calls.get_error_string, missing);
  look_up(library, "ncclGetLastError", calls.get_last_error, missing);
  return missing;
}

std::string readable_version(int code) {
  return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
}

}  // namespace

Result<const NcclLibrary*> NcclLibrary::look_for() {
  std::string why;
  void* library = open_library(why);
  if (library == nullptr) return Status::failed("no NCCL here: " + why);
  static NcclCalls calls;
  const std::string missing = look_up_all(library, calls);
  if (!missing.empty()) return Status::failed(fmt::format("{} has no {}", kName, missing));
  int version = 0;
  const ncclResult_t result = calls.get_version(&version);
  if (result != ncclSuccess) {
    return Status::failed(
        fmt::format("{} does not tell its version: {}", kName, calls.get_error_string(result)));
  }
  if (version < kOldest) {
    return Status::failed(fmt::format("NCCL here is {}, older than {}", readable_version(version),
                                      readable_version(kOldest)));
  }
  static const NcclLibrary found(&calls, readable_version(version));
  return &found;
}

Result<CommunicatorId> NcclLibrary::make_id() const {
  static_assert(sizeof(ncclUniqueId) == sizeof(CommunicatorId));
  ncclUniqueId made{};
  const ncclResult_t result = calls_->get_unique_id(&made);
  if (result != ncclSuccess) {
    return Status::failed(fmt::format("ncclGetUniqueId: {} ({})", calls_->get_error_string(result),
                                      calls_->get_last_error(nullptr)));
  }
  CommunicatorId id{};
  std::memcpy(id.data(), &made, sizeof made);
  return id;
}

}  // namespace swarmpi

#else

namespace swarmpi {

Result<const NcclLibrary*> NcclLibrary::look_for() {
  return Status::failed("this program was built without NCCL");
}

Result<CommunicatorId> NcclLibrary::make_id() const {
  return Status::failed("this program was built without NCCL");
}

}  // namespace swarmpi

#endif

namespace swarmpi {

Result<const NcclLibrary*> NcclLibrary::load() {
  static const Result<const NcclLibrary*> library = look_for();
  return library;
}

}  // namespace swarmpi
