#include "io/scratch_file.hpp"

#include <fcntl.h>

#include <cerrno>

namespace swarmpi {

ScratchFile::ScratchFile(const std::string& path) {
  if (path.empty()) return;
  // Where hosts have equal names, as containers may, a killed process may have left this one.
  constexpr int kTries = 100;
  for (int tries = 0; tries < kTries && !file_.valid(); ++tries) {
    name_.emplace(path, AbandonedFiles::stay);
    file_ = Descriptor::open(name_->name(), O_RDWR | O_CREAT | O_EXCL);
    if (!file_.valid()) name_->forget();
    if (!file_.valid() && errno != EEXIST) return;
  }
}

bool ScratchFile::put(std::string_view bytes, Slot& slot) {
  if (!file_.valid()) return false;
  Slot to = slot;
  if (to.offset < 0 || to.capacity < bytes.size()) to = {end_, bytes.size(), 0};
  to.size = bytes.size();
  if (write_all_at(file_, bytes, to.offset) != 0) return false;
  if (to.offset == end_) end_ += static_cast<std::int64_t>(to.capacity);
  slot = to;
  return true;
}

bool ScratchFile::get(const Slot& slot, std::string& bytes) {
  bytes.resize(slot.size);
  if (read_at(file_, bytes.data(), slot.size, slot.offset) == static_cast<std::int64_t>(slot.size))
    return true;
  failed_ = true;
  return false;
}

std::vector<std::string> ScratchFile::all_of(const std::string& path) {
  return temporary_files(path);
}

}  // namespace swarmpi
