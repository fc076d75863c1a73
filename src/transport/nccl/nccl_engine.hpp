#pragma once
// The CollectiveEngine that is NCCL, on a stream of its own.

#include <memory>

#include "transport/nccl/engine.hpp"
#include "transport/nccl/library.hpp"

namespace swarmpi {

/// Null where this program was built without NCCL, and no library was loaded.
std::unique_ptr<CollectiveEngine> make_nccl_engine(const NcclLibrary& library);

}  // namespace swarmpi
