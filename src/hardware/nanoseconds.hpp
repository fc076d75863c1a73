#pragma once
// Time as models count it. A duration is computed in double precision and rounded once.

#include "core/virtual_time.hpp"
