#include "kernels/native/parallel.hpp"

#include <Kokkos_Core.hpp>

namespace swarmpi::kernels::native {

namespace {

using Space = Kokkos::DefaultHostExecutionSpace;

/// Kokkos is started without a command line (nothing is read or printed) and ended with the
/// process.
class KokkosRuntime {
 public:
  explicit KokkosRuntime(int threads) {
    if (!Kokkos::is_initialized()) start(threads);
    kokkos_threads_ = static_cast<int>(Space().concurrency());
    workers_ = kokkos_threads_ > 1 ? kokkos_threads_ : threads;
  }
  ~KokkosRuntime() {
    if (owner_ && Kokkos::is_initialized()) Kokkos::finalize();
  }
  int workers() const { return workers_; }
  /// Whether the loops are Kokkos'. Where it was built without threads, as Debian's is, they are
  /// OpenMP's, whose threads oneDNN uses already.
  bool has_threads() const { return kokkos_threads_ > 1; }
  KokkosRuntime(const KokkosRuntime&) = delete;
  KokkosRuntime& operator=(const KokkosRuntime&) = delete;

 private:
  void start(int threads) {
#if KOKKOS_VERSION >= 30700
    Kokkos::InitializationSettings settings;
    settings.set_num_threads(threads);
    settings.set_disable_warnings(true);
#else
    Kokkos::InitArguments settings;
    settings.num_threads = threads;
    settings.disable_warnings = true;
#endif
    Kokkos::initialize(settings);
    owner_ = true;
  }

  bool owner_ = false;
  int kokkos_threads_ = 1;
  int workers_ = 1;
};

const KokkosRuntime& runtime(int threads) {
  static const KokkosRuntime started(threads);
  return started;
}

}  // namespace

int start_workers(int threads) { return runtime(threads).workers(); }

int worker_count() { return runtime(1).workers(); }

void run_items(std::int64_t count, ItemBody body, const void* context) {
  const std::int64_t workers = count < worker_count() ? count : worker_count();
  if (workers <= 1) {
    for (std::int64_t item = 0; item < count; ++item) body(context, item, 0);
    return;
  }
  if (!runtime(1).has_threads()) {
    const int threads = static_cast<int>(workers);
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (std::int64_t worker = 0; worker < workers; ++worker) {
      for (std::int64_t item = worker; item < count; item += workers) {
        body(context, item, static_cast<int>(worker));
      }
    }
    return;
  }
  Kokkos::parallel_for("swarmpi", Kokkos::RangePolicy<Space>(0, workers),
                       [=](const std::int64_t worker) {
                         for (std::int64_t item = worker; item < count; item += workers) {
                           body(context, item, static_cast<int>(worker));
                         }
                       });
  Kokkos::fence();
}

}  // namespace swarmpi::kernels::native
