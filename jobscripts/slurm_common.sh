# shellcheck shell=bash
# What train.slurm, gpu.slurm and preemptible.slurm have in common; they source it, and so does
# simulate.slurm for its settings.
# Checks DECK and RUN_DIR, enters the environment, hands the notice of Slurm on to all ranks, and
# decides by what the run has said whether the job is queued again.
set -u

script=${script:?}  # the name of the one that sources this
most_restarts=100
most_fruitless=3
crash_pause_s=10
requeue_tries=3
requeue_pause_s=5

# shellcheck source=jobscripts/run_marks.sh
. "$(dirname "${BASH_SOURCE[0]}")/run_marks.sh"

# Ends the job. Where the log is on a disk that is full the message lands beside the submission.
end() {  # status, message
  printf '%s: %s\n' "$script" "$2" >&2 ||
    printf '%s: %s\n' "$script" "$2" >>"slurm-${SLURM_JOB_ID:-}.out"
  exit "$1"
}

# The description of the script that sources this.
usage() { sed -n '/^# SwarMPI under/,/^# again:/s/^# \{0,1\}//p' "$0" >&2; }

# The head of the scripts gives the output to /dev/null: then it goes to RUN_DIR/slurm-JOB.out, or,
# where that cannot be written, beside the submission. What `sbatch --output` or `--error` names is
# kept.
open_log() {
  local log=slurm-${SLURM_JOB_ID:-}.out
  [[ -n ${SLURM_JOB_ID:-} ]] || return 0
  [[ /dev/stdout -ef /dev/null || /dev/stderr -ef /dev/null ]] || return 0
  if [[ -n ${RUN_DIR:-} ]] && { mkdir -p "$RUN_DIR" && : >>"$RUN_DIR/$log"; } 2>/dev/null; then
    log=$RUN_DIR/$log
  fi
  if [[ /dev/stdout -ef /dev/null ]]; then exec >>"$log"; fi
  if [[ /dev/stderr -ef /dev/null ]]; then exec 2>>"$log"; fi
}

# Leaves where the job has not what its variables ask for: mpirun is told that ranks may share
# cores, and would start any number of them.
check_request() {
  local tasks=${SLURM_NTASKS:-} cpus=${SLURM_CPUS_PER_TASK:-} name
  for name in RANKS THREADS; do
    [[ ${!name:-1} =~ ^[1-9][0-9]{0,5}$ ]] || end 2 "$name must be a number above 0, not ${!name}"
  done
  case ${NETWORK:-tcp} in tcp | ucx) ;; *) end 2 "NETWORK is tcp or ucx, not $NETWORK" ;; esac
  [[ -z $tasks || ${RANKS:-0} -le $tasks ]] ||
    end 2 "RANKS=$RANKS are more peers than the job's tasks, $tasks: raise --ntasks-per-node or\
 --nodes of sbatch"
  [[ -z $cpus || ${THREADS:-0} -le $cpus ]] ||
    end 2 "THREADS=$THREADS are more than the CPUs of a task, $cpus: raise --cpus-per-task"
  echo "$script: ${RANKS:-${tasks:-?}} peers on ${SLURM_JOB_NUM_NODES:-?} nodes;\
 for each ${cpus:-?} CPUs, ${THREADS:-as the deck says} threads; bound to ${BIND:-none};\
 over ${NETWORK:-tcp}"
}

# Where the run is. Leaves where there is nothing to do.
find_run() {
  open_log
  if [[ -z ${SLURM_JOB_ID:-} || -z ${DECK:-} || -z ${RUN_DIR:-} ]]; then
    usage
    exit 2
  fi
  [[ -r $DECK ]] || end 2 "cannot read the deck $DECK"
  check_request
  mkdir -p "$RUN_DIR/checkpoints" || end 2 "cannot write to $RUN_DIR"
  run=$(cd "$RUN_DIR" && pwd -P)
  journal=$run/RUN.h5.journal
  # Newer than this is what the run has written since it was started here.
  started=$run/started.$SLURM_JOB_ID
  agent=$run/prted.$SLURM_JOB_ID
  fruitless=$run/fruitless.$SLURM_JOB_ID  # a line for each start in a row that came to nothing
  trap 'rm -f "$started" "$agent"' EXIT
  ! is_complete "$journal" || end 0 "the run in $run is complete"
  [[ ! -e $run/stop ]] || end 3 "$run/stop is there: remove it to go on"
  [[ ${SLURM_RESTART_COUNT:-0} -lt $most_restarts ]] || end 1 "queued again $most_restarts times"
}

