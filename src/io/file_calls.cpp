#include "io/file_calls.hpp"

#include <algorithm>
#include <cstring>

namespace swarmpi {
namespace {

thread_local FileCalls* calls_of_this_thread = nullptr;

}  // namespace

void FileCalls::begin(const std::string& task) {
  const std::lock_guard lock(mutex_);
  calls_of_this_thread = this;
  task_ = task;
  given_up_ = false;
}

void FileCalls::end() {
  const std::lock_guard lock(mutex_);
  calls_of_this_thread = nullptr;
  task_.clear();
  ++calls_;
}

bool FileCalls::given_up() {
  FileCalls* const here = calls_of_this_thread;
  if (here == nullptr) return false;
  const std::lock_guard lock(here->mutex_);
  return here->given_up_;
}

bool FileCalls::copy_unless_given_up(void* to, const void* from, std::size_t count) {
  FileCalls* const here = calls_of_this_thread;
  if (here == nullptr) {
    std::memcpy(to, from, count);
    return true;
  }
  // In pieces: whoever asks how far this is must not wait for memory that was paged out.
  constexpr std::size_t kPieceBytes = 256 * 1024;
  for (std::size_t done = 0; done < count; done += kPieceBytes) {
    const std::lock_guard lock(here->mutex_);
    if (here->given_up_) return false;
    std::memcpy(static_cast<char*>(to) + done, static_cast<const char*>(from) + done,
                std::min(kPieceBytes, count - done));
  }
  return true;
}

FileCalls::Progress FileCalls::progress() const {
  const std::lock_guard lock(mutex_);
  if (task_.empty()) return {calls_, "", false};
  return {calls_, call_.empty() ? task_ : call_, given_up_};
}

void FileCalls::give_up() {
  const std::lock_guard lock(mutex_);
  if (!task_.empty()) given_up_ = true;
}

FileCall::FileCall(const char* doing, const std::string& path) {
  FileCalls* const here = calls_of_this_thread;
  if (here == nullptr) return;
  const std::lock_guard lock(here->mutex_);
  refused_ = here->given_up_;
  here->call_ = std::string(doing) + " " + path;
}

FileCall::~FileCall() {
  FileCalls* const here = calls_of_this_thread;
  if (here == nullptr) return;
  const std::lock_guard lock(here->mutex_);
  here->call_.clear();
  ++here->calls_;
}

}  // namespace swarmpi
