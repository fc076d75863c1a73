#pragma once
// Collectives by NCCL: for each stage and view a Collective (transport/nccl/collective.hpp), which
// is begun, polled and ended by one thread; ids are made by another, for that may take long. The
// protocol thread leaves notes for them, and waits for neither. What hangs in the library is left
// behind, and then the stage has no further collective at this peer: a kernel may still write to
// its `out`, of which there is one.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/status.hpp"
#include "model/stage_model.hpp"
#include "runtime/collectives.hpp"
#include "runtime/inbox.hpp"
#include "transport/nccl/collective.hpp"

namespace swarmpi {

/// How collectives come to be.
struct CollectiveLibrary {
  std::function<Result<CommunicatorId>()> make_id;  ///< may take long
  std::function<std::unique_ptr<CollectiveEngine>(const CommunicatorPlan&)> make_engine;
  int device = 0;
  CollectiveLimits limits = {};
};
/// NCCL, for the GPU of this process. Where ranks share it NCCL is told that they are on hosts of
/// their own, for of one host it takes each GPU once: the environment's NCCL_HOSTID is set, unless
/// it was. Errors: failed, with why there is none.
Result<CollectiveLibrary> nccl_on(int device, int ranks_on_device);

class NcclCollectives final : public CollectivesSeam {
 public:
  /// What this peer brings to a collective: its complete sums of a step. Nothing: it does not serve
  /// the stage. Asked on the protocol thread.
  using ArraysOf = std::function<std::optional<CollectiveArrays>(StageId, Step)>;

  /// `self`: whom messages name. REQUIRES: results and inbox outlive this.
  NcclCollectives(PeerId self, CollectiveLibrary library, ArraysOf arrays_of,
                  CollectiveResults& results, Inbox& inbox);
  /// end(0).
  ~NcclCollectives() override;
  NcclCollectives(const NcclCollectives&) = delete;
  NcclCollectives& operator=(const NcclCollectives&) = delete;

  void take(MakeCollectiveId action) override;
  void take(MakeCollective action) override;
  void take(EnterCollective action) override;
  void take(AbortCollective action) override;

  /// Ends all; nothing is told from now on. Waits so long; says whether no thread is within the
  /// library then. If one is, the process must end without destroying what it may use.
  bool end(double wait_s);

 private:
  class IdMaker;
  class Keeper;
  std::shared_ptr<IdMaker> ids_;    // its threads have a share each
  std::shared_ptr<Keeper> keeper_;  // likewise
  ArraysOf arrays_of_;
};

}  // namespace swarmpi
