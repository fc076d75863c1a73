#!/usr/bin/env bash
# The regression suite: the set-up of jobscripts/workstation.sh with all tests, then CTest.
#   regression/run.sh [CTEST OPTION]...       e.g. -L regression, -R journal, -j 8
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
case ${1:-} in
  -h | --help) sed -n '2,3s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
esac
bash "$root/jobscripts/setup.sh" all
# shellcheck source=/dev/null
. "$root/build/env.sh"
TORTURE_SEED=$(od -An -N6 -tu8 /dev/urandom | tr -d ' ')
export TORTURE_SEED
echo "the schedules of torture come from seed $TORTURE_SEED"
exec ctest --test-dir "$root/build" --output-on-failure -j 2 "$@"
