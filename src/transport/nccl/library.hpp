#pragma once
// NCCL, looked for at run time: the same program runs where there is none.

#include <string>

#include "core/status.hpp"
#include "transport/nccl/engine.hpp"

namespace swarmpi {

struct NcclCalls;  // calls.hpp

class NcclLibrary {
 public:
  /// Loads libnccl.so.2; it is never unloaded, for threads may be left behind in it. Looked for
  /// once in a process. Errors: failed, with why there is none that can be used.
  static Result<const NcclLibrary*> load();

  /// "2.28.9"
  const std::string& version() const { return version_; }
  const NcclCalls& calls() const { return *calls_; }
  /// Names a new communicator, and listens for its members, in this process: one of them must make
  /// it. Takes milliseconds: not for a thread that must not wait. Errors: failed.
  Result<CommunicatorId> make_id() const;

 private:
  NcclLibrary(const NcclCalls* calls, std::string version)
      : calls_(calls), version_(std::move(version)) {}
  static Result<const NcclLibrary*> look_for();

  const NcclCalls* calls_;
  std::string version_;
};

}  // namespace swarmpi
