#!/usr/bin/env bash
# Whether all C++ is as clang-format 14 (Debian 12) leaves it. Status 77, skipped, without that
# version: others break some lines elsewhere.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
for tool in clang-format-14 clang-format; do
  [[ $(command -v "$tool" && "$tool" --version) != *"version 14."* ]] || break
  tool=
done
[[ -n $tool ]] || { echo "not run: there is no clang-format 14"; exit 77; }
find src kernels regression -regex '.*\.\(cpp\|hpp\|cu\|cuh\)' -print0 |
  xargs -0 "$tool" --dry-run --Werror --style=file
