// A slow link between two network name spaces, for tests. It makes a TAP device in each; what is
// sent into one comes out of the other, after a delay and no faster than the line's rate.
// usage: slow_link SPACE DEVICE SPACE DEVICE DELAY_MS RATE_MBIT QUEUE_KB
//   SPACE, DEVICE        a name space of `ip netns`, and the name of the device to be made there
//   DELAY_MS, RATE_MBIT  of each direction
//   QUEUE_KB             what may wait for the line in each direction; what comes then is lost
// Says "ready" once both devices are there. Ends, and they with it, on TERM, with its parent, or
// with one of the name spaces.

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

constexpr int kBadArguments = 2;
// The kernel leaves bursts in one piece of at most 64 KiB, a header of its own before it. Such a
// piece is one packet here, and keeps the line busy as long as all of it takes: with the headers of
// each packet that it would be cut into.
constexpr std::size_t kLargestPacketBytes = 65536 + 256;
// Read in one go, so that a flood in one direction does not hold up the other.
constexpr int kPacketsAtOnce = 64;

struct Quality {
  double delay_s = 0;
  double rate_bytes_per_s = 0;
  double queue_bytes = 0;
};

double now_s() {
  const auto since_boot = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since_boot).count();
}

[[noreturn]] void refuse(const std::string& complaint) {
  std::fprintf(stderr,
               "slow_link: %s\n"
               "usage: slow_link SPACE DEVICE SPACE DEVICE DELAY_MS RATE_MBIT QUEUE_KB\n",
               complaint.c_str());
  std::exit(kBadArguments);
}

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "slow_link: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(EXIT_FAILURE);
}

double number(std::string_view name, std::string_view text, double least) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || !std::isfinite(value) || value < least) {
    refuse(std::string(name) + " is \"" + std::string(text) + "\", not a number of at least " +
           (least == 0 ? "0" : "1"));
  }
  return value;
}

std::string device_name(std::string_view text) {
  if (text.empty() || text.size() >= IFNAMSIZ) {
    refuse("\"" + std::string(text) + "\" cannot be the name of a device");
  }
  return std::string(text);
}

// Made in that name space, where it stays until it is closed. The caller ends up there too.
int open_tap(const std::string& space, const std::string& device) {
  const std::string path = "/run/netns/" + space;
  const int entry = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (entry < 0 || setns(entry, CLONE_NEWNET) != 0) fail(path);
  close(entry);
  const int tap = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (tap < 0) fail("/dev/net/tun");
  ifreq request{};
  device.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
  if (ioctl(tap, TUNSETIFF, &request) != 0) fail(device + " in " + space);
  if (ioctl(tap, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6) != 0) fail(device);
  return tap;
}

// virtio_net_hdr, whose own declaration is none in C++: what the kernel says of a piece.
struct PieceHeader {
  std::uint8_t flags = 0;
  std::uint8_t kind = 0;  // 0: a packet
  std::uint16_t header_bytes = 0;
  std::uint16_t content_bytes = 0;  // of each packet that it is to be cut into
  std::uint16_t checksum_start = 0;
  std::uint16_t checksum_offset = 0;
};

double carried_bytes(const char* piece, std::size_t size_bytes) {
  PieceHeader header;
  if (size_bytes < sizeof header) return 0;
  std::memcpy(&header, piece, sizeof header);
  const std::size_t bytes = size_bytes - sizeof header;
  if (header.kind == 0 || header.content_bytes == 0 || header.header_bytes >= bytes) {
    return static_cast<double>(bytes);
  }
  const std::size_t content = bytes - header.header_bytes;
  const std::size_t packets = (content + header.content_bytes - 1) / header.content_bytes;
  return static_cast<double>(content + packets * header.header_bytes);
}

// Packets of one connection in one direction have the same; so have all that are not TCP over IPv4.
std::uint64_t flow_of(const char* piece, std::size_t size_bytes) {
  constexpr std::size_t kAddresses = sizeof(PieceHeader) + 14 + 12, kPorts = kAddresses + 8;
  if (size_bytes < kPorts + 4) return 0;
  std::uint64_t addresses = 0;
  std::uint32_t ports = 0;
  std::memcpy(&addresses, piece + kAddresses, sizeof addresses);
  std::memcpy(&ports, piece + kPorts, sizeof ports);
  return addresses * 0x9e3779b97f4a7c15 ^ ports;
}

// One direction: connections take turns, as with the queues that Linux has by default (fq_codel),
// so that small messages do not wait for large ones to others.
class Line {
 public:
  Line(int from, int to, const Quality& quality) : from_(from), to_(to), quality_(quality) {}

