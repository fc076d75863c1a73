#pragma once
// What a process says when an exception ends it: on any thread memory or threads may run out.

namespace swarmpi {

/// From now on an exception that nothing catches is named on stderr before the process aborts.
void name_uncaught_exceptions();

}  // namespace swarmpi
