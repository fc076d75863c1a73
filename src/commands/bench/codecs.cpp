#include "commands/bench/codecs.hpp"

#include <fmt/core.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/machine.hpp"
#include "core/text.hpp"
#include "core/version.hpp"
#include "kernels/codecs.hpp"
#include "model/boundary.hpp"
#include "model/make_backend.hpp"

namespace swarmpi {
namespace {

using Json = nlohmann::ordered_json;

// Beyond the caches of the processors at hand.
constexpr std::int64_t kElementsInMemory = std::int64_t{1} << 26;

// A matrix, its code, and what becomes of it.
struct CodedMatrix {
  CodedMatrix(kernels::Backend& b, std::int64_t rows, std::int64_t columns,
              const kernels::Coding& its_coding)
      : backend(b),
        coding(its_coding),
        x_memory(b.allocate(bytes_of(rows, columns))),
        y_memory(b.allocate(bytes_of(rows, columns))),
        x(x_memory->as<float>(), rows, columns),
        y(y_memory->as<float>(), rows, columns),
        code(kernels::coded_bytes(coding.codec, rows * columns)) {
    fill_random(backend, x, 1, 1);
  }

  static std::size_t bytes_of(std::int64_t rows, std::int64_t columns) {
    return static_cast<std::size_t>(rows * columns) * sizeof(float);
  }
  void encode() { backend.encode(code.data(), x, coding); }
  void decode() { backend.decode(y, code.data(), coding); }
  std::vector<float> values(const kernels::Matrix& matrix) const {
    std::vector<float> dense(static_cast<std::size_t>(matrix.rows * matrix.columns));
    backend.copy_out(dense.data(), matrix);
    backend.finish();
    return dense;
  }

  kernels::Backend& backend;
  kernels::Coding coding;
  std::unique_ptr<kernels::Memory> x_memory, y_memory;
  kernels::Matrix x, y;
  std::vector<std::byte> code;
};

bool equal_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Of the error, relative to the values, both as root mean squares.
double relative_rms_error(const CodedMatrix& m) {
  const std::vector<float> before = m.values(m.x), after = m.values(m.y);
  double error = 0, size = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double x = before[i], difference = after[i] - x;
    error += difference * difference;
    size += x * x;
  }
  return std::sqrt(error / size);
}

struct Rates {
  double encode_bytes_per_s = 0, decode_bytes_per_s = 0;  // of fp32
};

Rates rates_of(CodedMatrix& matrix, std::int64_t threads) {
  const auto bytes = static_cast<double>(CodedMatrix::bytes_of(matrix.x.rows, matrix.x.columns));
  return {bytes / time_calls(threads, &matrix.backend, [&] { matrix.encode(); }).median,
          bytes / time_calls(threads, &matrix.backend, [&] { matrix.decode(); }).median};
}

struct CodecFigures {
  std::string name;
  bool valid = false;
  double times_fewer_bytes = 0;
  double error = 0;
  Rates boundary, memory;
};

CodecFigures measure_codec(Codec codec, const Config& deck, kernels::Backend& native,
                           kernels::Backend& reference) {
  Config config = deck;
  config.swarm.compress_activations = codec;
  const kernels::Coding coding = *activation_coding(config.swarm);
  const std::int64_t rows = config.train.microbatch_size * config.model.context;
  const std::int64_t columns = config.swarm.boundary_width(config.model.width);
  CodedMatrix fast(native, rows, columns, coding), exact(reference, rows, columns, coding);
  for (CodedMatrix* matrix : {&fast, &exact}) {
    matrix->encode();
    matrix->backend.finish();
    matrix->decode();
  }
  CodecFigures figures;
  figures.name = name_of(codec);
  figures.valid = fast.code == exact.code && equal_bits(fast.values(fast.y), exact.values(exact.y));
  figures.times_fewer_bytes = static_cast<double>(CodedMatrix::bytes_of(rows, columns)) /
                              static_cast<double>(fast.code.size());
  figures.error = relative_rms_error(fast);
  figures.boundary = rates_of(fast, config.compute.threads);
  CodedMatrix large(native, kElementsInMemory / 4096, 4096, coding);
  figures.memory = rates_of(large, config.compute.threads);
  return figures;
}

void print_table(const std::vector<CodecFigures>& all, std::ostream& out) {
  out << fmt::format("{:>46}{:>20}\n", "one boundary", "from memory")
      << fmt::format("{:11} {:>11} {:>10}   {:>8} {:>8}   {:>8} {:>8}\n", "codec", "fewer bytes",
                     "rms error", "encode", "decode", "encode", "decode");
  const auto rate = [](double bytes_per_s) { return fmt::format("{:.1f}", 1e-9 * bytes_per_s); };
  for (const CodecFigures& f : all) {
    out << fmt::format("{:11} {:>10.2f}x {:>10.1e}   {:>8} {:>8}   {:>8} {:>8}{}\n", f.name,
                       f.times_fewer_bytes, f.error, rate(f.boundary.encode_bytes_per_s),
                       rate(f.boundary.decode_bytes_per_s), rate(f.memory.encode_bytes_per_s),
                       rate(f.memory.decode_bytes_per_s), f.valid ? "" : "  INVALID");
  }
  out << "rates in GB/s of fp32; errors of numbers spread evenly over (-1, 1)\n";
}

Json json_of(const CodecFigures& f) {
  return {{"name", f.name},
          {"times_fewer_bytes", f.times_fewer_bytes},
          {"relative_rms_error", f.error},
          {"encode_bytes_per_s", f.boundary.encode_bytes_per_s},
          {"decode_bytes_per_s", f.boundary.decode_bytes_per_s},
          {"encode_bytes_per_s_from_memory", f.memory.encode_bytes_per_s},
          {"decode_bytes_per_s_from_memory", f.memory.decode_bytes_per_s},
          {"valid", f.valid}};
}

}  // namespace

Status run_bench_codecs(const BenchOptions& options, std::ostream& out) {
  const Result<Config> checked = bench_config(options.overrides);
  if (!checked.ok()) return checked.status();
  Config config = checked.value();
  const auto native = make_backend(config);
  if (!native.ok()) return native.status();
  config.compute.kernels = Kernels::reference;
  const auto reference = make_backend(config);
  if (!reference.ok()) return reference.status();
  native.value()->prepare_thread();

  std::vector<CodecFigures> all;
  std::string invalid;
  for (const Codec codec : {Codec::fp16, Codec::bf16, Codec::uniform8, Codec::blockwise8}) {
    all.push_back(measure_codec(codec, checked.value(), *native.value(), *reference.value()));
    if (!all.back().valid) invalid += (invalid.empty() ? "" : ", ") + all.back().name;
  }
  if (options.json) {
    std::vector<Json> codecs;
    codecs.reserve(all.size());
    for (const CodecFigures& figures : all) codecs.push_back(json_of(figures));
    out << Json{{"bench", "codecs"},
                {"version", version_line()},
                {"cpu", this_machine().cpu},
                {"shape", shape_line(checked.value())},
                {"threads", checked.value().compute.threads},
                {"codecs", codecs},
                {"valid", invalid.empty()}}
        << "\n";
  } else {
    out << "codecs: " << native.value()->name() << " against " << reference.value()->name() << "; "
        << shape_line(checked.value()) << "\n"
        << this_machine().cpu << "\n";
    print_table(all, out);
    out << (invalid.empty() ? "VALID: every codec gives the bits of its reference\n"
                            : "INVALID: " + invalid + "\n");
  }
  if (invalid.empty()) return {};
  return Status::failed("bench codecs: bits differ from the reference's: " + invalid);
}

}  // namespace swarmpi