# An env.sh exports its own path as SWARMPI_ENV, and sbatch hands it on.
enter_environment() {
  local environment=${SWARMPI_ENV:-build/env.sh} there
  if [[ ! -r $environment ]]; then
    there=$(compgen -G 'build*/env.sh' | paste -sd ' ')
    end 2 "cannot read $environment: source the env.sh of your build or installation before sbatch,\
 or name it in SWARMPI_ENV${there:+; there is $there}"
  fi
  set +u
  # shellcheck source=/dev/null
  . "$environment"
  set -u
  local program
  for program in mpirun swarmpi; do
    command -v "$program" >/dev/null || end 2 "$environment puts no $program on PATH"
  done
}

# The notice of a preemption or of the time limit, passed on to all ranks by mpirun. CONT must not
# be trapped: Slurm sends it just before, and bash would miss the USR1.
training='' noticed=
notice() {
  [[ -z $noticed && -n $training ]] && kill -USR1 "$training" 2>/dev/null
  noticed=yes
}

# One setting of SET a line. A setting ends where a blank and another SECTION.KEY= follow: values
# may hold blanks, and nothing is taken for a pattern of file names.
settings() {
  sed -E 's/[[:blank:]]+([A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+=)/\n\1/g' <<<"${SET:-}" |
    sed -E 's/^[[:blank:]]+//; s/[[:blank:]]+$//; /^$/d'
}

# Adds them to `arguments`, those of swarmpi.
add_settings() {
  local setting
  while read -r setting; do arguments+=(--set "$setting"); done < <(settings)
}

# Sets `launch`: mpirun with its options. What MPIRUN_OPTIONS says of the mapping replaces ours.
# "oversubscribe" also keeps Open MPI from binding each rank, with all its threads, to one core.
choose_options() {
  local own mapping=node version
  IFS=$' \t\n' read -r -d '' -a own <<<"${MPIRUN_OPTIONS:-}"
  launch=(mpirun)
  version=$(mpirun --version 2>/dev/null)
  if [[ $version == *"(Open MPI)"* || $version == *OpenRTE* ]]; then
    if [[ $version == *"(Open MPI) 5."* ]]; then
      [[ ${NETWORK:-tcp} != tcp ]] || launch+=(--with-ft ulfm)
      mapping+=:oversubscribe
    else
      launch+=(--oversubscribe)
    fi
    [[ ${BIND:-} != core ]] || mapping+=:pe=${THREADS:-1}
    [[ " ${own[*]} " == *" --map-by "* ]] || launch+=(--map-by "$mapping")
    [[ -z ${BIND:-} ]] || launch+=(--bind-to "$BIND")
  fi
  [[ -z ${RANKS:-} ]] || launch+=(-n "$RANKS")
  launch+=("${own[@]}")
}

# With ULFM the program lets Open MPI use nothing but shared memory and TCP: without it Open MPI is
# free to use UCX, unless the environment says otherwise.
choose_network() {
  [[ ${NETWORK:-tcp} == ucx ]] || return 0
  unset OMPI_MCA_btl OMPI_MCA_coll
  export OMPI_MCA_pml=ucx
}

# Starts mpirun in the background; its process is `training`.
start_training() {
  local launch arguments
  choose_options
  choose_network
  arguments=("$DECK" --out "$run/RUN.h5" --set "output.checkpoint=$run/checkpoints"
             --resume "$run/checkpoints")
  [[ -z ${THREADS:-} ]] || arguments+=(--set "compute.threads=$THREADS")
  add_settings
  touch "$started" || end 2 "cannot write to $run"
  ! has_no_room "${TMPDIR:-/tmp}" || end 3 "$(session_needs_room)"
  log_begin=$(log_bytes)
  # No `timeout` before it: that would die of USR1.
  "${launch[@]}" swarmpi train "${arguments[@]}" </dev/null &
  training=$!
  [[ -z $noticed ]] || kill -USR1 "$training"
}

