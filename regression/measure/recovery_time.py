#!/usr/bin/env python3
"""How long after a SIGKILL the lost work runs again: kills ranks of real swarms, one at a time.

Counts from the signal until the line of the repair, which is durable by then, has come through
mpirun. What a death costs the whole run is measured by time_lost.py. Devices are emulated, so that
the cores are idle: the machine, not its load, is measured.

usage: recovery_time.py [--runs N] [--ranks N] [--seed S] [--record FILE.json]
The program is $SWARMPI; needs an Open MPI with ULFM.
"""

import argparse
import collections
import os
import queue
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where harness/ is

from harness import program, record
from harness.processes import wait_for
from harness.program import BINARY
from harness.swarm import Swarm, reports_deaths

DEVICE = '[devices.slow]\ngflops = 0.5\n[[peers]]\npeers = {peers}\ndevice = "slow"\n'
EMULATED = ("compute.fidelity=emulated", "swarm.stages=2")
BOUNDS_MS = (2, 5, 10, 15, 20, 30, 50, 100, 200, 500, float("inf"))
LEFT = 3
DEADLINE_S = 10


class WatchedSwarm:
    """A swarm that trains on emulated devices, and when its deaths and repairs were told."""

    def __init__(self, folder, ranks, *settings):
        deck, _ = program.write_deck(folder, DEVICE.format(peers=list(range(ranks))))
        self.run = os.path.join(folder, "RUN.h5")
        arguments = program.train_arguments(deck, self.run, *EMULATED, *settings, quiet=False)
        self.told = {" kill ": queue.Queue(), " repair ": queue.Queue()}
        self.swarm = Swarm(
            ranks, [BINARY, *arguments], bind=False, stderr=subprocess.STDOUT, on_line=self.hear
        )

    def __enter__(self):
        try:
            wait_for(lambda: os.path.exists(self.run + ".journal/term-1"), "the journal")
            time.sleep(1)
            self.pids = self.swarm.ranks()
        except BaseException:
            self.swarm.end()
            raise
        return self

    def __exit__(self, *exception):
        self.swarm.end()

    def hear(self, line):
        for what, times in self.told.items():
            if what in line:
                times.put(time.monotonic())

    def kill(self, rank):
        """Seconds until the death, and until the repair, were told."""
        for times in self.told.values():
            while not times.empty():
                times.get()
        killed = time.monotonic()
        os.kill(self.pids.pop(rank), signal.SIGKILL)
        return tuple(self.time_of(what) - killed for what in self.told)

    def time_of(self, what):
        try:
            return self.told[what].get(timeout=DEADLINE_S)
        except queue.Empty:
            raise TimeoutError(f"waited {DEADLINE_S} s for a line with{what}") from None


def quantiles_ms(times_s):
    """Figures for a record; at least one time is needed."""
    times_ms = sorted(1e3 * time_s for time_s in times_s)
    last = len(times_ms) - 1
    return {
        "median_ms": times_ms[len(times_ms) // 2],
        "99th_percentile_ms": times_ms[min(last, int(0.99 * len(times_ms)))],
        "longest_ms": times_ms[last],
    }


def show(name, times_s, bounds_ms=BOUNDS_MS):
    """Prints a line, and a histogram."""
    if not times_s:
        print(f"{name}: none")
        return
    times_ms = [1e3 * time_s for time_s in times_s]
    median_ms, most_ms, longest_ms = quantiles_ms(times_s).values()
    print(
        f"{name}: {len(times_ms)}, median {median_ms:.1f} ms, "
        f"99th percentile {most_ms:.1f} ms, longest {longest_ms:.1f} ms"
    )
    counts = collections.Counter(
        next(bound for bound in bounds_ms if time_ms <= bound) for time_ms in times_ms
    )
    for bound in bounds_ms:
        bar = "#" * round(60 * counts[bound] / len(times_ms))
        print(f"  up to {bound:5} ms {counts[bound]:6}  {bar}".rstrip())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    record.add_option(parser)
    options = parser.parse_args()
    if not reports_deaths():
        print("not run: there is no MPI that reports deaths")
        return 77
    rng = random.Random(options.seed)
    of_leaders, of_others = [], []
    for _ in range(options.runs):
        with tempfile.TemporaryDirectory(prefix="swarmpi-recovery-") as folder:
            with WatchedSwarm(folder, options.ranks, "train.steps=100000") as swarm:
                while len(swarm.pids) > LEFT:
                    leads = rng.random() < 0.3
                    rank = min(swarm.pids) if leads else rng.choice(sorted(swarm.pids)[1:])
                    (of_leaders if leads else of_others).append(swarm.kill(rank)[1])
                    time.sleep(0.2 * rng.random())
    show("deaths of leaders", of_leaders)
    show("deaths of others", of_others)
    show("all deaths", of_leaders + of_others)
    record.write(
        options.record,
        "The time from a SIGKILL until the repair is durable and its line has come through mpirun; "
        f"{options.ranks} ranks on emulated devices.",
        {"deaths": len(of_leaders + of_others), **quantiles_ms(of_leaders + of_others)},
        {"of_leaders_s": of_leaders, "of_others_s": of_others},
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
