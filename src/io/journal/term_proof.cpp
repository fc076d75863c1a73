#include "io/journal/term_proof.hpp"

#include <fcntl.h>
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>
#include <vector>

#include "io/descriptor.hpp"
#include "io/files.hpp"
#include "io/journal/journal.hpp"

namespace swarmpi {
namespace {

std::string over_mark_path(const std::string& folder, std::int64_t term) {
  return fmt::format("{}/{}{}", folder, kOverPrefix, term);
}

constexpr std::string_view kBefore = "term ";

using Later = std::optional<std::int64_t>;

/// The later term that a mark names; nothing in a file that a leader has created to prove itself.
Result<Later> read_mark(const std::string& path) {
  const Result<std::string> text = read_file(path);
  if (!text.ok()) return Status::stopped(text.status().message());
  if (text.value().rfind(kBefore, 0) != 0) return Later();
  std::int64_t term = 0;
  const char* const begin = text.value().data() + kBefore.size();
  std::from_chars(begin, text.value().data() + text.value().size(), term);
  return Later(term);
}

bool is_marked(const std::string& path) {
  const Result<Later> mark = read_mark(path);
  return mark.ok() && mark.value();
}

// A start whose first term is far above all others leaves numbers out, which nobody will create.
constexpr std::int64_t kMostWithoutFiles = 64;

}  // namespace

// Upwards, so that a death in between leaves no unmarked term below a marked one. Marks that were
// left by something else may have gaps below them: then a listing shows which terms have none. An
// empty mark is that of a proof that was cut short, and is replaced.
Status mark_earlier_terms_over(const std::string& folder, std::int64_t term) {
  std::int64_t first = term;
  const std::int64_t least = std::max<std::int64_t>(1, term - kMostWithoutFiles);
  while (first > least && !is_marked(over_mark_path(folder, first - 1))) --first;
  std::vector<std::int64_t> unmarked;
  for (const std::int64_t earlier : terms_in(folder)) {
    if (earlier < first && !is_marked(over_mark_path(folder, earlier))) unmarked.push_back(earlier);
  }
  for (; first < term; ++first) unmarked.push_back(first);
  for (const std::int64_t earlier : unmarked) {
    const Status marked =
        write_file_durably(over_mark_path(folder, earlier), fmt::format("{}{}\n", kBefore, term));
    if (!marked.ok()) return marked;
  }
  return {};
}

Result<std::optional<std::int64_t>> later_term(const std::string& folder, std::int64_t term) {
  const std::string mark = over_mark_path(folder, term);
  const std::string taken = fmt::format("{}/{}{}", folder, kProofPrefix, term);
  const Descriptor file = Descriptor::open(mark, O_WRONLY | O_CREAT | O_EXCL);
  if (!file.valid()) {
    if (errno != EEXIST) return io_error("creating", mark, errno);
    // Else an earlier proof of this leader has stopped half way.
    if (Result<Later> later = read_mark(mark); !later.ok() || later.value()) return later;
  }
  if (const int error = rename_file(mark, taken)) return io_error("renaming", mark, error);
  Result<Later> later = read_mark(taken);
  if (!later.ok()) return later;
  const int error = later.value() ? rename_file(taken, mark) : remove_file(taken);
  return error == 0 ? std::move(later) : io_error("taking away", taken, error);
}

}  // namespace swarmpi
