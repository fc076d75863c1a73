#include "transport/wire/archive.hpp"

#include "core/check.hpp"

namespace swarmpi::wire {

void Writer::payload(const PayloadRef& payload) {
  number<std::uint8_t>(payload ? 1 : 0);
  if (!payload) return;
  SWARMPI_CHECK(!payload_, "a message carries at most one payload");
  payload_ = payload;
}

void Reader::payload(PayloadRef& payload) {
  std::uint8_t present = 0;
  number(present);
  if (present > 1) refuse("a payload is neither there nor not");
  if (present == 1 && !payload_) refuse("its payload is missing");
  payload = present == 1 ? std::move(payload_) : nullptr;
  payload_ = present == 1 ? nullptr : std::move(payload_);
}

const char* Reader::fault() const {
  if (fault_ != nullptr) return fault_;
  if (remaining() > 0) return "it goes on after its end";
  return payload_ ? "it comes with a payload that it does not name" : nullptr;
}

}  // namespace swarmpi::wire
