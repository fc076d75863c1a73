#pragma once
// From logits to the next token.

#include <cstdint>
#include <span>

namespace swarmpi {

/// Draws from softmax(logits / temperature) by the number `uniform` in (0, 1]; at temperature 0 the
/// likeliest token, the first of equals.
std::int32_t next_token(std::span<const float> logits, double temperature, double uniform);

}  // namespace swarmpi
