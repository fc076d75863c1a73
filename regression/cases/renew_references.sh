#!/usr/bin/env bash
# Renews the stored references of regression cases, after a change that is meant to change what is
# computed.
#   regression/cases/renew_references.sh [CASE]...      all cases if none is named
# 1. Say in the commit message which change of the method made the old references wrong. If none
#    did, the program is wrong: a reference is never renewed because a test fails.
# 2. Run this with a build of that change in build/ (regression/run.sh makes one). It stores the new
#    runs and shows where they leave the old ones. References do not depend on the machine:
#    reference kernels have portable bits.
# 3. Run regression/run.sh, and commit cases/CASE/reference.h5 with the change.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
build=$here/../../build
if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"
  exit 0
fi
swarmpi=${SWARMPI:-$build/swarmpi}
[[ -x $swarmpi ]] || { echo "no $swarmpi: build first, with regression/run.sh" >&2; exit 2; }
[[ $# -gt 0 ]] || set -- "$here"/*/
for case; do
  case=$(basename "$case")
  [[ -f $here/$case/deck.toml || -f $here/$case/simulated.toml ]] ||
    { echo "no case named $case" >&2; exit 2; }
  old=$(mktemp)
  stored=$here/$case/reference.h5
  [[ ! -f $stored ]] || cp "$stored" "$old"
  python3 "$here/../tests/run_case.py" "$case" renew --swarmpi "$swarmpi" \
    --work "$build/regression/work"
  [[ ! -s $old ]] || "$swarmpi" compare "$old" "$stored" || true
  rm -f "$old"
done
