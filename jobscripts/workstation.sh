#!/usr/bin/env bash
# SwarMPI on one machine: set-up, data, training, picture and sample in one command.
#
#   jobscripts/workstation.sh [-n RANKS] [--again] [DECK]
#
# With neither RANKS nor DECK it trains inputs/quickstart.toml twice: undisturbed on one rank, then
# on six, of which three are killed, two of them at once and the leader; and compares.
# With -n, mpirun starts as many peers: the stages are spread over them, the result is the same.
# Relative paths inside a deck start at the project's root.
# The results are in runs/NAME, where NAME is the deck's. Called again it goes on with a run that
# was stopped, and of one that is complete it only shows where things are; --again, or a deck that
# was changed, starts another in runs/NAME-2, ... Ctrl-C (INT) and TERM make a checkpoint and stop.
# Exit status: that of `swarmpi train`: 0 complete, 2 bad input, 3 stopped and can go on; of the
# set-up if that fails.
set -euo pipefail

usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; }

bad_input() {
  printf 'workstation.sh: %s\n' "$@" >&2
  exit 2
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# shellcheck source=jobscripts/run_marks.sh
. "$root/jobscripts/run_marks.sh"
deck=
again=
ranks=
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --again) again=yes ;;
    -n)
      ranks=${2:-}
      [[ $ranks =~ ^[1-9][0-9]{0,4}$ ]] || bad_input "-n wants a number of ranks, not '$ranks'"
      shift
      ;;
    -*) bad_input "unknown option $1" "try --help" ;;
    *)
      [[ -z $deck ]] || bad_input "more than one deck: $deck and $1" "try --help"
      deck=$1
      ;;
  esac
  shift
done
main_job=
[[ -n $deck || -n $ranks ]] || main_job=yes
ranks=${ranks:-1}
deck=${deck:-$root/inputs/quickstart.toml}
[[ -f $deck && -r $deck ]] || bad_input "cannot read the deck $deck"
deck=$(realpath "$deck")

has_run() { [[ -e $1/RUN.h5 || -e $1/RUN.h5.journal ]]; }

# The folder of this deck's newest run, or a new one.
choose_folder() {
  local base number=1
  base=$root/runs/$(basename "$deck" .toml)
  run=$base
  while has_run "$base-$((number + 1))"; do
    number=$((number + 1))
    run=$base-$number
  done
  if [[ -n $again ]] && has_run "$run" && ! is_complete "$run/RUN.h5.journal"; then
    bad_input "$run is not complete: go on with it (without --again), or remove it"
  fi
  if has_run "$run" && { [[ -n $again ]] || ! cmp -s "$deck" "$run/deck.toml"; }; then
    run=$base-$((number + 1))
  fi
  mkdir -p "$run" || bad_input "cannot write to $run"
  has_run "$run" || write_whole "$run/deck.toml" cat "$deck"
}

prepare_data() {
  local out=$root/build/data/quickstart.bin files
  [[ ! -s $out ]] || return 0
  mkdir -p "$root/build/data"
  mapfile -t files < <(python3 "$root/jobscripts/quickstart_text.py")
  swarmpi prepare "$out" "${files[@]}"
}

# Whether ranks may die under this mpirun.
survives_deaths() {
  [[ $(mpirun --version 2>/dev/null) == *"(Open MPI) 5."* ]] ||
    { echo "This MPI does not report lost ranks: the run with deaths is left out."; return 1; }
}

# Sets `launch`: what stands before `swarmpi train`. Nothing for one rank.
choose_launch() {
  launch=()
  [[ $ranks -gt 1 ]] || return 0
  ! has_no_room "${TMPDIR:-/tmp}" || bad_input "$(session_needs_room)"
  case $(mpirun --version 2>/dev/null) in
    "") bad_input "there is no mpirun for -n $ranks" ;;
    *"(Open MPI) 5."*) launch=(mpirun --with-ft ulfm --map-by node:oversubscribe -n "$ranks") ;;
    *"(Open MPI)"*) launch=(mpirun --oversubscribe -n "$ranks") ;;
    *) launch=(mpirun -n "$ranks") ;;
  esac
}

# Trains in `run` until the end or a signal, with options of `swarmpi train`; sets `status`. In the
# background, so that the shell hears
# signals meanwhile; in a process group of its own, so that a Ctrl-C reaches the program once,
# through this shell.
train() {
  local arguments heard
  arguments=("$run/deck.toml" --out "$run/RUN.h5" --set "output.checkpoint=$run/checkpoints" "$@")
  # A run that was ended before it had made a checkpoint begins anew.
  mkdir -p "$run/checkpoints"
  ! has_run "$run" || arguments+=(--resume "$run/checkpoints")
  local pid='' sent='' next=USR1
  # The first signal asks for a checkpoint; the second means it: the program dies of a second TERM.
  # mpirun hands USR1 on to all ranks, and ends them on TERM.
  trap 'heard=yes; [[ -z $pid ]] || kill "-$next" "$pid" 2>/dev/null || :; sent=$next; next=TERM' \
    INT TERM HUP
  set -m
  "${launch[@]}" swarmpi train "${arguments[@]}" </dev/null &
  pid=$!
  set +m
  while :; do
    heard=
    status=0
    wait "$pid" || status=$?
    [[ -n $heard ]] || break
  done
  trap - INT TERM HUP
  # mpirun may hide what became of its ranks.
  if [[ $ranks -gt 1 ]]; then
    if is_complete "$run/RUN.h5.journal"; then
      status=0
    elif [[ $sent == TERM ]]; then
      status=143
    elif [[ $status != [12] ]]; then
      status=3
    fi
  fi
}

