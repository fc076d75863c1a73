#include "run/refusal.hpp"

#include <memory>

#include "run/muster.hpp"

namespace swarmpi {

ExitStatus refuse_to_start(const Launcher& launcher, const Status& status, std::ostream& error) {
  Status told = status;
  bool speaks = true;
  if (launcher.ranks > 1) {
    const Result<std::unique_ptr<MpiSession>> session = MpiSession::start();
    if (session.ok()) {
      told = all_agree(*session.value(), status);
      speaks = session.value()->rank() == 0;
    }
  }
  if (speaks) error << "swarmpi: " << told.message() << std::endl;
  return told.code();
}

}  // namespace swarmpi
