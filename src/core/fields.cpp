#include "core/fields.hpp"

namespace swarmpi {

std::optional<std::string> Fields::text() {
  std::size_t size = 0;
  const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), size);
  const auto digits = static_cast<std::size_t>(end - rest_.data());
  if (error != std::errc() || digits >= rest_.size() || rest_[digits] != ':') return std::nullopt;
  rest_.remove_prefix(digits + 1);
  if (rest_.size() < size) return std::nullopt;
  std::string field(rest_.substr(0, size));
  rest_.remove_prefix(size);
  return field;
}

}  // namespace swarmpi
