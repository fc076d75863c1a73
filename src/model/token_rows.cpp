#include "model/token_rows.hpp"

#include <algorithm>

namespace swarmpi {

TokenRows::TokenRows(std::int64_t tokens, std::int64_t vocabulary)
    : place_of_(static_cast<std::size_t>(vocabulary), -1) {
  rows_.reserve(static_cast<std::size_t>(std::min(tokens, vocabulary)));
  places_.reserve(static_cast<std::size_t>(tokens));
}

void TokenRows::read(std::span<const std::int32_t> tokens) {
  for (const std::int32_t row : rows_) place_of_[static_cast<std::size_t>(row)] = -1;
  rows_.clear();
  places_.clear();
  for (const std::int32_t token : tokens) {
    std::int32_t& place = place_of_[static_cast<std::size_t>(token)];
    if (place < 0) {
      place = static_cast<std::int32_t>(rows_.size());
      rows_.push_back(token);
    }
    places_.push_back(place);
  }
}

}  // namespace swarmpi
