#include "io/checkpoint/leader_file.hpp"

#include <cstdint>
#include <vector>

#include "io/hdf5/input.hpp"
#include "io/hdf5/output.hpp"
#include "io/row_fields.hpp"
#include "io/tables.hpp"

namespace swarmpi {

namespace {

constexpr char kHistory[] = "/history";
constexpr char kNumbers[] = "/state/numbers";
constexpr char kHash[] = "/state/hash";
constexpr char kTime[] = "/state/time_s";
constexpr char kVersions[] = "/state/exponent_versions";

std::string exponents_name(std::size_t version) {
  return "/state/exponents_" + std::to_string(version);
}

ResumeState read_state(Hdf5Input& file) {
  ResumeState state;
  const auto numbers = file.column<std::int64_t>(kNumbers);
  const auto hash = file.column<std::uint64_t>(kHash);
  const auto time_s = file.column<double>(kTime);
  const auto versions = file.column<std::int64_t>(kVersions);
  if (numbers.size() != 4 || hash.size() != 1 || time_s.size() != 1 || versions.size() != 1) {
    file.refuse("its state is incomplete");
    return state;
  }
  state.step = numbers[0];
  state.applied_updates = numbers[1];
  state.skips_in_a_row = numbers[2];
  state.incarnation = numbers[3];
  state.state_hash = hash[0];
  state.time_s = time_s[0];
  for (std::int64_t i = 0; i < versions[0] && file.status().ok(); ++i) {
    state.exponents.push_back(
        file.column<std::int16_t>(exponents_name(static_cast<std::size_t>(i))));
  }
  return state;
}

}  // namespace

Result<StoredFile> write_leader_file(const std::string& checkpoint, const std::string& name,
                                     const CheckpointHead& head) {
  Hdf5Output file(checkpoint + "/" + name, kLeaderFileFormat);
  for (const auto& field : kOriginFields) {
    if (field.in_checkpoint) file.text_attribute(field.name, head.*field.member);
  }
  const ResumeState& state = head.state;
  file.column(kNumbers, std::vector<std::int64_t>{state.step, state.applied_updates,
                                                  state.skips_in_a_row, state.incarnation});
  file.column(kHash, std::vector<std::uint64_t>{state.state_hash});
  file.column(kTime, std::vector<double>{state.time_s});
  file.column(kVersions,
              std::vector<std::int64_t>{static_cast<std::int64_t>(state.exponents.size())});
  for (std::size_t i = 0; i < state.exponents.size(); ++i) {
    file.column(exponents_name(i), state.exponents[i]);
  }
  FileHash hash;
  if (const Status written = file.finish(&hash); !written.ok()) return written;
  return StoredFile{name, hash.hash, hash.size_bytes};
}

Result<LeaderFile> read_leader_file(const std::string& path) {
  Hdf5Input file(path, kLeaderFileFormat);
  LeaderFile leader;
  for (const auto& field : kOriginFields) {
    if (field.in_checkpoint) leader.head.*field.member = file.text_attribute(field.name);
  }
  leader.head.state = read_state(file);
  // In version 1 the run's rows are here.
  if (file.has(kHistory)) leader.history = read_tables(file, kHistory, Columns::all);
  if (!file.status().ok()) return file.status();
  return leader;
}

}  // namespace swarmpi
