#pragma once
// What ranks tell each other about the processes and peers of each other, beside the messages of
// the protocol.

#include <cstdint>

namespace swarmpi {

struct Note {
  enum class Kind : std::int32_t {
    kill_process,         ///< of the rank `about`, which is on the receiver's host
    kill_peer,            ///< an emulated one that lives with the receiver
    died,                 ///< an emulated peer of the sender
    parted,               ///< no emulated peer of the sender lives, or will
    parted_after_the_end  ///< the same, and its last one has seen the run's end
  };
  Kind kind = Kind::kill_process;
  std::int32_t about = 0;  ///< a rank or a peer
};

}  // namespace swarmpi
