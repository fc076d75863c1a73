# shellcheck shell=bash
# How the job scripts read the journal of a run and write files; they source it.

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
