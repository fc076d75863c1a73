# shellcheck shell=bash
# How the job scripts read the journal of a run, write files, and look for room; they source it.

# Programs print numbers and messages in one way, whatever the language of the user.
export LC_ALL=C

# Whether the run is complete: its mark names the newest term. An older one counts for nothing: the
# run went on, and a leader that was stopped as it wrote the mark may have put it there since.
is_complete() {  # journal
  local mark newest
  { read -r mark <"$1/complete"; } 2>/dev/null || return 1
  newest=$(find "$1" -maxdepth 1 -name 'term-*' | sed -nE 's#.*/term-([0-9]+)$#\1#p' | sort -n |
    tail -n 1)
  [[ $mark == "term $newest" ]]
}

# Makes a file of what a command prints: as a whole, or not at all.
write_whole() {  # path, command...
  local path=$1 folder hidden
  shift
  folder=$(dirname "$path")
  hidden=$(mktemp "$folder/.$(basename "$path").part-XXXXXXXXXX") || return
  if "$@" >"$hidden" && chmod +rw "$hidden" && sync "$hidden" && mv -fT "$hidden" "$path"; then
    sync "$folder"
  else
    rm -f "$hidden"
    return 1
  fi
}

no_room='No space left on device|Disk quota exceeded'
probe_s=20

# What the system says of a file of a megabyte in a folder; nothing where the folder hangs.
trouble_of() {  # folder
  local probe=$1/probe.$$.$RANDOM answer
  # A process that hangs in a dead file system may outlive even KILL: `read` does not wait for it.
  IFS= read -r -d '' -t $((probe_s + 5)) answer < <(
    timeout -k 1 "$probe_s" dd if=/dev/zero of="$probe" bs=1048576 count=1 conv=excl,fsync 2>&1
    rm -f "$probe"
  )
  printf '%s' "$answer"
}

has_no_room() { [[ $(trouble_of "$1") =~ $no_room ]]; }  # folder

# mpirun itself names no folder: "listener thread failed to start", status 213, or a bus error.
session_needs_room() {
  echo "no room left in ${TMPDIR:-/tmp}, where mpirun keeps its session: free some, or set TMPDIR\
 to another folder"
}
