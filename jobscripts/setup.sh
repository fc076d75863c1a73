#!/usr/bin/env bash
# Set-up for workstation.sh and regression/run.sh: installs what is missing and builds in build/,
# where CMake leaves an env.sh.
#   jobscripts/setup.sh [TARGET]      what to build: `swarmpi` (default), or `all`: with the tests
# Where the program is to run on other processors too, SWARMPI_ARCH names their -march (x86-64-v3).
# Each step looks at what is there and does nothing if it is good: a second run takes seconds and
# needs no network.
# Exit status: 0 ready; 1 a step failed (its log is named); 2 something that only you can change.
set -euo pipefail
export LC_ALL=C  # programs print numbers and messages in one way

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
build=$root/build
venv=$build/venv
logs=$build/logs
target=${1:-swarmpi}
for_all=$root/jobscripts/python_packages.txt
for_mpi=$root/jobscripts/python_packages_for_mpi.txt
for_tests=$root/jobscripts/python_packages_for_tests.txt

packages=(
  g++ cmake ninja-build                                   # tools
  libdnnl-dev ocl-icd-opencl-dev libtrilinos-kokkos-dev   # kernels; Debian's oneDNN wants OpenCL
  libhdf5-dev libtomlplusplus-dev libcli11-dev nlohmann-json3-dev libfmt-dev
  libxxhash-dev libgtest-dev
  python3 python3-venv ca-certificates                    # the virtual environment
)
# The tests start a Slurm and hosts of their own, run over other MPIs, emulate an older processor,
# and have netCDF read run files. Where a service manager runs, Slurm's packages would set it up for
# the whole machine: there it is left to you whether to install them. clang-format 14 is not in
# every Debian.
if [[ $target == all && $(id -u) == 0 && ! -d /run/systemd/system ]]; then
  packages+=(slurm-wlm munge iproute2 qemu-user shellcheck e2fsprogs netcdf-bin)
  packages+=(openmpi-bin libopenmpi-dev mpich libmpich-dev)
  [[ $(apt-cache policy clang-format-14 2>/dev/null) != *"Candidate: "[0-9]* ]] ||
    packages+=(clang-format-14)
fi

stop() {  # message...: what is wrong can only be changed by the user
  printf 'set-up: %s\n' "$@" >&2
  exit 2
}

# Runs a command with its output in a log; one line with the seconds it took, or the end of the log.
phase() {  # name, log, command...
  local name=$1 log=$logs/$2.log start=$SECONDS
  shift 2
  printf 'set-up: %s ... ' "$name"
  if "$@" >"$log" 2>&1 </dev/null; then
    printf '%d s\n' $((SECONDS - start))
  else
    printf 'failed after %d s\n' $((SECONDS - start))
    printf 'the last lines of %s:\n' "$log" >&2
    tail -n 25 "$log" | sed 's/^/  /' >&2
    exit 1
  fi
}

