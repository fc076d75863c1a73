#pragma once
// MPI cannot sleep. A rank that has nothing to do sleeps on this socket instead, and whoever sends
// to it rings: one datagram, from ranks of the same host. A ring that gets lost costs only that the
// sleep is not cut short.

#include <sys/socket.h>
#include <sys/un.h>

#include <string>
#include <vector>

namespace swarmpi {

class Doorbell {
 public:
  /// Bound at once to a new name, so that nobody who knows the name rings in vain.
  Doorbell();
  ~Doorbell();
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;

  /// How others find it; empty if the system gives no socket.
  const std::string& name() const { return name_; }
  /// The names of all, by end; rings once at each other's to find out who is in reach: ranks of
  /// other hosts are not. REQUIRES: those who have a name are bound.
  void know(const std::vector<std::string>& names);
  /// Another that comes later: one more at the end of their list.
  void know_too(const std::string& name);
  void ring(int end);
  bool reaches_all() const { return reaches_all_; }
  /// Readable after a ring; -1 if there is none.
  int descriptor() const { return descriptor_; }
  void silence();

 private:
  struct Other {
    sockaddr_un address{};
    socklen_t size = 0;
    bool reachable = false;
  };

  int descriptor_ = -1;
  std::string name_;
  std::vector<Other> others_;
  bool reaches_all_ = true;
};

}  // namespace swarmpi
