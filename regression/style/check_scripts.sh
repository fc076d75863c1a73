#!/usr/bin/env bash
# Whether all shell scripts parse, and please shellcheck where it is installed.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
scripts=(.ci/run)
mapfile -t -O 1 scripts < <(find jobscripts regression -name '*.sh' -o -name '*.slurm' | sort)
for script in "${scripts[@]}"; do bash -n "$script"; done
! command -v shellcheck >/dev/null || shellcheck "${scripts[@]}"
echo "${#scripts[@]} scripts checked"