check_folders() {
  [[ $root != *[\'\"\$\`\\:\;]* ]] ||
    stop "the path of this checkout holds a character that PATH or CMake cannot take: $root"
  if [[ ! -d $build && ! -w $root ]]; then
    stop "cannot write to $root (read-only, or another user's)" "clone it to a place of yours"
  fi
  if ! mkdir -p "$logs" 2>/dev/null || [[ ! -w $build || ! -w $logs ]]; then
    stop "cannot write to $build (read-only, or another user's)" \
         "remove it, or clone to a place of yours"
  fi
  local home
  home=$(from_cache CMAKE_HOME_DIRECTORY)
  [[ -z $home || $home -ef $root ]] ||
    stop "$build was made for another checkout, $home: remove it and start again"
}

from_cache() {  # name: a value from CMake's cache, if there is one
  [[ ! -f $build/CMakeCache.txt ]] || sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"
}

# On Debian and its children the packages are asked for; elsewhere CMake says what it does not find.
install_packages() {
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "set-up: no Debian packages here: compiler, CMake and libraries must be there already"
    return
  fi
  local package missing=()
  for package in "${packages[@]}"; do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] ||
      missing+=("$package")
  done
  [[ ${#missing[@]} -gt 0 ]] || return 0
  if [[ $(id -u) -ne 0 ]]; then
    stop "these Debian packages are missing: ${missing[*]}" \
         "an administrator can install them with" \
         "  apt-get install --no-install-recommends ${missing[*]}"
  fi
  phase "installing ${#missing[@]} Debian packages" packages apt_install "${missing[@]}"
}

apt_install() {
  export DEBIAN_FRONTEND=noninteractive
  apt-get update || echo "no newer package lists: trying with those that are here"
  apt-get install -y --no-install-recommends "$@"
}

# Whether this compiler's MPI can survive the death of a rank (ULFM).
has_fault_tolerance() {  # mpicxx
  printf '#include <mpi.h>\n#include <mpi-ext.h>\n' | "$1" -E -dM -x c++ - 2>/dev/null |
    grep '^#define OMPI_HAVE_MPI_EXT_FTMPI 1' >/dev/null
}

# Sets `mpicxx`: the one on PATH if it tolerates faults, else the virtual environment's.
choose_mpi() {
  mpicxx=$(command -v mpicxx || true)
  if [[ -z $mpicxx || $mpicxx == "$venv"/* ]] || ! has_fault_tolerance "$mpicxx"; then
    mpicxx=$venv/bin/mpicxx
  fi
}

# Whether all that is installed in the virtual environment has the version that is asked for.
has_our_versions() {
  "$venv/bin/python3" - "$for_all" "$for_mpi" >/dev/null 2>&1 <<'END'
import sys
from importlib import metadata

import h5py, matplotlib

installed = {d.metadata["Name"].lower(): d.version for d in metadata.distributions()}
for path in sys.argv[1:]:
    with open(path, encoding="ascii") as file:
        wanted = dict(line.split()[0].split("==") for line in file if "==" in line)
    if any(installed.get(name, version) != version for name, version in wanted.items()):
        sys.exit(1)
END
}

python_is_ready() {
  has_our_versions || return 1
  [[ $mpicxx != "$venv"/* ]] && return
  [[ $("$venv/bin/mpirun" --version 2>/dev/null) == *"(Open MPI) "* ]] &&
    has_fault_tolerance "$mpicxx"
}

# Installs files of known hashes, and nothing that they ask for besides.
install_pinned() {  # option...
  "$venv/bin/python3" -m pip install --disable-pip-version-check --progress-bar off \
    --require-hashes --no-deps "$@"
}

make_python() {
  local python=python3 wanted=(--requirement "$for_all")
  [[ ! -x /usr/bin/python3 ]] || python=/usr/bin/python3
  [[ $mpicxx != "$venv"/* ]] || wanted+=(--requirement "$for_mpi")
  rm -rf "$venv"
  "$python" -m venv "$venv"
  install_pinned "${wanted[@]}"
}

pip_for_tests() {  # option...
  install_pinned --no-compile --requirement "$for_tests" "$@"
}

# Tests that lack these packages are skipped: no reason to go without all others.
install_for_tests() {
  pip_for_tests --retries 1 --timeout 15 || echo "left out: the tests that need them are skipped"
}

configure() {
  local options=(-DCMAKE_BUILD_TYPE=Release -DMPI_CXX_COMPILER="$mpicxx"
                 -DPython3_EXECUTABLE="$venv/bin/python3")
  [[ -z ${SWARMPI_ARCH:-} ]] || options+=(-DSWARMPI_ARCH="$SWARMPI_ARCH")
  # What FindMPI would learn from the compiler wrapper, were it not for paths with spaces.
  [[ $mpicxx != "$venv"/* ]] || options+=(
    -DMPI_CXX_COMPILER_INCLUDE_DIRS="$venv/include" -DMPI_CXX_COMPILE_OPTIONS=-pthread
    -DMPI_CXX_LIB_NAMES=mpi -DMPI_mpi_LIBRARY="$venv/lib/libmpi.so" -DMPI_CXX_LINK_FLAGS=-pthread)
  # CMake keeps what it found of the MPI it saw first: another one needs a fresh start.
  if [[ $(from_cache MPI_CXX_COMPILER) != "$mpicxx" ]]; then
    rm -rf "$build/CMakeCache.txt" "$build/CMakeFiles"
    ! command -v ninja >/dev/null || options+=(-G Ninja)
  fi
  cmake -S "$root" -B "$build" "${options[@]}"
}

check_folders
exec 9>"$build/setup.lock"
flock -n 9 || { echo "set-up: waiting for another one at work in $build"; flock 9; }
install_packages
choose_mpi
python_is_ready || phase "virtual environment" python make_python
[[ $target != all ]] || pip_for_tests --no-index &>/dev/null ||
  phase "Python packages for tests" python_for_tests install_for_tests
phase "configuring" configure configure
phase "building $target" build cmake --build "$build" --target "$target" -j "$(nproc)"
echo "set-up: ready in $SECONDS s; for a shell of your own: . $build/env.sh"
