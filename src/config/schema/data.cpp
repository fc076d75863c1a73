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
       .help = "\"bytes\": one byte a token; \"tokens_u16\": 16 bits a token, without header "
               "(nanoGPT) or with (llm.c)"},
      {.name = "validation_fraction",
       .field = data<&D::validation_fraction>(),
       .range = fraction(),
       .help = "share of the sequences that is held out for validation, chosen by a hash of their "
               "index; 0: none"},
      {.name = "hash",
       .field = data<&D::hash>(),
       .help = "hash that the tokens must have, 16 hexadecimal digits in lower case; other data "
               "are refused; empty: not checked"},
  };
}

}  // namespace swarmpi
