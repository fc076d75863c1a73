#pragma once
// The processes that this one talks to, numbered: the ranks of the run by their rank, and those
// that were started later; for one of these only the process that has started it.

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
  /// Returns its number.
  int add(Endpoint end) {
    all_.push_back(end);
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
