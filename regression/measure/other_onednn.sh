#!/bin/sh
# Builds the native kernels with another oneDNN than the system's and runs their tests with it.
#   regression/measure/other_onednn.sh FOLDER [VERSION]
# VERSION: of PyPI's onednn-cpu-gomp; without any 2023.2.0, which is oneDNN 3.2, the newest
# there with GNU's OpenMP. FOLDER takes that library and a build of its own; CMAKE_ARGS adds to what
# CMake is told. With the set-up's MPI: `. build/env.sh` first. The status is that of the tests.
# To compare speeds, build the program there too: `cmake --build FOLDER/build --target swarmpi`.
set -eu

here=$(cd "$(dirname "$0")/../.." && pwd -P)
case ${1:--h} in
  -h | --help) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac
version=${2:-2023.2.0}
mkdir -p "$1"
folder=$(cd "$1" && pwd -P)

[ -x "$folder/onednn/bin/pip" ] || python3 -m venv "$folder/onednn"
"$folder/onednn/bin/pip" install --quiet \
  "onednn-cpu-gomp==$version" "onednn-devel-cpu-gomp==$version"
# shellcheck disable=SC2086  # CMAKE_ARGS is a list
cmake -S "$here" -B "$folder/build" -G Ninja -Ddnnl_DIR="$folder/onednn/lib/cmake/dnnl" \
  ${CMAKE_ARGS:-} >"$folder/cmake.log"
cmake --build "$folder/build" --target kernels_native_test
"$folder/build/kernels_native_test" --gtest_brief=1
