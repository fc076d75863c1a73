#include "transport/mpi/doorbell.hpp"

#include <fmt/core.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace swarmpi {
namespace {

// In the abstract namespace: the name goes with the socket, no file is left behind.
socklen_t fill(sockaddr_un& address, const std::string& name) {
  address.sun_family = AF_UNIX;
  const std::size_t size = std::min(name.size(), sizeof(address.sun_path) - 1);
  std::memcpy(address.sun_path + 1, name.data(), size);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
}

// No two of all hosts have the same: a rank on another host must not wake a stranger on ours.
std::string new_name() {
  std::array<std::uint64_t, 2> token{};
  if (getrandom(token.data(), sizeof(token), 0) != sizeof(token)) return {};
  return fmt::format("swarmpi-{:016x}{:016x}", token[0], token[1]);
}

}  // namespace

Doorbell::Doorbell() {
  const std::string name = new_name();
  const int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) return;
  sockaddr_un address{};
  const socklen_t size = fill(address, name);
  if (name.empty() || bind(descriptor, reinterpret_cast<sockaddr*>(&address), size) != 0) {
    close(descriptor);
    return;
  }
  descriptor_ = descriptor;
  name_ = name;
}

Doorbell::~Doorbell() {
  if (descriptor_ >= 0) close(descriptor_);
}

void Doorbell::know(const std::vector<std::string>& names) {
  others_.clear();
  for (const std::string& name : names) add(name);
  silence();
}

void Doorbell::add(const std::string& name) {
  Other& other = others_.emplace_back();
  other.size = fill(other.address, name);
  other.reachable = !name.empty();
  ring(static_cast<int>(others_.size()) - 1);
}

void Doorbell::ring(int endpoint) {
  Other& other = others_[static_cast<std::size_t>(endpoint)];
  if (!other.reachable || descriptor_ < 0) {
    reaches_all_ = false;
    return;
  }
  const std::byte nothing{};
  const ssize_t sent = sendto(descriptor_, &nothing, sizeof(nothing), MSG_DONTWAIT | MSG_NOSIGNAL,
                              reinterpret_cast<const sockaddr*>(&other.address), other.size);
  // A full queue is a bell that rings already.
  const bool gone = sent < 0 && errno != EAGAIN && errno != ENOBUFS && errno != EINTR;
  if (gone) other.reachable = reaches_all_ = false;
}

void Doorbell::silence() {
  std::array<std::byte, 8> rung{};
  while (recv(descriptor_, rung.data(), rung.size(), MSG_DONTWAIT) > 0) {
  }
}

}  // namespace swarmpi
