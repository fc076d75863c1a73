#pragma once
// Identifies a process so that another process of the same host and user can kill it.

#include <cstdint>
#include <string>

#include "core/field_list.hpp"

namespace swarmpi {

struct Process {
  std::string host;  ///< host name, boot id and PID namespace, within which `id` is unique
  std::int64_t id = 0;
  std::int64_t started =
      -1;  ///< start time in clock ticks since boot: ids are used again; -1: unknown
};
SWARMPI_FIELDS(Process, host, id, started);

Process this_process();
/// From what to_bytes() made; of anything else, a process without a host.
Process unpack_process(const std::string& bytes);

/// Sends SIGKILL, which also kills a process that is stopped. False where that is not possible: the
/// process is of another host or another user, or /proc does not tell that it is the one. One that
/// has ended already counts as killed.
bool kill_process(const Process& process);
/// Whether nothing of its program runs any more, nor ever will: it has ended, or it was killed and
/// what is left of it are threads in calls of the kernel that no signal interrupts. These keep its
/// sockets open, and nobody is told of its death. False where /proc does not tell.
bool runs_no_more(const Process& process);
/// The same of one thread, by its line of /proc/ID/task/THREAD/stat.
bool thread_runs_no_more(const std::string& stat);
/// Kills the processes of this host and user that run this program with such a last argument.
void kill_processes_with(const std::string& last_argument);

}  // namespace swarmpi
