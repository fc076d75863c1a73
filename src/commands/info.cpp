#include "commands/info.hpp"

#include <cstdio>
#include <filesystem>

#include "commands/named_run.hpp"
#include "core/machine.hpp"
#include "core/text.hpp"
#include "core/version.hpp"
#include "io/hdf5/handle.hpp"
#include "kernels/backend.hpp"
#include "kernels/libraries.hpp"
#include "report/run_table.hpp"
#include "report/summary.hpp"
#include "report/terminal.hpp"
#include "transport/mpi/info.hpp"

namespace swarmpi {
namespace {

std::string gpu_text() {
  const std::string problem = kernels::cuda_problem();
  return problem.empty() ? kernels::cuda_description() : "none: " + problem;
}

void print_build(std::ostream& out) {
  const BuildInfo& build = build_info();
  out << "build\n"
      << "  version       " << build.version << ", commit " << build.commit << "\n"
      << "  compiler      " << build.compiler << ", " << build.build_type << "\n"
      << "  flags         " << build.flags << "\n"
      << "  native for    -march=" << build.architecture << "\n"
      << "  kernels       " << kernels::native_libraries() << "\n"
      << "  HDF5          " << hdf5_version() << "\n"
      << "  GPU           " << gpu_text() << "\n";
}

void print_machine(std::ostream& out) {
  const Machine machine = this_machine();
  out << "machine\n"
      << "  CPU           " << machine.cpu << "\n  flags         ";
  for (const std::string& flag : machine.flags) out << flag << ' ';
  out << "\n  cores         " << machine.cores << " usable by this process\n"
      << "  memory        " << readable_bytes(static_cast<double>(machine.memory_bytes)) << "\n"
      << "  bf16          " << bf16_advice(machine) << "\n";
}

void print_mpi(std::ostream& out) {
  const MpiInfo mpi = mpi_info();
  out << "MPI\n"
      << "  library       " << mpi.library << "\n"
      << "  lost ranks    " << mpi.survives << "\n"
      << "  idle ranks    " << mpi.idle << "\n";
}

// A run file that stands alone in its folder is named by that.
std::string short_name(const std::string& path) {
  const std::filesystem::path name(path);
  const bool by_folder = name.filename() == "RUN.h5" && name.has_parent_path();
  return by_folder ? name.parent_path().string() : path;
}

Result<std::string> summary_of(const std::string& path) {
  Result<NamedRun> run = NamedRun::open(path);
  if (!run.ok()) return run.status();
  std::string text = run.value().about() + run_summary(run.value().head(), run.value().rows());
  if (!run.value().status().ok()) return run.value().status();
  return text;
}

}  // namespace

Result<std::string> table_of(const std::vector<std::string>& runs, std::size_t columns) {
  std::vector<RunFigures> figures;
  for (const std::string& path : runs) {
    Result<NamedRun> run = NamedRun::open(path);
    if (!run.ok()) return run.status();
    figures.push_back(figures_of(short_name(path), run.value().head(), run.value().rows()));
    if (!run.value().has_peers()) figures.back().peers.reset();
    if (!run.value().status().ok()) return run.value().status();
  }
  return run_table(figures, columns);
}

Status run_info(const std::vector<std::string>& runs, std::ostream& out) {
  if (runs.empty()) {
    print_build(out);
    print_machine(out);
    print_mpi(out);
    return {};
  }
  std::vector<std::string> all;
  for (const std::string& path : runs) {
    const std::vector<std::string> below = runs_below(path);
    all.insert(all.end(), below.begin(), below.end());
  }
  const std::size_t columns = unbroken_columns(stdout);
  const Result<std::string> text =
      all.size() == 1 ? summary_of(all.front()) : table_of(all, columns);
  if (!text.ok()) return text.status();
  out << folded(text.value(), columns, kSummaryIndent);
  return {};
}

}  // namespace swarmpi
