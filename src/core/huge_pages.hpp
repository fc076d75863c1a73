#pragma once
// Memory in pages of 2 MiB instead of 4 KiB, where the system gives them to who asks. Who walks
// through a lot of memory at random, as a simulation does through the state of its peers, waits for
// the processor to find pages.

#include <cstdint>

namespace swarmpi {

/// About so many bytes of what is allocated from now on, in pieces below 32 MiB, lie in huge pages
/// as far as the system has them. They are address space until they are used. Only with Linux and
/// glibc; without effect where the system refuses so much address space. May be called again.
void prefer_huge_pages(std::int64_t bytes);

}  // namespace swarmpi
