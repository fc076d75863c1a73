#include "io/scratch_file.hpp"

#include <fcntl.h>

namespace swarmpi {
namespace {

std::string path_in(const std::string& folder) { return folder + "/rows"; }

}  // namespace

ScratchFile::ScratchFile(const std::string& folder) {
  if (folder.empty()) return;
  name_.emplace(path_in(folder));
  file_ = Descriptor::open(name_->name(), O_RDWR | O_CREAT | O_EXCL);
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

std::vector<std::string> ScratchFile::all_in(const std::string& folder) {
  return temporary_files(path_in(folder));
}

}  // namespace swarmpi
