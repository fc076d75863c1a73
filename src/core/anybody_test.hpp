#pragma once
// For tests of what is forbidden to a user: root may read and write everything.

#include <unistd.h>

namespace swarmpi {

/// While it lives, this process may do only what any user may: root gives up its rights for as
/// long. A folder for the test is made while it lives, since it must belong to that user.
class Anybody {
 public:
  Anybody() {
    if (::geteuid() == 0) became_ = ::seteuid(kNobody) == 0;
  }
  ~Anybody() {
    if (became_) (void)!::seteuid(0);
  }
  Anybody(const Anybody&) = delete;
  Anybody& operator=(const Anybody&) = delete;

  /// False where root cannot become another user (a name space that has no other).
  bool acts_as_anybody() const { return ::geteuid() != 0; }

 private:
  static constexpr uid_t kNobody = 65534;
  bool became_ = false;
};

}  // namespace swarmpi
