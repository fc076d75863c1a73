#pragma once
// Memory in pages of 2 MiB instead of 4 KiB, where the system gives them to who asks. Who walks
// through a lot of memory at random, as a simulation does through the state of its peers, waits for
// the processor to find pages.

#include <cstddef>

namespace swarmpi {

/// So many bytes of what is allocated from now on, in pieces below 32 MiB, lie in huge pages as far
/// as the system has them. They are address space until they are used. Only with Linux and glibc;
/// without effect where the system refuses. To be called once, before other threads run.
void prefer_huge_pages(std::size_t bytes);

}  // namespace swarmpi
