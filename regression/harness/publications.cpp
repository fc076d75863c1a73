#include "regression/harness/publications.hpp"

#include <dlfcn.h>

#include <csignal>
#include <cstddef>

namespace {

constexpr int kPmixError = -1;

int fault_at = 0;  // 0: at none
int fault_signal = 0;
int publications = 0;

}  // namespace

void swarmpi::raise_at_publication(int number, int signal) {
  fault_at = number;
  fault_signal = signal;
}

void swarmpi::fail_at_publication(int number) { raise_at_publication(number, 0); }

// In the place of that of Open MPI's PMIx, which calls it: the program exports its symbols.
extern "C" int PMIx_Publish(const void* data, std::size_t count) {
  using Publish = int (*)(const void*, std::size_t);
  static const auto publish = reinterpret_cast<Publish>(dlsym(RTLD_NEXT, "PMIx_Publish"));
  if (++publications == fault_at) {
    if (fault_signal == 0) return kPmixError;
    raise(fault_signal);
  }
  return publish(data, count);
}
