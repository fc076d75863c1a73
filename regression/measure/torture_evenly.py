#!/usr/bin/env python3
"""Torture, spread evenly over all combinations of features, and what all of them come to.

A share of the schedules uses static pipelines, and in a twentieth of them terms of another run
appear, both evenly over joins and cuts; the others are spread evenly over delayed updates, joins,
shadows and cuts. Each combination is a run of `swarmpi torture`
with a seed of its own. A line for each, as it ends; then sums of all that they count.

usage: torture_evenly.py [--schedules N] [--seed S] [--static SHARE] [--real] [--processes P]
                         [--record FILE.json]
The program is $SWARMPI; traces of schedules that fail land in the working directory.
Exit status: 0 all schedules have passed; 1 some have failed, or a run did not end well.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where harness/ is

from harness import record
from harness.program import BINARY

SWARM = ("delayed", "joins", "shadows", "cuts")
STATIC = ("joins", "cuts")  # static pipelines have neither delayed updates nor shadows
OUTBID_SHARE = 0.05


def combinations(features, always=()):
    """The options of each combination of features that schedules have or have not."""
    for chosen in itertools.product(("--with", "--without"), repeat=len(features)):
        yield [*always, *(word for pair in zip(chosen, features) for word in pair)]


def runs(schedules, static):
    """Options and schedules of each run; the schedules are at least as many as asked for."""
    swarm = list(combinations(SWARM))
    pipelines = list(combinations(STATIC, ("--with", "pipelines")))
    outbid = list(combinations(STATIC, ("--with", "outbids")))
    shares = (1 - static - OUTBID_SHARE, static, OUTBID_SHARE)
    for group, share in zip((swarm, pipelines, outbid), shares):
        each = -(-round(schedules * share) // len(group))
        if each:
            yield from ((options, each) for options in group)


def torture(number, options, schedules, seed, real):
    """One run: prints what came of it, and returns all that it counted; {} if it did not end."""
    command = [BINARY, "torture", "--schedules", str(schedules), "--seed", str(seed + number)]
    command += ["--json", *(["--real"] if real else []), *options]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    lines = done.stdout.splitlines()
    found = record.found_in(lines[-1]) if lines else None
    shown = [f"seed {seed + number} {' '.join(options)}:"]
    shown += [line for line in lines if " schedules a minute" in line] or [done.stdout[-2000:]]
    shown += [
        " ".join(lines[i : i + 2]) for i, line in enumerate(lines) if " failed: " in line
    ]
    print(" ".join(shown), flush=True)
    return found["figures"] if found else {}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--schedules", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--static", type=float, default=0.15, metavar="SHARE")
    parser.add_argument("--real", action="store_true", help="reference kernels, tiny models")
    parser.add_argument(
        "--processes", type=int, default=len(os.sched_getaffinity(0)), metavar="P"
    )
    record.add_option(parser)
    options = parser.parse_args()
    started_s = time.monotonic()
    with ThreadPoolExecutor(options.processes) as pool:
        results = list(
            pool.map(
                lambda run: torture(run[0], *run[1], options.seed, options.real),
                enumerate(runs(options.schedules, options.static)),
            )
        )
    ended = [figures for figures in results if figures]
    total = {name: sum(figures[name] for figures in ended) for name in (ended or [{}])[0]}
    wall_s = round(time.monotonic() - started_s)
    print(f"all, {wall_s} s on {options.processes} processes:")
    for name, count in total.items():
        print(f"  {name:45} {count:13,}")
    complete = len(ended) == len(results)
    if not complete:
        print(f"{len(results) - len(ended)} of {len(results)} runs did not end well: no record")
    else:
        kernels = "reference kernels" if options.real else "synthetic sums"
        record.write(
            options.record,
            f"Torture with {kernels}, evenly over delayed updates, joins, shadows and cuts, and "
            f"{options.static:g} of it with static pipelines, {OUTBID_SHARE:g} of it with terms of "
            f"another run; seed {options.seed}.",
            {**total, "wall_s": wall_s},
        )
    return 0 if complete and total["failed_schedules"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
