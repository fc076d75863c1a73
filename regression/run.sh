#!/usr/bin/env bash
# The regression suite: the set-up of jobscripts/workstation.sh with all tests, then CTest, then a
# list of the tests that did not run here, each with the reason. The exit status is CTest's; where
# all passed it is 1 if a test was skipped that this machine could have run, or does not say why.
#   regression/run.sh [CTEST OPTION]...       e.g. -L regression, -R journal, -j 8
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
case ${1:-} in
  -h | --help) sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
esac
bash "$root/jobscripts/setup.sh" all
# shellcheck source=/dev/null
. "$root/build/env.sh"
TORTURE_SEED=$(od -An -N6 -tu8 /dev/urandom | tr -d ' ')
export TORTURE_SEED
echo "the schedules of torture come from seed $TORTURE_SEED"
rm -f "$root"/build/Testing/Temporary/LastTest*.log
status=0
ctest --test-dir "$root/build" --output-on-failure -j 2 "$@" || status=$?
python3 "$root/regression/harness/what_did_not_run.py" "$root/build" ||
  { [[ $status != 0 ]] || status=1; }
python3 "$root/regression/harness/what_failed.py" "$root/build"
exit "$status"
