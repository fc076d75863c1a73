#pragma once

#include "core/status.hpp"

namespace swarmpi {

/// Flushes stdout. What could not be written (no room) turns good into bad_input, with a message; a
/// reader that had enough (`| head`) is no error.
ExitStatus close_standard_output(ExitStatus status);

}  // namespace swarmpi
