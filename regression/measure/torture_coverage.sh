#!/bin/sh
# Which lines of the protocol `swarmpi torture` alone runs: prints each that it does not run, and
# their share. Lines that hold a brace only are not counted: gcov means destructors by them.
#   regression/measure/torture_coverage.sh [--record FILE.json] BUILD [TORTURE OPTION]...
# Options of torture are e.g. --schedules 30000 --seed 7; without any --schedules 30000. BUILD is a
# folder of its own, configured and built here for gcc and gcov; CMAKE_ARGS adds to what CMake is
# told. With the set-up's MPI: `. build/env.sh` first. --json: a last line with the figures, for
# record.py.
set -eu

here=$(cd "$(dirname "$0")/../.." && pwd -P)
json=no
case ${1:--h} in
  -h | --help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
  --record)
    record=$2
    shift 2
    SWARMPI=$1/swarmpi exec python3 "$here/regression/harness/record.py" --record "$record" -- \
      "$0" --json "$@" ;;
  --json) json=yes; shift ;;
esac
mkdir -p "$1"
build=$(cd "$1" && pwd -P)
shift
[ $# -gt 0 ] || set -- --schedules 30000

# Torture runs in a child that leaves by _exit, which would lose what was counted.
cat >"$build/counted_exit.c" <<'END'
extern void __gcov_dump(void);
extern void __real__exit(int) __attribute__((noreturn));
__attribute__((noreturn)) void __wrap__exit(int status) {
  __gcov_dump();
  __real__exit(status);
}
END
gcc -c "$build/counted_exit.c" -o "$build/counted_exit.o"

# shellcheck disable=SC2086  # CMAKE_ARGS is a list
cmake -S "$here" -B "$build" -DBUILD_TESTING=OFF -DCMAKE_BUILD_TYPE=None \
  -DCMAKE_C_COMPILER=gcc -DCMAKE_CXX_COMPILER=g++ -DCMAKE_CXX_FLAGS="-O1 -g1 --coverage" \
  -DCMAKE_EXE_LINKER_FLAGS="--coverage -Wl,--wrap=_exit $build/counted_exit.o" \
  ${CMAKE_ARGS:-} >"$build/configure.log"
cmake --build "$build" --target swarmpi >"$build/build.log" ||
  { tail -n 40 "$build/build.log" >&2; exit 2; }
find "$build" -name '*.gcda' -exec rm -f {} +
failed=0
(cd "$build" && ./swarmpi torture "$@") || failed=$?

find "$build" -name '*.gcda' -exec gcov --json-format --stdout {} + 2>"$build/gcov.log" |
  python3 -c '
import json, os, sys

root = sys.argv[1]
counts = {}
for line in sys.stdin:
    for file in json.loads(line)["files"]:
        path = os.path.relpath(os.path.join(root, file["file"]), root)
        if path.startswith("src/protocol/"):
            for row in file["lines"]:
                key = path, row["line_number"]
                counts[key] = counts.get(key, 0) + row["count"]
texts = {}
for path in {path for path, number in counts}:
    with open(os.path.join(root, path), encoding="utf-8") as source:
        for number, text in enumerate(source, 1):
            if text.strip() not in ("{", "}", "};"):
                texts[path, number] = text.strip()
counted = [key for key in sorted(counts) if key in texts]
missed = [key for key in counted if counts[key] == 0]
for key in missed:
    print("{}:{}: {}".format(*key, texts[key]))
run = len(counted) - len(missed)
share = 100 * run / max(1, len(counted))
print(f"{run} of {len(counted)} lines of src/protocol run, {share:.2f} %")
if sys.argv[2] == "yes":
    what = "The lines of src/protocol that torture alone runs."
    figures = {"lines": len(counted), "lines_run": run, "run_percent": share}
    print(json.dumps({"what": what, "figures": figures}))
' "$here" "$json"
exit "$failed"
