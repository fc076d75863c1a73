#include "config/suggest.hpp"

#include <algorithm>
#include <cctype>
#include <limits>

namespace swarmpi {
namespace {
constexpr std::size_t kLongestWord = 64;  // a key of a megabyte is no typing mistake
constexpr std::size_t kShortest = 3;

std::string lower(std::string_view text) {
  std::string small(text);
  for (char& c : small) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return small;
}

std::string did_you_mean(const std::vector<std::string>& names) {
  if (names.empty()) return "";
  std::string text = names.front();
  for (std::size_t i = 1; i < names.size(); ++i) {
    text += (i + 1 == names.size() ? " or " : ", ") + names[i];
  }
  return "; did you mean " + text + "?";
}

/// What other programs call a key of ours.
struct OtherName {
  std::string_view other;
  std::string_view section, name;
};
constexpr OtherName kOtherNames[] = {
    {"learning_rate", "train", "lr"},
    {"max_iters", "train", "steps"},
    {"iterations", "train", "steps"},
    {"gradient_accumulation_steps", "train", "microbatches"},
    {"grad_clip", "train", "clip"},
    {"max_grad_norm", "train", "clip"},
    {"n_layer", "model", "layers"},
    {"n_head", "model", "heads"},
    {"n_embd", "model", "width"},
    {"d_model", "model", "width"},
    {"hidden_size", "model", "width"},
    {"block_size", "model", "context"},
    {"seq_len", "model", "context"},
    {"sequence_length", "model", "context"},
    {"dtype", "model", "precision"},
    {"dataset", "data", "paths"},
    {"eval_interval", "output", "validate_every"},
    {"save_interval", "output", "checkpoint_every"},
};

/// The first name that contains the word or is contained in it: `warmup` for warmup_steps.
std::string_view related(std::string_view word, const std::vector<std::string_view>& names) {
  if (word.size() < kShortest) return {};
  for (const std::string_view name : names) {
    const bool inside = name.size() >= kShortest && word.find(name) != std::string_view::npos;
    if (name.find(word) != std::string_view::npos || inside) return name;
  }
  return {};
}

std::vector<std::string_view> names_in_section(std::string_view section) {
  std::vector<std::string_view> names;
  for (const KeySpec& key : schema()) {
    if (key.section == section) names.push_back(key.name);
  }
  for (const TableSpec& table : tables()) {
    const auto dot = table.name.find('.');
    const bool within = dot != std::string_view::npos && table.name.substr(0, dot) == section;
    if (within) names.push_back(table.name.substr(dot + 1));
  }
  return names;
}

/// Sections, and tables that stand in none.
std::vector<std::string_view> outermost_names() {
  std::vector<std::string_view> names = sections();
  for (const TableSpec& table : tables()) {
    if (table.name.find('.') == std::string_view::npos) names.push_back(table.name);
  }
  return names;
}

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  const std::string x = lower(a), y = lower(b);
  std::vector<std::vector<int>> d(x.size() + 1, std::vector<int>(y.size() + 1));
  for (std::size_t i = 0; i <= x.size(); ++i) d[i][0] = static_cast<int>(i);
  for (std::size_t j = 0; j <= y.size(); ++j) d[0][j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= x.size(); ++i) {
    for (std::size_t j = 1; j <= y.size(); ++j) {
      const int replace = d[i - 1][j - 1] + (x[i - 1] == y[j - 1] ? 0 : 1);
      d[i][j] = std::min({replace, d[i - 1][j] + 1, d[i][j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && x[i - 1] == y[j - 2] && x[i - 2] == y[j - 1];
      if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[x.size()][y.size()];
}

std::string_view nearest(std::string_view word, const std::vector<std::string_view>& names) {
  if (word.size() > kLongestWord) return {};
  int best = std::numeric_limits<int>::max();
  std::string_view found;
  for (const std::string_view name : names) {
    // A third of the letters may be wrong; of two letters, one.
    const int limit = std::max<int>(1, static_cast<int>(std::max(word.size(), name.size())) / 3);
    const int distance = edit_distance(word, name);
    if (distance <= limit && distance < best) {
      best = distance;
      found = name;
    }
  }
  return found;
}

std::string suggest_key(std::string_view section, std::string_view name) {
  if (section.empty() && !nearest(name, {kInclude}).empty()) {
    return did_you_mean({std::string(kInclude)});
  }
  std::vector<std::string> elsewhere;
  for (const KeySpec& key : schema()) {
    if (key.name == name) elsewhere.push_back(key.full_name());
  }
  if (!elsewhere.empty()) return did_you_mean(elsewhere);
  for (const OtherName& known : kOtherNames) {
    if (lower(name) != known.other) continue;
    return did_you_mean({std::string(known.section) + "." + std::string(known.name)});
  }
  const auto names = names_in_section(section);
  std::string_view meant = nearest(name, names);
  if (meant.empty()) meant = related(name, names);
  if (!meant.empty()) return did_you_mean({std::string(section) + "." + std::string(meant)});
  for (const std::string_view other : sections()) {
    const std::string_view near = nearest(name, names_in_section(other));
    if (!near.empty()) return did_you_mean({std::string(other) + "." + std::string(near)});
  }
  return "";
}

std::string suggest_section(std::string_view section) {
  const auto names = outermost_names();
  std::string_view meant = nearest(section, names);
  if (meant.empty()) meant = related(section, names);
  const TableSpec* table = find_table(meant);
  if (table != nullptr) return did_you_mean({table->header()});
  if (!meant.empty()) return did_you_mean({"[" + std::string(meant) + "]"});
  std::string all;
  for (const std::string_view name : names) all += (all.empty() ? "" : ", ") + std::string(name);
  return "; the sections are " + all;
}

std::string suggest_row_key(const TableSpec& table, std::string_view name) {
  std::vector<std::string_view> names;
  std::string all;
  for (const KeySpec& key : table.keys) {
    names.push_back(key.name);
    all += (all.empty() ? "" : ", ") + std::string(key.name);
  }
  const std::string_view meant = nearest(name, names);
  return meant.empty() ? "; the keys of " + table.header() + " are " + all
                       : did_you_mean({std::string(meant)});
}

std::string suggest_choice(std::string_view word, const std::vector<std::string_view>& choices) {
  const std::string_view meant = nearest(word, choices);
  return meant.empty() ? "" : did_you_mean({"\"" + std::string(meant) + "\""});
}

}  // namespace swarmpi
