#!/usr/bin/env python3
"""The memory that ranks take, at most, against what `swarmpi check` says that they will.

Without and with what is kept for repairs. What the process takes itself is measured with a tiny
model on as many ranks. The whole table needs some 3 GiB, and ten minutes; --quick has only two
rows, and ends with status 1 where a peak is more than 10 % beyond what was said, or below it.

usage: memory_use.py [--steps N] [--full-of WHAT] [--quick] [--record FILE.json]
The program is $SWARMPI, its launcher $SWARMPI_MPIRUN.
"""

import argparse
import os
import re
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where harness/ is

from harness import program, record
from harness.program import BINARY
from harness.swarm import MPIRUN, Swarm

DECK = """
[model]
layers = {layers}
width = {width}
heads = 4
context = {context}
vocab = 128
[data]
paths = ["{data}"]
[train]
steps = {steps}
microbatches = {microbatches}
microbatch_size = {size}
[output]
validate_every = 0
checkpoint_every = 0
"""
# Its many steps are over in a second, in which every rank is seen.
TINY = {"steps": 300, "layers": 4, "width": 16, "context": 16, "microbatches": 4, "size": 1}
# What ranks are full of: weights and sums; activations that are kept; boundaries that are kept.
KINDS = {
    "weights": ({"layers": 4, "width": 512, "context": 128, "microbatches": 4, "size": 2},),
    "activations": ({"layers": 4, "width": 384, "context": 256, "microbatches": 8, "size": 4},),
    "boundaries": (
        {"layers": 4, "width": 256, "context": 256, "microbatches": 24, "size": 8},
        "compute.recompute=always",
    ),
}
SWARMS = ((1, 1), (2, 2), (4, 2), (4, 4))
TOLERANCE = 0.1
UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
DEADLINE_S = 300


def size_bytes(text):
    number, unit = text.split()
    return float(number) * UNITS[unit]


class Folder:
    """A deck for each model, and runs of it."""

    def __init__(self, folder, steps):
        self.folder = folder
        self.steps = steps
        self.data = program.write_data(folder, 20000)
        self.runs = 0

    def arguments(self, command, model, *settings):
        deck = os.path.join(self.folder, "deck.toml")
        with open(deck, "w", encoding="ascii") as file:
            file.write(DECK.format(data=self.data, **{"steps": self.steps, **model}))
        return program.with_settings([command, deck], settings)

    def predicted(self, model, *settings):
        """The peer that `check` names, what it needs, and what it keeps at most for repairs."""
        text = program.run(*self.arguments("check", model, *settings)).stdout
        peer, needs = re.search(
            r"largest peer +peer (\d+) with stages? [\d,-]+: ([\d.]+ \w+),", text
        ).groups()
        kept = re.search(r"keeps at most ([\d.]+ \w+) of what", text)
        return int(peer), size_bytes(needs), size_bytes(kept[1]) if kept else 0

    def peaks(self, ranks, model, *settings):
        """Bytes of each rank."""
        self.runs += 1
        run = os.path.join(self.folder, f"run{self.runs}", "RUN.h5")
        os.makedirs(os.path.dirname(run))
        arguments = [*self.arguments("train", model, *settings), "--quiet", "--out", run]
        peaks, pids = {}, {}
        # What it says, which is little, goes where this program's own output goes.
        with Swarm(ranks, [BINARY, *arguments], bind=False, stdout=None, stderr=None) as swarm:
            end = time.monotonic() + DEADLINE_S
            while swarm.poll() is None:
                if time.monotonic() > end:
                    raise TimeoutError(f"waited {DEADLINE_S} s for the end of {swarm.args}")
                if len(pids) < ranks:
                    pids = swarm.ranks()
                for rank, pid in pids.items():
                    peaks[rank] = max(peaks.get(rank, 0), peak_bytes(pid))
                time.sleep(0.02)
        if not os.path.exists(run + ".journal/complete"):
            raise RuntimeError(f"the run did not end well: {settings}")
        return peaks


def peak_bytes(pid):
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            return int(re.search(r"VmHWM:\s+(\d+) kB", file.read())[1]) * 1024
    except (OSError, TypeError):  # it has just ended
        return 0


def measure(folder, kind, ranks, stages, recovery):
    """Prints a row; returns it: "ratio" is the largest peak over what was said to be needed."""
    model, *settings = KINDS[kind]
    settings += [f"swarm.peers={ranks}", f"swarm.stages={stages}", f"swarm.recovery={recovery}"]
    peer, needs, kept = folder.predicted(model, *settings)
    _, tiny, _ = folder.predicted(TINY, *settings)
    itself = folder.peaks(ranks, TINY, *settings)[peer] - tiny
    peaks = folder.peaks(ranks, model, *settings)
    largest = max(peaks, key=peaks.get)
    grown = peaks[largest] - itself
    mib = [size / 2**20 for size in (needs, kept, itself, peaks[largest])]
    print(
        f"{kind:<11} {ranks:6} {stages:6}  {recovery:<8} {mib[0]:6.1f} {mib[1]:8.1f} {mib[2]:7.1f} "
        f"{mib[3]:6.1f}  {grown / needs:7.2f}    "
        + " ".join(f"{peaks[rank] / 2**20:.0f}" for rank in sorted(peaks)),
        flush=True,
    )
    return {
        "full_of": kind,
        "ranks": ranks,
        "stages": stages,
        "recovery": recovery,
        "needed_bytes": needs,
        "itself_bytes": itself,
        "peak_bytes": [peaks[rank] for rank in sorted(peaks)],
        "ratio": grown / needs,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--full-of", choices=KINDS, default=None)
    parser.add_argument("--quick", action="store_true")
    record.add_option(parser)
    options = parser.parse_args()
    if not MPIRUN:
        print("not run: there is no mpirun")
        return 77
    if "-fsanitize" in program.run("info").stdout:
        print("not run: a sanitizer takes memory of its own")
        return 77
    kinds = [options.full_of] if options.full_of else ["weights"] if options.quick else list(KINDS)
    swarms = SWARMS[1:2] if options.quick else SWARMS
    print(
        "full of      ranks stages  recovery    MiB  repairs  itself   peak    less  peaks of all\n"
        "largest peer:                        needed  at most                 itself,\n"
        "                                                                 over needed"
    )
    rows = []
    with tempfile.TemporaryDirectory(prefix="swarmpi-memory-") as path:
        folder = Folder(path, options.steps)
        for kind in kinds:
            for ranks, stages in swarms:
                for recovery in ("off", "lineage"):
                    rows.append(measure(folder, kind, ranks, stages, recovery))
    ratios = [row["ratio"] for row in rows]
    record.write(
        options.record,
        "The peak memory of the largest peer, less what the process takes itself, over what "
        "`swarmpi check` predicts.",
        {"least_ratio": min(ratios), "largest_ratio": max(ratios)},
        rows,
    )
    worst = max(abs(ratio - 1) for ratio in ratios)
    return 1 if options.quick and worst > TOLERANCE else 0


if __name__ == "__main__":
    sys.exit(main())
