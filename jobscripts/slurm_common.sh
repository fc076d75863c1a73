# shellcheck shell=bash
# What train.slurm and preemptible.slurm have in common; they source it from the project's folder.
# Checks DECK and RUN_DIR, enters the environment, and hands the notice of Slurm on to all ranks.
set -u

script=${script:?}  # the name of the one that sources this
most_restarts=100
crash_pause_s=10

end() {  # status, message
  printf '%s: %s\n' "$script" "$2" >&2
  exit "$1"
}

# The description of the script that sources this.
usage() { sed -n '/^# SwarMPI under/,/^# Exit/s/^# \{0,1\}//p' "$0" >&2; }

# Where the run is, and what says that it is complete, written last of all: no exit status proves as
# much. Leaves where there is nothing to do.
find_run() {
  if [[ -z ${SLURM_JOB_ID:-} || -z ${DECK:-} || -z ${RUN_DIR:-} ]]; then
    usage
    exit 2
  fi
  [[ -r $DECK ]] || end 2 "cannot read the deck $DECK"
  mkdir -p "$RUN_DIR" || end 2 "cannot write to $RUN_DIR"
  run=$(cd "$RUN_DIR" && pwd -P)
  complete=$run/RUN.h5.journal/complete
  [[ ! -e $complete ]] || end 0 "the run in $run is complete"
  [[ ! -e $run/stop ]] || end 3 "$run/stop is there: remove it to go on"
  [[ ${SLURM_RESTART_COUNT:-0} -lt $most_restarts ]] || end 1 "queued again $most_restarts times"
}

enter_environment() {
  local environment=${SWARMPI_ENV:-build/env.sh}
  [[ -r $environment ]] || end 2 "cannot read $environment: run jobscripts/workstation.sh once"
  set +u
  # shellcheck source=/dev/null
  . "$environment"
  set -u
}

# The notice of a preemption or of the time limit, passed on to all ranks by mpirun. CONT must not
# be trapped: Slurm sends it just before, and bash would miss the USR1.
training='' noticed=
notice() {
  [[ -z $noticed && -n $training ]] && kill -USR1 "$training" 2>/dev/null
  noticed=yes
}

# Starts mpirun in the background; its process is `training`.
start_training() {
  local mpi=() arguments setting
  case $(mpirun --version 2>/dev/null) in
    *"(Open MPI) 5."*) mpi=(--with-ft ulfm --map-by node:oversubscribe) ;;
    *"(Open MPI)"*) mpi=(--oversubscribe) ;;
  esac
  [[ -z ${RANKS:-} ]] || mpi+=(-n "$RANKS")
  arguments=("$DECK" --out "$run/RUN.h5" --set "output.checkpoint=$run/checkpoints"
             --resume "$run/checkpoints")
  for setting in ${SET:-}; do arguments+=(--set "$setting"); done
  # No `timeout` before it: that would die of USR1.
  mpirun "${mpi[@]}" swarmpi train "${arguments[@]}" </dev/null &
  training=$!
  [[ -z $noticed ]] || kill -USR1 "$training"
}

# After the training: done, or queued again. REQUIRES: its status.
go_on_or_end() {
  [[ ! -e $complete ]] || exit 0
  case $1 in 1 | 2) end "$1" "swarmpi train ended with status $1" ;; esac
  [[ ! -e $run/stop ]] || end 3 "stopped; remove $run/stop and submit again to go on"
  if [[ -z $noticed ]]; then
    echo "$script: ended without notice (status $1)" >&2
    sleep "$crash_pause_s"
  fi
  scontrol requeue "$SLURM_JOB_ID"
  exit 0
}
