#include "protocol/rules.hpp"

#ifdef SWARMPI_MUTATIONS
namespace swarmpi {
namespace {

std::optional<Rule> broken;

}  // namespace

bool holds(Rule rule) { return rule != broken; }

void break_rule(std::optional<Rule> rule) { broken = rule; }

}  // namespace swarmpi
#endif
