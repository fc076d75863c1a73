#include "core/uncaught.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <system_error>

namespace swarmpi {
namespace {

// Without memory of its own: there may be none.
[[noreturn]] void name_and_abort() {
  try {
    if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
    std::fputs("swarmpi: ended without an exception\n", stderr);
  } catch (const std::bad_alloc&) {
    std::fputs(
        "swarmpi: out of memory: this process may have no more (see ulimit -v, and the job's"
        " limit)\n",
        stderr);
  } catch (const std::system_error& error) {
    const bool limit = error.code() == std::errc::resource_unavailable_try_again;
    std::fprintf(
        stderr, "swarmpi: %s%s\n", error.what(),
        limit ? ": no more threads may be started (see ulimit -u, and the job's limit)" : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "swarmpi: %s\n", error.what());
  } catch (...) {
    std::fputs("swarmpi: ended by an unknown exception\n", stderr);
  }
  std::abort();
}

}  // namespace

void name_uncaught_exceptions() { std::set_terminate(name_and_abort); }

}  // namespace swarmpi
