#!/usr/bin/env bash
# private_mounts.sh RANK FOLDER|- COMMAND...: starts each rank of an mpirun, so that rank RANK has
# mounts of its own, as on another host. With FOLDER it sees an empty disk there; with `-` it sees
# what the others see, until somebody mounts something for it (nsenter). Needs root.
set -euo pipefail
rank=$1 folder=$2
shift 2
if [ "${OMPI_COMM_WORLD_RANK:-}" != "$rank" ]; then exec "$@"; fi
if [ -z "${SWARMPI_PRIVATE_MOUNTS:-}" ]; then
  export SWARMPI_PRIVATE_MOUNTS=yes
  exec unshare -m --propagation private "$0" "$rank" "$folder" "$@"
fi
if [ "$folder" != - ]; then mount -t tmpfs private "$folder"; fi
exec "$@"
