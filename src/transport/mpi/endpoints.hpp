#pragma once
// The processes that this one talks to over MPI, numbered: the ranks of the run by rank, then the
// processes that this one has started. A process that was itself started later has one endpoint:
// the rank that has started it.

#include <cstddef>
#include <vector>

#include "transport/mpi/mpi.hpp"

namespace swarmpi {

struct Endpoint {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;  ///< in `comm`
};

class Endpoints {
 public:
  /// All ranks of `comm`, of which this process is `self`; -1 if it is none of them.
  Endpoints(MPI_Comm comm, int ranks, int self) : self_(self) {
    for (int rank = 0; rank < ranks; ++rank) all_.push_back({comm, rank});
  }
  /// Returns the new one's number.
  int add(Endpoint endpoint) {
    all_.push_back(endpoint);
    return size() - 1;
  }

  const Endpoint& at(int number) const { return all_[static_cast<std::size_t>(number)]; }
  int size() const { return static_cast<int>(all_.size()); }
  int self() const { return self_; }

 private:
  std::vector<Endpoint> all_;
  int self_;
};

}  // namespace swarmpi
