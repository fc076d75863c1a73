#pragma once

#include "kernels/backend.hpp"

namespace swarmpi::kernels::reference {

void group_max_forward(Matrix y, ConstMatrix x);
void group_max_backward(Matrix dx, ConstMatrix dy, ConstMatrix x);

}  // namespace swarmpi::kernels::reference