  // What has been sent waits for the line. False once the device is gone.
  bool take() {
    std::array<char, kLargestPacketBytes> buffer;
    for (int i = 0; i < kPacketsAtOnce; ++i) {
      const ssize_t size = read(from_, buffer.data(), buffer.size());
      if (size < 0) return errno == EAGAIN || errno == EINTR;
      const auto bytes = static_cast<std::size_t>(size);
      const double carried = carried_bytes(buffer.data(), bytes);
      if (waiting_bytes_ > quality_.queue_bytes) continue;
      waiting_bytes_ += carried;
      const std::uint64_t flow = flow_of(buffer.data(), bytes);
      std::deque<Packet>& queue = flows_[flow];
      if (queue.empty()) turns_.push_back(flow);
      queue.push_back({now_s(), carried, {buffer.data(), buffer.data() + bytes}});
    }
    return true;
  }

  // What the other end does not take is lost, as on any network: it may be switched off.
  void deliver() {
    const double now = now_s();
    while (!turns_.empty() && free_at_s_ <= now) carry_next();
    while (!under_way_.empty() && under_way_.front().time_s <= now) {
      const std::vector<char>& bytes = under_way_.front().bytes;
      [[maybe_unused]] const ssize_t written = write(to_, bytes.data(), bytes.size());
      under_way_.pop_front();
    }
  }

  std::optional<double> due_s() const {
    std::optional<double> due_s;
    if (!under_way_.empty()) due_s = under_way_.front().time_s;
    if (!turns_.empty()) due_s = std::min(free_at_s_, due_s.value_or(free_at_s_));
    return due_s;
  }

 private:
  struct Packet {
    double time_s = 0;  // when it came; of one that is under way: when it arrives
    double carried_bytes = 0;
    std::vector<char> bytes;
  };

  void carry_next() {
    const auto flow = flows_.find(turns_.front());
    turns_.pop_front();
    std::deque<Packet>& queue = flow->second;
    Packet packet = std::move(queue.front());
    queue.pop_front();
    waiting_bytes_ -= packet.carried_bytes;
    free_at_s_ =
        std::max(free_at_s_, packet.time_s) + packet.carried_bytes / quality_.rate_bytes_per_s;
    packet.time_s = free_at_s_ + quality_.delay_s;
    under_way_.push_back(std::move(packet));
    if (queue.empty()) {
      flows_.erase(flow);
    } else {
      turns_.push_back(flow->first);
    }
  }

  int from_;
  int to_;
  Quality quality_;
  double free_at_s_ = 0;  // when the line has carried all that it has begun
  double waiting_bytes_ = 0;
  std::map<std::uint64_t, std::deque<Packet>> flows_;
  std::deque<std::uint64_t> turns_;  // flows that have something waiting, the next one first
  std::deque<Packet> under_way_;
};

// Until there is something to read, or what is due first.
void wait(int one, int other, std::optional<double> due_s) {
  timespec rest{};
  if (due_s) {
    const double rest_s = std::max(0.0, *due_s - now_s());
    const double whole_s = std::floor(rest_s);
    rest.tv_sec = static_cast<std::time_t>(whole_s);
    rest.tv_nsec = static_cast<long>((rest_s - whole_s) * 1e9);
  }
  std::array<pollfd, 2> readable{{{one, POLLIN, 0}, {other, POLLIN, 0}}};
  ppoll(readable.data(), readable.size(), due_s ? &rest : nullptr, nullptr);
}

void forward(int one, int other, const Quality& quality) {
  Line there(one, other, quality);
  Line back(other, one, quality);
  while (there.take() && back.take()) {
    there.deliver();
    back.deliver();
    std::optional<double> due_s = there.due_s();
    if (!due_s || (back.due_s() && *back.due_s() < *due_s)) due_s = back.due_s();
    wait(one, other, due_s);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() != 7) {
    refuse("7 arguments are needed, not " + std::to_string(arguments.size()));
  }
  const std::string device = device_name(arguments[1]);
  const std::string other_device = device_name(arguments[3]);
  const Quality quality{number("DELAY_MS", arguments[4], 0) * 1e-3,
                        number("RATE_MBIT", arguments[5], 1) * 1e6 / 8,
                        number("QUEUE_KB", arguments[6], 1) * 1e3};

  const pid_t parent = getppid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) return EXIT_FAILURE;  // it has died before it could be told
  prctl(PR_SET_TIMERSLACK, 1000);                // nanoseconds; the default is 50 times as much

  const int one = open_tap(arguments[0], device);
  const int other = open_tap(arguments[2], other_device);
  std::puts("ready");
  std::fflush(stdout);
  forward(one, other, quality);
}
