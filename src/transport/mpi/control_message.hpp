#pragma once
// What ranks tell each other about the processes and peers of each other, beside the messages of
// the protocol.

#include <cstdint>

namespace swarmpi {

struct ControlMessage {
  enum class Kind : std::int32_t {
    kill_process,         ///< of the rank `about`, which is on the receiver's host
    kill_peer,            ///< one that lives with the receiver, or with a process it has started
    died,                 ///< a peer of the sender, or of a process it has started
    parted,               ///< no emulated peer of the sender lives, or will
    parted_after_the_end  ///< the same, and its last one has seen the run's end
  };
  Kind kind = Kind::kill_process;
  std::int32_t about = 0;  ///< a rank or a peer
};

}  // namespace swarmpi
