#include "commands/info.hpp"

#include <filesystem>
#include <utility>

#include "core/machine.hpp"
#include "core/text.hpp"
#include "core/version.hpp"
#include "io/hdf5/handle.hpp"
#include "io/journal/journal.hpp"
#include "io/run_file.hpp"
#include "kernels/backend.hpp"
#include "kernels/libraries.hpp"
#include "report/summary.hpp"
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

// A journal has rows that its run file, which is published now and then, does not have yet.
Result<std::string> journal_summary(const std::string& journal) {
  if (highest_term(journal) == 0) {
    return Status::bad_input(
        journal + " is a folder, but not the journal of a run: name RUN.h5 or RUN.h5.journal");
  }
  Result<JournalContent> content = read_journal(journal);
  if (!content.ok()) return content.status();
  const bool complete = content.value().complete;
  return run_summary(RunFile{{content.value().last.origin, complete, complete ? "valid" : "open"},
                             std::move(content.value().history)});
}

}  // namespace

Status run_info(const std::string& run, std::ostream& out) {
  if (run.empty()) {
    print_build(out);
    print_machine(out);
    print_mpi(out);
    return {};
  }
  const Result<std::string> summary =
      std::filesystem::is_directory(run) ? journal_summary(run) : run_file_summary(run);
  if (!summary.ok()) return summary.status();
  out << summary.value();
  return {};
}

}  // namespace swarmpi
