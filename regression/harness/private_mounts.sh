#!/usr/bin/env bash
# private_mounts.sh RANK FOLDER|over:FOLDER|- COMMAND...: starts each rank of an mpirun, so that
# rank RANK has mounts of its own, as on another host. With FOLDER it sees an empty disk there; with
# over:FOLDER it sees what the others write there, but what it writes stays its own; with `-` it
# sees what the others see, until somebody mounts something for it (nsenter). Needs root.
set -euo pipefail
rank=$1 folder=$2
shift 2
if [ "${OMPI_COMM_WORLD_RANK:-}" != "$rank" ]; then exec "$@"; fi
if [ -z "${SWARMPI_PRIVATE_MOUNTS:-}" ]; then
  export SWARMPI_PRIVATE_MOUNTS=yes
  exec unshare -m --propagation private "$0" "$rank" "$folder" "$@"
fi
case $folder in
  -) ;;
  over:*)
    mount -t tmpfs private /mnt
    mkdir /mnt/upper /mnt/work
    mount -t overlay private -o "lowerdir=${folder#over:},upperdir=/mnt/upper,workdir=/mnt/work" \
      "${folder#over:}"
    ;;
  *) mount -t tmpfs private "$folder" ;;
esac
exec "$@"
