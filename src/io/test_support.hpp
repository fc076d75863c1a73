#pragma once
// For tests of io: a folder to write into, a small disk, rows with awkward values.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "core/check.hpp"
#include "core/records.hpp"
#include "core/status.hpp"
#include "io/format_version.hpp"
#include "io/hdf5/types.hpp"
#include "kernels/backend.hpp"

namespace swarmpi {

/// Whose memory is the host's: tensors of tests may lie anywhere.
inline kernels::Backend& host_memory() {
  static const auto backend = kernels::make_reference_backend({});
  return *backend;
}

/// A folder that is gone after the test. In memory where possible: these tests kill processes, not
/// machines.
class TestFolder {
 public:
  TestFolder() {
    const bool in_memory = ::access("/dev/shm", W_OK | X_OK) == 0;
    std::string name =
        (in_memory ? std::string("/dev/shm") : std::filesystem::temp_directory_path().string()) +
        "/swarmpi-XXXXXX";
    SWARMPI_CHECK(::mkdtemp(name.data()) != nullptr, "tests need a temporary folder");
    path_ = name;
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  /// Names in a folder below (or the folder itself), hidden ones included.
  std::size_t entries(const std::string& below = ".") const {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry :
         std::filesystem::directory_iterator(path_ + "/" + below)) {
      ++count;
    }
    return count;
  }

 private:
  std::string path_;
};

/// While it lives, no file of this process can grow beyond `size_bytes`: writes fail as on a full
/// disk.
class SmallDisk {
 public:
  explicit SmallDisk(rlim_t size_bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small{size_bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

/// While it lives, this process can open so many files more.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t more) {
    const int next = ::dup(0);
    ::close(next);
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few{static_cast<rlim_t>(next) + more, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
};

/// Makes an HDF5 file say that it has this format; nothing, if it is "".
inline void set_format(const std::string& path, const std::string& mark) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  SWARMPI_CHECK(H5Adelete(file, kFormatAttribute) >= 0, "every file that is written has one");
  if (!mark.empty()) {
    const hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
    H5Tset_size(type, H5T_VARIABLE);
    const hid_t attribute =
        H5Acreate2(file, kFormatAttribute, type, space, H5P_DEFAULT, H5P_DEFAULT);
    const char* text = mark.c_str();
    H5Awrite(attribute, type, &text);
    H5Aclose(attribute);
    H5Sclose(space);
    H5Tclose(type);
  }
  H5Fclose(file);
}

/// What the refusal of a file in a later version of its format must say.
inline void expect_names_version(const Status& status, const std::string& path, int version,
                                 const FileFormat& format) {
  EXPECT_EQ(status.code(), ExitStatus::bad_input);
  for (const std::string& words :
       {path + " is " + format.what + " in version " + std::to_string(version) + " of its format",
        (format.oldest == format.newest ? "reads version " + std::to_string(format.newest)
                                        : "reads versions " + std::to_string(format.oldest) +
                                              " to " + std::to_string(format.newest)) +
            ": ",
        std::string("use the SwarMPI that wrote it, or a newer one")}) {
    EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
  }
}

inline StepRow step_row(std::int64_t step) {
  StepRow row;
  row.step = step;
  row.loss = 5.0 / static_cast<double>(step + 1);
  row.grad_norm = step == 0 ? std::numeric_limits<double>::quiet_NaN() : 1.0 / 3.0;
  row.clip = 0.5;
  row.lr = 1e-3;
  row.tokens = 4096;
  row.time_s = 0.25 * static_cast<double>(step);
  row.state_hash = 0xfedcba9876543210u + static_cast<std::uint64_t>(step);
  row.skipped = step == 0;
  row.term = 1;
  return row;
}

inline History sample_history(std::int64_t steps) {
  History history;
  for (std::int64_t step = 0; step <= steps; ++step) {
    history.steps.push_back(step_row(step));
    history.peers.push_back({step, 0, 1, 0.1, 0.2, 0.3, 0.4, 5, 0.6, 7, 8, 9});
    history.throughput.push_back({0.25 * static_cast<double>(step), 1e4, 0.9});
    history.goodput.push_back({step, 0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8});
  }
  history.validation.push_back({steps, 2.5, 1.25});
  history.events.push_back({0.5, 1, EventKind::skip, -1, -1, 0, "overflow in »head.weight«"});
  history.events.push_back({0.75, steps, EventKind::commit, 3, 2, 1.5, ""});
  return history;
}

}  // namespace swarmpi
