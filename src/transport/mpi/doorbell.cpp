#include "transport/mpi/doorbell.hpp"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <linux/filter.h>
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

constexpr char kBetween = '/';  // address and key, in a name
constexpr std::size_t kKeyBytes = 32;
// More than the queue of a datagram socket holds, on any system that we know.
constexpr int kMostRings = 1024;

// 32 characters that nobody can guess; empty where the system gives none.
std::string new_key() {
  std::array<std::uint64_t, 2> token{};
  if (getrandom(token.data(), sizeof(token), 0) != sizeof(token)) return {};
  return fmt::format("{:016x}{:016x}", token[0], token[1]);
}

// Has the kernel throw away all datagrams that do not begin with the key. Sockets of this kind take
// the filters of the packet socket, a program for a small machine: each word is loaded and
// compared, and the return value is how many bytes are kept. See Linux,
// Documentation/networking/filter.
bool admit_only(int descriptor, const std::string& key) {
  constexpr std::size_t kWords = kKeyBytes / sizeof(std::uint32_t);
  std::array<sock_filter, 2 * kWords + 2> program{};
  for (std::size_t word = 0; word < kWords; ++word) {
    std::uint32_t expected = 0;
    std::memcpy(&expected, key.data() + word * sizeof(expected), sizeof(expected));
    const auto offset = static_cast<std::uint32_t>(word * sizeof(expected));
    const auto to_refusal = static_cast<std::uint8_t>(2 * (kWords - 1 - word) + 1);
    program[2 * word] = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset);
    program[2 * word + 1] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ntohl(expected), 0, to_refusal);
  }
  program[2 * kWords] = BPF_STMT(BPF_RET | BPF_K, kKeyBytes);
  program[2 * kWords + 1] = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  return setsockopt(descriptor, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) == 0;
}

}  // namespace

Doorbell::Doorbell() {
  // No two of all hosts have the same: a rank on another host must not wake a stranger on ours.
  const std::string token = new_key(), key = new_key();
  const std::string name = "swarmpi-" + token;
  const int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) return;
  sockaddr_un address{};
  const socklen_t size = fill(address, name);
  if (token.empty() || key.empty() || !admit_only(descriptor, key) ||
      bind(descriptor, reinterpret_cast<sockaddr*>(&address), size) != 0) {
    close(descriptor);
    return;
  }
  descriptor_ = descriptor;
  name_ = name + kBetween + key;
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
  const std::size_t between = name.find(kBetween);
  other.size = fill(other.address, name.substr(0, between));
  if (between != std::string::npos) other.key = name.substr(between + 1);
  other.reachable = other.key.size() == kKeyBytes;
  ring(static_cast<int>(others_.size()) - 1);
}

void Doorbell::ring(int endpoint) {
  Other& other = others_[static_cast<std::size_t>(endpoint)];
  if (!other.reachable || descriptor_ < 0) {
    reaches_all_ = false;
    return;
  }
  const ssize_t sent =
      sendto(descriptor_, other.key.data(), other.key.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
             reinterpret_cast<const sockaddr*>(&other.address), other.size);
  // A full queue is a bell that rings already.
  const bool gone = sent < 0 && errno != EAGAIN && errno != ENOBUFS && errno != EINTR;
  if (gone) other.reachable = reaches_all_ = false;
}

void Doorbell::silence() {
  std::array<std::byte, kKeyBytes> rung{};
  for (int ring = 0; ring < kMostRings; ++ring) {
    if (recv(descriptor_, rung.data(), rung.size(), MSG_DONTWAIT) <= 0) return;
  }
}

}  // namespace swarmpi
