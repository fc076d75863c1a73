#include "transport/raw_link.hpp"

#include <vector>

#include "core/clock.hpp"
#include "transport/mpi_handles.hpp"
#include "transport/tags.hpp"

namespace swarmpi {

double raw_round_trip_s(MpiSession& session, int a, int b, std::size_t size_bytes, int rounds) {
  const MPI_Comm comm = session.handles().swarm;
  const int rank = session.rank();
  if (rank != a && rank != b) return 0;
  std::vector<std::byte> bytes(size_bytes);
  const int size = static_cast<int>(size_bytes);
  const int other = rank == a ? b : a;
  const CallWatchdog::Call call(session.handles().watchdog, "a measurement of MPI");
  const WallClock clock;
  for (int round = 0; round < rounds; ++round) {
    if (rank == a) MPI_Send(bytes.data(), size, MPI_BYTE, other, kStreamTag, comm);
    MPI_Recv(bytes.data(), size, MPI_BYTE, other, kStreamTag, comm, MPI_STATUS_IGNORE);
    if (rank == b) MPI_Send(bytes.data(), size, MPI_BYTE, other, kStreamTag, comm);
  }
  return clock.now_s() / rounds;
}

double raw_bytes_per_s(MpiSession& session, int a, int b, std::size_t size_bytes, int in_flight,
                       int rounds) {
  const MPI_Comm comm = session.handles().swarm;
  const int rank = session.rank();
  if (rank != a && rank != b) return 0;
  const auto count = static_cast<std::size_t>(in_flight);
  std::vector<std::vector<std::byte>> bytes(count, std::vector<std::byte>(size_bytes));
  std::vector<MPI_Request> requests(count);
  const int size = static_cast<int>(size_bytes);
  const CallWatchdog::Call call(session.handles().watchdog, "a measurement of MPI");
  const WallClock clock;
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < count; ++i) {
      if (rank == a) {
        MPI_Isend(bytes[i].data(), size, MPI_BYTE, b, kStreamTag, comm, &requests[i]);
      } else {
        MPI_Irecv(bytes[i].data(), size, MPI_BYTE, a, kStreamTag, comm, &requests[i]);
      }
    }
    MPI_Waitall(in_flight, requests.data(), MPI_STATUSES_IGNORE);
  }
  const double bytes_moved = static_cast<double>(size_bytes) * in_flight * rounds;
  return bytes_moved / clock.now_s();
}

}  // namespace swarmpi
