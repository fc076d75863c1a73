#include "io/checkpoint/manifest.hpp"

#include <fmt/core.h>

#include <cinttypes>
#include <cstdio>
#include <optional>
#include <sstream>

#include "core/hash.hpp"
#include "io/format_version.hpp"

namespace swarmpi {

namespace {

constexpr char kEnd[] = "end ";

std::string file_line(const char* kind, const StoredFile& file) {
  return fmt::format("{} {} {} {}\n", kind, file.name, hex(file.hash), file.size_bytes);
}

bool parse_file(std::istringstream& words, StoredFile& file) {
  std::string hash;
  words >> file.name >> hash >> file.size_bytes;
  // A name with a folder in it could lead anywhere.
  return !words.fail() && hash.size() == 16 && file.name.find('/') == std::string::npos &&
         std::sscanf(hash.c_str(), "%16" SCNx64, &file.hash) == 1;
}

/// What the first line says of its version, if it is of a manifest.
std::optional<std::string> version_of(const std::string& text) {
  const std::string first = text.substr(0, text.find('\n'));
  const std::string name = kManifestFormat.name;
  if (first.rfind(name, 0) != 0) return std::nullopt;
  return first.substr(name.size());
}

}  // namespace

std::string manifest_text(const Manifest& manifest) {
  std::string text = kManifestFormat.mark() + "\nstep " + std::to_string(manifest.step) + "\n";
  text += file_line("leader", manifest.leader);
  for (const StoredFile& file : manifest.stages) text += file_line("stage", file);
  for (const StoredFile& file : manifest.rows) text += file_line("rows", file);
  return text + kEnd + hex(hash_bytes(text.data(), text.size())) + "\n";
}

Status check_manifest_version(const std::string& text, const std::string& path) {
  const std::optional<std::string> version = version_of(text);
  return version ? check_version(kManifestFormat, *version, path) : Status();
}

Result<Manifest> parse_manifest(const std::string& text, const std::string& path) {
  const auto refused = [&path](const std::string& why) {
    return Status::bad_input(path + " is not " + kManifestFormat.what + ": " + why);
  };
  const std::optional<std::string> version = version_of(text);
  if (!version) return refused("it was not written by SwarMPI, or is cut off");
  if (Status read = check_manifest_version(text, path); !read.ok()) return read;
  const std::size_t end = text.rfind(std::string("\n") + kEnd);
  if (end == std::string::npos) return refused("it is cut off");
  const std::string content = text.substr(0, end + 1);
  if (text.substr(end + 1) != kEnd + hex(hash_bytes(content.data(), content.size())) + "\n") {
    return refused("it is cut off or was changed");
  }
  Manifest manifest;
  if (*version == "1") manifest.trailer_bytes = 0;
  std::istringstream lines(content.substr(text.find('\n') + 1));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string key;
    words >> key;
    bool good = false;
    if (key == "step") good = static_cast<bool>(words >> manifest.step);
    if (key == "leader") good = parse_file(words, manifest.leader);
    if (key == "rows") good = parse_file(words, manifest.rows.emplace_back());
    if (key == "stage") good = parse_file(words, manifest.stages.emplace_back());
    if (!good) return refused("unknown line: " + line);
  }
  if (manifest.step < 0 || manifest.leader.name.empty()) return refused("it is incomplete");
  return manifest;
}

}  // namespace swarmpi
