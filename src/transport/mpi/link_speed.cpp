#include "transport/mpi/link_speed.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "core/archive.hpp"
#include "core/clock.hpp"
#include "transport/mpi/handles.hpp"
#include "transport/mpi/mpi.hpp"

namespace swarmpi {
namespace {

constexpr int kSmallBytes = 8;
constexpr int kMostRoundTrips = 2000;
constexpr int kInFlight = 16;
constexpr std::size_t kMostBytes = 64 << 20;  // longer ones are no faster
constexpr double kLimitS = 600;
constexpr int kMostRounds = 100;
constexpr int kTimings = 5;
constexpr double kTimingS = 0.1;  // of one timing, about

// Median time of one of the `count` repetitions in `work(count)`. The first rank chooses the count
// so that the clock resolves it, and sends it to the other.
template <class Work>
double timed_s(MPI_Comm swarm, int rank, int most, const Work& work) {
  const WallClock clock;
  work(1);
  double start_s = clock.now_s();
  work(1);
  int count = static_cast<int>(std::clamp(kTimingS / (clock.now_s() - start_s), 1.0, 1.0 * most));
  if (rank == 0) {
    MPI_Send(&count, 1, MPI_INT, 1, kStreamTag, swarm);
  } else {
    MPI_Recv(&count, 1, MPI_INT, 0, kStreamTag, swarm, MPI_STATUS_IGNORE);
  }
  std::vector<double> times_s;
  for (int i = 0; i < kTimings; ++i) {
    start_s = clock.now_s();
    work(count);
    times_s.push_back((clock.now_s() - start_s) / count);
  }
  std::sort(times_s.begin(), times_s.end());
  return times_s[kTimings / 2];
}

void bounce(MPI_Comm swarm, int rank, std::vector<char>& buffer, int bytes) {
  const int other = 1 - rank;
  for (int i = 0; i < 2; ++i) {
    if ((i == 0) == (rank == 0)) {
      MPI_Send(buffer.data(), bytes, MPI_CHAR, other, kStreamTag, swarm);
    } else {
      MPI_Recv(buffer.data(), bytes, MPI_CHAR, other, kStreamTag, swarm, MPI_STATUS_IGNORE);
    }
  }
}

// `rounds` times kInFlight messages from the first rank to the second, all of a round under way at
// once; the last word comes back. `buffer`: kInFlight messages.
void stream(MPI_Comm swarm, int rank, std::vector<char>& buffer, int bytes, int rounds) {
  std::array<MPI_Request, kInFlight> requests{};
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < kInFlight; ++i) {
      char* const data = buffer.data() + static_cast<std::ptrdiff_t>(i) * bytes;
      MPI_Request* const request = &requests[static_cast<std::size_t>(i)];
      if (rank == 0) {
        MPI_Isend(data, bytes, MPI_CHAR, 1, kStreamTag, swarm, request);
      } else {
        MPI_Irecv(data, bytes, MPI_CHAR, 0, kStreamTag, swarm, request);
      }
    }
    MPI_Waitall(kInFlight, requests.data(), MPI_STATUSES_IGNORE);
  }
  char last = 0;
  if (rank == 0) {
    MPI_Recv(&last, 1, MPI_CHAR, 1, kStreamTag, swarm, MPI_STATUS_IGNORE);
  } else {
    MPI_Send(&last, 1, MPI_CHAR, 0, kStreamTag, swarm);
  }
}

}  // namespace

LinkSpeed measure_link(MpiSession& session, std::size_t message_bytes) {
  LinkSpeed speed;
  const int rank = session.rank();
  if (rank < 2) {
    MPI_Comm swarm = session.handles().swarm;
    const CallWatchdog::Call call(session.handles().watchdog, "measuring the link", kLimitS);
    const int bytes = static_cast<int>(std::clamp<std::size_t>(message_bytes, 1, kMostBytes));
    std::vector<char> buffer(static_cast<std::size_t>(std::max(bytes, kSmallBytes)) * kInFlight, 1);
    speed.half_round_trip_s = timed_s(swarm, rank, kMostRoundTrips,
                                      [&](int count) {
                                        for (int i = 0; i < count; ++i) {
                                          bounce(swarm, rank, buffer, kSmallBytes);
                                        }
                                      }) /
                              2;
    const double round_s = timed_s(swarm, rank, kMostRounds,
                                   [&](int rounds) { stream(swarm, rank, buffer, bytes, rounds); });
    speed.bytes_per_s = static_cast<double>(bytes) * kInFlight / round_s;
  }
  return from_bytes<LinkSpeed>(session.gather(to_bytes(speed)).front()).value();
}

}  // namespace swarmpi
