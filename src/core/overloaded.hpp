#pragma once
// One lambda per alternative for std::visit.

namespace swarmpi {

template <class... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};
template <class... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;

}  // namespace swarmpi
