# shellcheck shell=bash
# What the job scripts read in the journal of a run; they source it.

# Whether the run is complete: its mark names the newest term. An older one counts for nothing: the
# run went on, and a leader that was stopped as it wrote the mark may have put it there since.
is_complete() {  # journal
  local mark newest
  { read -r mark <"$1/complete"; } 2>/dev/null || return 1
  newest=$(find "$1" -maxdepth 1 -name 'term-*' | sed -nE 's#.*/term-([0-9]+)$#\1#p' | sort -n |
    tail -n 1)
  [[ $mark == "term $newest" ]]
}