log_bytes() { stat -L -c %s "/proc/$$/fd/2" 2>/dev/null || echo 0; }

# The messages of the run in this log since it was started, without warnings, which end nothing, and
# without what options of mpirun put before each line (--tag-output, --timestamp-output).
messages() {
  local prefix='(\[[^]]*\])*(<std(err|out)[^>]*>)?:? ?'
  tail -c +$((log_begin + 1)) "/proc/$$/fd/2" 2>/dev/null | tr -d '\000' |
    sed -nE "s/^${prefix}swarmpi: //p" | grep -v '^warning: '
}

# Sets `verdict` to the status with which the run itself has ended since it was started, `why` to
# its reason; to nothing where it was ended by something else. The status of mpirun is no such word:
# it is 1 or 2 also where a daemon of mpirun did not start.
read_verdict() {
  local words
  verdict='' why=
  if [[ $journal/ended -nt $started ]]; then
    { read -r words && read -r why; } <"$journal/ended"
    verdict=${words##* }
  elif [[ $1 == [12] && -z $(find "$journal" -name 'term-*' -newer "$started" 2>/dev/null) ]] &&
       [[ -n $(messages) ]]; then
    # It never began: bad input.
    verdict=$1 why="see its message above"
  fi
}

# Whether the run has ended for want of room, or there is none now. On a full disk there may be
# neither mark nor log: a probe tells.
disk_is_full() {
  local full="$no_room|no room" folder
  if [[ -n $why ]]; then
    [[ ! $why =~ $full ]] || return 0
  elif [[ $(messages) =~ $full ]]; then
    return 0
  fi
  for folder in "$run" "$run/checkpoints"; do
    if has_no_room "$folder"; then return 0; fi
  done
  return 1
}

# Slurm may have been quicker: a job that it has preempted by itself waits already.
queue_again() {
  local try answer
  for ((try = 1; ; ++try)); do
    if answer=$(scontrol requeue "$SLURM_JOB_ID" 2>&1) || [[ $answer == *"pending execution"* ]]
    then
      exit 0
    fi
    [[ $try -lt $requeue_tries ]] || break
    sleep "$requeue_pause_s"
  done
  end 3 "job $SLURM_JOB_ID could not be queued again ($answer). The run in $run is not complete:\
 submit it again with the same DECK and RUN_DIR, and it goes on from its last checkpoint"
}

# Leaves when as many starts in a row as may be have ended without notice before they have made a
# checkpoint: the next one would do the same work again.
give_up_if_fruitless() {
  if [[ -n $(find "$run/checkpoints" -name manifest -newer "$started" 2>/dev/null) ]]; then
    rm -f "$fruitless"
    return
  fi
  date >>"$fruitless"
  [[ $(wc -l <"$fruitless") -ge $most_fruitless ]] || return 0
  rm -f "$fruitless"
  end 3 "$most_fruitless starts in a row have ended before they have made a checkpoint: see what is\
 said above, and submit again; a smaller output.checkpoint_every_s may help"
}

# After the training: done, a matter for a person, or queued again. REQUIRES: the status of mpirun.
go_on_or_end() {
  local verdict why
  if is_complete "$journal"; then
    rm -f "$fruitless"
    exit 0
  fi
  read_verdict "$1"
  if [[ $verdict != [12] ]] && disk_is_full; then
    end 3 "no room left for the run in $run: free some and submit it again, and it goes on"
  fi
  case $verdict in 1 | 2) end "$verdict" "swarmpi train ended with status $verdict: $why" ;; esac
  [[ $why != *max_hours* ]] || end 3 "$why: submit it again, and it goes on"
  [[ ! -e $run/stop ]] || end 3 "stopped; remove $run/stop and submit again to go on"
  if [[ -n $noticed ]]; then
    rm -f "$fruitless"
  else
    echo "$script: ended without notice (status $1 of mpirun${why:+; $why})" >&2
    give_up_if_fruitless
    sleep "$crash_pause_s"
  fi
  queue_again
}
