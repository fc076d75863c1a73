// The keys of [data].

#include "config/schema/keys.hpp"

namespace swarmpi {
namespace {

template <auto member>
Field data() {
  return field_at<&in_section<&Config::data, member>>();
}

}  // namespace

Keys data_keys() {
  using D = DataConfig;
  return {
      {.name = "paths",
       .field = data<&D::paths>(),
       .on_resume = kMayChange,
       .help = "token files; several are read one after the other as one stream"},
      {.name = "format",
       .field = data<&D::format>(),
       .help =
           "\"bytes\": one byte a token; \"tokens_u16\", \"tokens_u32\": 16 or 32 bits a token, "
           "without header (nanoGPT) or with (llm.c, NumPy)"},
      {.name = "validation_paths",
       .field = data<&D::validation_paths>(),
       .on_resume = kMayChange,
       .help = "files for validation alone, of the same format; all of data.paths is trained on "
               "then; empty: data.validation_fraction of it is held out"},
      {.name = "validation_fraction",
       .field = data<&D::validation_fraction>(),
       .range = fraction(),
       .help = "share of the sequences that is held out for validation, chosen by a hash of their "
               "index; 0: none; without effect where there are data.validation_paths"},
      {.name = "hash",
       .field = data<&D::hash>(),
       .help = "hash that the tokens must have, those for validation included, 16 hexadecimal "
               "digits in lower case; other data are refused; empty: not checked"},
  };
}

}  // namespace swarmpi
