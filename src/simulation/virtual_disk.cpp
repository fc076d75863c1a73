#include "simulation/virtual_disk.hpp"

#include "protocol/messages/ending.hpp"
#include "protocol/messages/record_port.hpp"

namespace swarmpi {

void VirtualDisk::append(PeerId writer, Term term, const StoreRecord& record) {
  if (sink != nullptr) sink->stored(term, record);
  if (keeps_journal) {
    journal.push_back({writer, term, std::make_shared<const StoreRecord>(record)});
  }
}

bool VirtualDisk::complete() const { return ended && ended->code == ExitStatus::good; }

}  // namespace swarmpi
