#include "transport/mpi/spawning.hpp"

#include <fmt/core.h>

#include <filesystem>

#include "core/archive.hpp"

namespace swarmpi {
namespace {

// Starting takes longer where the cores are busy.
constexpr double kSpawnLimitS = 20;
constexpr std::size_t kLongestTextBytes = std::size_t{1} << 24;

Status explain(const char* call, int code) {
  return Status::failed(std::string(call) + ": " + mpi_error_text(code));
}

Status send_text(MPI_Comm comm, const std::string& text) {
  const int code =
      MPI_Send(text.data(), static_cast<int>(text.size()), MPI_CHAR, 0, kStartInfoTag, comm);
  return code == MPI_SUCCESS ? Status() : explain("MPI_Send", code);
}

Result<std::string> receive_text(MPI_Comm comm) {
  MPI_Status status;
  int code = MPI_Probe(0, kStartInfoTag, comm, &status);
  if (code != MPI_SUCCESS) return explain("MPI_Probe", code);
  int size_bytes = 0;
  MPI_Get_count(&status, MPI_CHAR, &size_bytes);
  const auto size = static_cast<std::size_t>(size_bytes);
  if (size_bytes < 0 || size > kLongestTextBytes)
    return Status::failed(fmt::format(
        "swarm.spawn: start information from the other process has {} bytes, more than {}",
        size_bytes, kLongestTextBytes));
  std::string text(size, '\0');
  code = MPI_Recv(text.data(), size_bytes, MPI_CHAR, 0, kStartInfoTag, comm, MPI_STATUS_IGNORE);
  if (code != MPI_SUCCESS) return explain("MPI_Recv", code);
  return text;
}

}  // namespace

Result<StartedProcess> start_process(CallWatchdog& watchdog,
                                     const std::vector<std::string>& arguments,
                                     const std::string& start_info) {
  std::error_code unknown;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", unknown).string();
  const std::string here = std::filesystem::current_path(unknown).string();
  if (unknown) {
    return Status::failed(
        "swarm.spawn: the path of the program (/proc/self/exe) or the working directory is "
        "unknown: " +
        unknown.message());
  }
  std::vector<std::string> copies = arguments;
  std::vector<char*> argv;
  for (std::string& argument : copies) argv.push_back(argument.data());
  argv.push_back(nullptr);
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  MPI_Info_set(info, "wdir", here.c_str());

  StartedProcess started;
  const CallWatchdog::Call call(watchdog, "MPI_Comm_spawn", kSpawnLimitS);
  int error = MPI_SUCCESS;
  const int code = MPI_Comm_spawn(program.c_str(), argv.data(), 1, info, 0, MPI_COMM_SELF,
                                  &started.comm, &error);
  MPI_Info_free(&info);
  if (code != MPI_SUCCESS) return explain("MPI_Comm_spawn", code);
  if (error != MPI_SUCCESS) return explain("MPI_Comm_spawn", error);
  MPI_Comm_set_errhandler(started.comm, MPI_ERRORS_RETURN);
  if (Status sent = send_text(started.comm, start_info); !sent.ok()) return sent;
  const Result<std::string> process = receive_text(started.comm);
  if (!process.ok()) return process.status();
  started.process = unpack_process(process.value());
  return started;
}

Result<std::string> receive_start_info(CallWatchdog& watchdog, MPI_Comm parent) {
  const CallWatchdog::Call call(watchdog, "MPI_Recv from the process that has started this one");
  Result<std::string> start_info = receive_text(parent);
  if (!start_info.ok()) return start_info;
  if (Status sent = send_text(parent, to_bytes(this_process())); !sent.ok()) return sent;
  return start_info;
}

}  // namespace swarmpi