show() {  # what, path
  printf '  %-12s %s\n' "$1" "${2#"$PWD"/}"
}

bash "$root/jobscripts/setup.sh"
# shellcheck source=/dev/null
. "$root/build/env.sh"
invoked_in=$PWD
cd "$root"
prepare_data
choose_folder

# Trains what is in `run`, unless that is done; leaves where it failed.
train_on() {
  status=0
  if is_complete "$run/RUN.h5.journal"; then
    echo "${run#"$root"/} is complete already (--again starts another)."
    return
  fi
  choose_launch
  train "$@"
  if [[ $status != 0 && $status != 3 ]]; then
    echo "swarmpi train ended with status $status; what there is lies in $run" >&2
    exit "$status"
  fi
}

# The same deck once more, beside the first run: of six ranks two die at once, and the leader after
# them. When, is by what the first run took: early, for six may be much faster than one.
train_with_deaths() {
  local first=$run took_s
  run=$first/deaths
  mkdir -p "$run"
  write_whole "$run/deck.toml" cat "$first/deck.toml"
  if ! has_run "$run"; then
    took_s=$(swarmpi info "$first/RUN.h5" |
      awk '/^wall time/ && $4 == "h" { print 3600 * $3 + 60 * $5 }
           /^wall time/ && $4 == "min" { print 60 * $3 + $5 }
           /^wall time/ && $4 == "s" { print $3 }')
    write_whole "$run/deaths.csv" awk -v s="$took_s" 'BEGIN {
      print "time_s,event,peer"
      printf "%.2f,kill,3\n%.2f,kill,4\n%.2f,kill,0\n", s / 20, s / 20, s / 10 }'
  fi
  ranks=6
  printf '\nThe same on %s ranks, of which three are killed:\n\n' "$ranks"
  train_on --set faults.mode=kill --set "faults.trace=$run/deaths.csv"
  ranks=1
  if [[ $status == 0 ]]; then
    printf '\n'
    swarmpi compare "$first/RUN.h5" "$run/RUN.h5" || exit 1
    swarmpi info "$run/RUN.h5" | grep -q '^lost  *3 peers' ||
      { echo "fewer than three ranks were killed before the end" >&2; exit 1; }
    local title
    title="$(basename "$deck"): one rank undisturbed, and six of which three are killed"
    python3 postprocess/plot_deaths.py "$run/RUN.h5" --over "$first/RUN.h5" --title "$title" \
      -o "$first/deaths.png" >/dev/null
    equal=yes
  fi
  run=$first
}

train_on
equal=
if [[ -n $main_job && $status == 0 ]] && survives_deaths; then train_with_deaths; fi

[[ ! -e $run/RUN.h5 ]] || python3 postprocess/plot_run.py "$run/RUN.h5" -o "$run/run.png" >/dev/null
# Byte text can be asked to go on from words; a deck of other tokens cannot.
if [[ $status == 0 && ! -s $run/sample.txt ]] && ! grep -q '^ *format *= *"tokens' "$deck"; then
  write_whole "$run/sample.txt" \
    swarmpi sample "$run/checkpoints" --prompt "This program is " -n 600
fi
if [[ $status == 0 && -s $run/sample.txt ]]; then
  printf '\nA sample of what the model writes:\n\n'
  sed 's/^/  | /' "$run/sample.txt"
fi
cd "$invoked_in"
printf '\n'
show "run file" "$run/RUN.h5"
show checkpoints "$run/checkpoints"
[[ ! -e $run/run.png ]] || show picture "$run/run.png"
[[ ! -e $run/deaths.png ]] || show "with deaths" "$run/deaths.png"
[[ ! -e $run/sample.txt ]] || show sample "$run/sample.txt"
if [[ -n $equal ]]; then
  printf '\nOne rank undisturbed, and six of which three were killed: bitwise equal.\n'
fi
if [[ $status == 3 ]]; then
  again_with=("$deck")
  [[ $ranks == 1 ]] || again_with=(-n "$ranks" "$deck")
  [[ -z $main_job ]] || again_with=()
  printf '\nStopped before its end. To go on:'
  printf ' %q' "$0" "${again_with[@]}"
  printf '\n'
fi
exit "$status"
