#pragma once
// MPI cannot sleep until a message comes. A rank that has nothing to do sleeps on this socket
// instead, and ranks of the same host ring, by one datagram, when they send to it. Where a ring is
// lost the sleep is not cut short, and nothing else happens.
//
// Any user of the host can find the socket. A ring is the bell's key, which only MPI tells the
// other ranks; the kernel throws away whatever else is sent, so that strangers wake nobody.

#include <sys/socket.h>
#include <sys/un.h>

#include <string>
#include <vector>

namespace swarmpi {

class Doorbell {
 public:
  /// Bound to a new name before anybody learns the name, so that no ring is lost.
  Doorbell();
  ~Doorbell();
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;

  /// By which others ring it: its address and its key. Empty if the system gives no socket, or
  /// refuses its filter.
  const std::string& name() const { return name_; }
  /// `names`: of all doorbells, by endpoint. Rings each once to find out which are in reach: those
  /// of other hosts are not. REQUIRES: all that have a name are bound.
  void know(const std::vector<std::string>& names);
  /// The doorbell of a new endpoint, which has the next number.
  void add(const std::string& name);
  void ring(int endpoint);
  /// Whether all were in reach so far.
  bool reaches_all() const { return reaches_all_; }
  /// Readable after a ring; -1 if there is none.
  int descriptor() const { return descriptor_; }
  /// Takes back the rings so far: as many as a queue holds, so that it ends where others go on.
  void silence();

 private:
  struct Other {
    sockaddr_un address{};
    socklen_t size = 0;
    std::string key;
    bool reachable = false;
  };

  int descriptor_ = -1;
  std::string name_;
  std::vector<Other> others_;
  bool reaches_all_ = true;
};

}  // namespace swarmpi
