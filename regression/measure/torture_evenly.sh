#!/bin/sh
# Torture, spread evenly over all combinations of delayed updates, joins, shadows and cuts: a line
# for each, and what they come to. Status 1: some failed.
#   regression/measure/torture_evenly.sh [--record FILE.json] SWARMPI [SCHEDULES [SEED]]
# SCHEDULES is the number of all, e.g. 1000000. As many run at a time as there are cores; traces of
# failures land in the working directory. --json: a last line with the figures, for record.py.
set -eu

json=0
case ${1:--h} in
  -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
  --record)
    record=$2
    shift 2
    SWARMPI=$1 exec python3 "$(dirname "$0")/../harness/record.py" --record "$record" -- \
      "$0" --json "$@" ;;
  --json) json=1; shift ;;
esac
swarmpi=$1
each=$((${2:-1000000} / 16))
seed=${3:-1}

combinations() {
  number=0
  for delayed in with without; do
    for joins in with without; do
      for shadows in with without; do
        for cuts in with without; do
          echo "$((seed + number)) --$delayed delayed --$joins joins" \
            "--$shadows shadows --$cuts cuts"
          number=$((number + 1))
        done
      done
    done
  done
}

started=$(date +%s)
# shellcheck disable=SC2016  # the inner shell expands
lines=$(combinations | xargs -P "$(nproc)" -d '\n' -n 1 sh -c '
  set -- "$1" "$2" ${3}
  swarmpi=$1 each=$2 seed=$3
  shift 3
  text=$("$swarmpi" torture --schedules "$each" --seed "$seed" "$@" 2>&1) || true
  failures=$(echo "$text" | grep -A 1 "^schedule .* failed" | tr "\n" " ")
  echo "seed $seed $*: $(echo "$text" | grep " schedules a minute") $failures"
' sh "$swarmpi" "$each")
echo "$lines" | sort -k 2n
echo "$lines" | awk -v json="$json" -v seconds="$(($(date +%s) - started))" '
  { for (i = 2; i <= NF; ++i) {
      if ($i == "schedules,") schedules += $(i - 1)
      if ($i == "deaths,") kills += $(i - 1)
      if ($i == "failed;") { failed += $(i - 1); ++runs }
    } }
  END {
    printf "all: %d schedules, %d deaths, %d failed, %d s\n", schedules, kills, failed, seconds
    if (json) {
      printf "{\"what\": \"Torture, evenly over delayed updates, joins, shadows and cuts.\", "
      printf "\"figures\": {\"schedules\": %d, \"deaths\": %d, ", schedules, kills
      printf "\"failed_schedules\": %d, \"wall_s\": %d}}\n", failed, seconds
    }
    exit runs == 16 && failed == 0 ? 0 : 1
  }'
