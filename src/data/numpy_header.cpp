#include "data/numpy_header.hpp"

#include <fmt/core.h>

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <system_error>

namespace swarmpi {
namespace {

/// A value of the header's dictionary, up to the character that ends it; "" if it is missing.
std::string_view value_of(std::string_view header, std::string_view key, char last) {
  const std::string name = fmt::format("'{}': ", key);
  const std::size_t at = header.find(name);
  if (at == std::string_view::npos) return "";
  const std::string_view rest = header.substr(at + name.size());
  const std::size_t end = rest.find(last, 1);
  return end == std::string_view::npos ? "" : rest.substr(0, end + 1);
}

/// N of the shape "(N,)"; nothing for other shapes.
std::optional<std::uint64_t> length_of(std::string_view shape) {
  if (!shape.ends_with(",)")) return std::nullopt;
  const std::string_view digits = shape.substr(1, shape.size() - 3);
  std::uint64_t length = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), length);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return length;
}

std::optional<DataFormat> format_of(std::string_view type) {
  if (type == "'<u2'") return DataFormat::tokens_u16;
  if (type == "'<u4'" || type == "'<i4'") return DataFormat::tokens_u32;
  return std::nullopt;
}

Status check_type(std::string_view type, DataFormat format) {
  const std::optional<DataFormat> own = format_of(type);
  if (own == format) return {};
  const std::string remedy =
      own ? fmt::format("set data.format = \"{}\"", name_of(*own))
          : fmt::format("numpy.save(\"NEW.npy\", numpy.load(\"OLD.npy\").astype(\"{}\"))",
                        format == DataFormat::tokens_u16 ? "<u2" : "<u4");
  return Status::bad_input(fmt::format("is a NumPy array of type {}, but data.format is \"{}\": {}",
                                       type, name_of(format), remedy));
}

Status damaged() { return Status::bad_input("is a NumPy array (.npy) with a damaged header"); }

}  // namespace

bool has_numpy_header(std::string_view file) { return file.starts_with("\x93NUMPY"); }

Result<std::size_t> numpy_header_bytes(std::string_view file, DataFormat format) {
  // The magic string, two bytes of version, the dictionary's length (2 bytes in version 1, else 4).
  const auto byte = [&](std::size_t at) {
    return std::size_t{static_cast<unsigned char>(file[at])};
  };
  if (file.size() < 12) return damaged();
  const std::size_t version = byte(6), begin = version == 1 ? 10 : 12;
  if (version < 1 || version > 3) {
    return Status::bad_input(
        fmt::format("has version {} of NumPy's header, only 1 to 3 are known", version));
  }
  std::size_t length = byte(8) | byte(9) << 8;
  if (version > 1) length |= byte(10) << 16 | byte(11) << 24;
  if (file.size() - begin < length) return damaged();
  const std::string_view header = file.substr(begin, length);
  const std::string_view type = value_of(header, "descr", '\'');
  const std::string_view shape = value_of(header, "shape", ')');
  if (type.empty() || shape.empty()) return damaged();
  if (Status status = check_type(type, format); !status.ok()) return status;
  const std::optional<std::uint64_t> said = length_of(shape);
  if (!said) {
    return Status::bad_input(
        fmt::format("is a NumPy array of shape {}, but tokens have one dimension: "
                    "numpy.save(\"NEW.npy\", numpy.load(\"OLD.npy\").ravel())",
                    shape));
  }
  const std::size_t size = format == DataFormat::tokens_u16 ? 2 : 4;
  const std::size_t rest = file.size() - begin - length;
  if (rest % size == 0 && rest / size == *said) return begin + length;
  return Status::bad_input(
      fmt::format("its NumPy header says {} tokens of {} bytes, but {} bytes "
                  "follow",
                  *said, size, rest));
}

}  // namespace swarmpi
