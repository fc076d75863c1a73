#pragma once

#include <string>

namespace swarmpi {

/// Version of the HDF5 library that is linked, e.g. "1.10.8".
std::string hdf5_version();

}  // namespace swarmpi
