#!/usr/bin/env python3
"""What one build costs beside another: CPU time a step, by turns, of the same deck.

usage: two_builds.py [--rounds N] [--steps N] [--deck DECK] [--record FILE.json] BEFORE AFTER

BEFORE and AFTER are programs (build/swarmpi of two checkouts). Each round runs both, each with 1
and with 2 ranks that share one core, the first of them changing from round to round; a step's CPU
time is that of all processes of a long run less that of one of 10 steps: starts do not count.
$SWARMPI_MPIRUN names mpirun, if it is not the one on PATH. No figure fails it.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where harness/ is

from harness import record, swarm
from harness.program import ROOT

DEADLINE_S = 600
SHORT_STEPS = 10
RANKS = (1, 2)


def children_cpu_s():
    use = resource.getrusage(resource.RUSAGE_CHILDREN)
    return use.ru_utime + use.ru_stime


def cpu_s(program, ranks, deck, steps):
    """CPU time of a run from its start to its end, mpirun's included, on one core."""
    with tempfile.TemporaryDirectory(prefix="swarmpi-turns-") as folder:
        command = [program, "train", deck, "--out", os.path.join(folder, "RUN.h5")]
        command += ["--set", f"train.steps={steps}", "--set", "train.warmup_steps=5"]
        core = str(min(os.sched_getaffinity(0)))
        before_s = children_cpu_s()
        done = subprocess.run(
            ["taskset", "-c", core, *swarm.launch(ranks, bind=False), *command],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        if done.returncode != 0:
            sys.exit(f"{program} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return children_cpu_s() - before_s


def of_a_step(program, ranks, deck, steps):
    long_s = cpu_s(program, ranks, deck, steps)
    return (long_s - cpu_s(program, ranks, deck, SHORT_STEPS)) / (steps - SHORT_STEPS)


def compare(arguments):
    """For each number of ranks the pairs (before, after) of CPU seconds a step."""
    pairs = {ranks: [] for ranks in RANKS}
    programs = [arguments.before, arguments.after]
    for turn in range(arguments.rounds):
        for ranks in RANKS:
            order = programs if turn % 2 == 0 else programs[::-1]
            found = {p: of_a_step(p, ranks, arguments.deck, arguments.steps) for p in order}
            pairs[ranks].append([found[p] for p in programs])
            before, after = pairs[ranks][-1]
            print(
                f"  {ranks} rank(s): {1e3 * before:.2f} ms and {1e3 * after:.2f} ms of CPU a step: "
                f"{after / before:.4f}",
                flush=True,
            )
    return pairs


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=210)
    parser.add_argument("--deck", default=str(ROOT / "inputs" / "quickstart.toml"))
    parser.add_argument("before", type=os.path.abspath)
    parser.add_argument("after", type=os.path.abspath)
    record.add_option(parser)
    arguments = parser.parse_args()
    programs = [arguments.before, arguments.after]
    pairs = compare(arguments)
    figures = {}
    for ranks, found in pairs.items():
        ratios = sorted(after / before for before, after in found)
        figures[f"after_over_before_{ranks}_ranks_ratio"] = statistics.median(ratios)
        figures[f"before_{ranks}_ranks_cpu_s_per_step"] = statistics.median(b for b, _ in found)
        print(
            f"{ranks} rank(s): {statistics.median(ratios):.4f} times the CPU time "
            f"(median of {len(ratios)}; {ratios[0]:.4f} to {ratios[-1]:.4f})"
        )
    record.write(
        arguments.record,
        "CPU time a step of one build over that of an earlier one, by turns: "
        + " after ".join(record.first_line_of(p, "--version") for p in programs[::-1]),
        figures,
        {f"cpu_s_per_step_{ranks}_ranks": found for ranks, found in pairs.items()},
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
