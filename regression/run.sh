#!/usr/bin/env bash
# The regression suite: the set-up of jobscripts/workstation.sh with all tests, then CTest, then a
# list of the tests that did not run here, each with the reason. The exit status is CTest's; where
# all passed it is 1 if a test was skipped that this machine could have run, or does not say why.
#   regression/run.sh [--all] [CTEST OPTION]...       e.g. -L regression, -R journal, -j 8
# --all also runs the tests that not every change needs: 20,000 random schedules of torture and
# 10,000 random swarms, peak memory, more of the other MPIs.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
all=
case ${1:-} in
  -h | --help) sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
  --all) all=1; shift; set -- -C all "$@" ;;
esac
bash "$root/jobscripts/setup.sh" all
# shellcheck source=/dev/null
. "$root/build/env.sh"
[[ ! $all ]] || cmake --build "$root/build" --target rare_programs
TORTURE_SEED=$(od -An -N6 -tu8 /dev/urandom | tr -d ' ')
export TORTURE_SEED
echo "the schedules of torture come from seed $TORTURE_SEED"
rm -f "$root"/build/Testing/Temporary/LastTest*.log
status=0
# Tests that mostly wait run side by side; all together take no more than the cores that there are.
cores=$(nproc)
((cores >= 2)) || cores=2
printf '{"version": {"major": 1, "minor": 0}, "local": [{"cores": [{"id": "0", "slots": %d}]}]}\n' \
  $((10 * cores)) >"$root/build/cores.json"
ctest --test-dir "$root/build" --output-on-failure -j $((8 * cores)) \
  --resource-spec-file "$root/build/cores.json" "$@" || status=$?
python3 "$root/regression/harness/what_did_not_run.py" "$root/build" ||
  { [[ $status != 0 ]] || status=1; }
python3 "$root/regression/harness/what_failed.py" "$root/build"
exit "$status"
