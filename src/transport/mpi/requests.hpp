#pragma once
// All requests of MPI that are in progress, tested together. Each keeps the memory that it reads or
// writes until it is complete.

#include <cstddef>
#include <memory>
#include <vector>

#include "transport/mpi/call_watchdog.hpp"
#include "transport/mpi/endpoints.hpp"
#include "transport/mpi/mpi.hpp"

namespace swarmpi {

enum class RequestKind { send, beat_send, control_send, head, body, beat, control_receive };

struct Completion {
  RequestKind kind = RequestKind::send;
  int endpoint = 0;  ///< of the other process
  int error = MPI_SUCCESS;
  std::size_t size_bytes = 0;  ///< received
};

class Requests {
 public:
  Requests(CallWatchdog& watchdog, const Endpoints& endpoints)
      : watchdog_(watchdog), endpoints_(endpoints) {}
  /// What is still in progress stays so: see give_up().
  ~Requests();
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  /// Sends or receives `size_bytes` at `data`, which lies within `memory`. What MPI refuses at once
  /// comes back as a completion with an error.
  void send(RequestKind kind, int endpoint, int tag, const std::byte* data, std::size_t size_bytes,
            std::shared_ptr<const void> memory);
  void receive(RequestKind kind, int endpoint, int tag, std::byte* data, std::size_t size_bytes,
               std::shared_ptr<const void> memory);

  /// Those that are complete by now, in no order; valid until the next call.
  const std::vector<Completion>& test();
  bool empty() const { return requests_.empty(); }

  /// Cancels all receives and waits up to `timeout_s` for all requests. What does not complete by
  /// then stays as it is: its memory is never freed, for MPI may still touch it.
  void give_up(double timeout_s);

 private:
  struct Entry {
    RequestKind kind;
    int endpoint;
    std::shared_ptr<const void> memory;
  };

  void add(int code, MPI_Request request, Entry entry);
  void take(std::size_t index, int error, const MPI_Status& status);

  CallWatchdog& watchdog_;
  const Endpoints& endpoints_;
  std::vector<MPI_Request> requests_;
  std::vector<Entry> entries_;  // of the requests, in their order
  std::vector<Completion> refused_;
  std::vector<Completion> done_;
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
};

}  // namespace swarmpi
