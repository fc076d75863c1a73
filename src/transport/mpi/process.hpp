#pragma once
// Processes, named so that another process of the same host and user can end them.

#include <cstdint>
#include <string>

namespace swarmpi {

struct Process {
  std::string host;  ///< name, boot and name space: where `id` means this process
  std::int64_t id = 0;
  std::int64_t started = 0;  ///< by the host's own count: ids are used again

  std::string packed() const;
};

Process this_process();
/// What packed() made; a process of no host, where it is something else.
Process unpack_process(const std::string& text);

/// Sends SIGKILL, also to one that is stopped. Says false where that is not possible: of another
/// host or another user. One that is gone already counts as killed.
bool kill_process(const Process& process);

}  // namespace swarmpi
