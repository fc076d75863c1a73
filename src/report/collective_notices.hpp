#pragma once
// From when on a stage's replicas add up by a collective, and that one was ended while it added up,
// is said on stderr: the run goes on in either case, to the same bits, and no row says it.

#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "protocol/membership/view.hpp"
#include "protocol/observer.hpp"

namespace swarmpi {

/// Of the process of one peer. The first replica says that a collective adds up, once in each view;
/// the first two say that it came to its end in the middle: the death that ended it may have been
/// the first one's.
class CollectiveNotices final : public Observer {
 public:
  /// `before`: is called before anything is said, so that a line which somebody else has begun can
  /// be ended.
  explicit CollectiveNotices(std::FILE* out = stderr, std::function<void()> before = {})
      : out_(out), before_(std::move(before)) {}

  void happened(double now_s, PeerId peer, const Event& event) override;
  void asked(double now_s, PeerId peer, const Action& action) override;

 private:
  struct Sums {
    Step step;
    SealId seal;
    double entered_s = 0;
  };
  /// The collective of a stage in a view.
  struct Made {
    ViewNumber view;
    std::int64_t place = 0;
    std::int64_t members = 0;
    bool told = false;
    std::optional<Sums> sums = {};  // that it adds up
  };

  void enters(double now_s, PeerId self, const EnterCollective& enter);
  void ends(double now_s, PeerId self, StageId stage, const ViewNumber& view,
            const std::string& why);
  /// Null: of another view.
  Made* find(StageId stage, const ViewNumber& view);
  void say(PeerId self, StageId stage, const std::string& what);

  std::FILE* out_;
  std::function<void()> before_;
  std::map<StageId, Made> made_;
};

}  // namespace swarmpi
