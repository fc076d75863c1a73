#include "kernels/rounding_mode.hpp"

#ifdef __SSE2__
#include <xmmintrin.h>
#else
#include <cfenv>
#endif

namespace swarmpi::kernels {

#ifdef __SSE2__

namespace {
constexpr unsigned kDefaultControl = 0x1f80;  // all exceptions masked
constexpr unsigned kStickyFlags = 0x3f;
}  // namespace

void set_rounding_mode() { _mm_setcsr(kDefaultControl); }
bool rounding_mode_is_default() { return (_mm_getcsr() & ~kStickyFlags) == kDefaultControl; }

#else

void set_rounding_mode() { std::fesetenv(FE_DFL_ENV); }
bool rounding_mode_is_default() { return std::fegetround() == FE_TONEAREST; }

#endif

}  // namespace swarmpi::kernels
