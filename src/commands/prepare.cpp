#include "commands/prepare.hpp"

#include "core/text.hpp"
#include "data/prepare.hpp"

namespace swarmpi {

Status run_prepare(const PrepareOptions& options, std::ostream& out) {
  const Result<PreparedText> prepared = prepare_text(options.out, options.sources);
  if (!prepared.ok()) return prepared.status();
  const PreparedText& text = prepared.value();
  out << options.out << ": " << text.bytes << " bytes ("
      << readable_bytes(static_cast<double>(text.bytes)) << ") of text from " << text.files
      << " files; left out " << text.duplicates << " duplicates and " << text.not_text
      << " files that are not text\n";
  return {};
}

}  // namespace swarmpi
