"""How long after a SIGKILL the lost work runs again: kills ranks of real swarms, one at a time.

Counts from the signal until the line of the repair, which is durable by then, has come through
mpirun. What a death costs the whole run is measured by time_lost.py. Devices are emulated, so that
the cores are idle: the machine, not its load, is measured.

usage: recovery_time.py [--runs N] [--ranks N] [--seed S]
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
import threading
import time

from harness import BINARY, DECK, MPIRUN, end_tree, launch, launch_environment
from harness import ranks_of, wait_for, words

DEVICE = '[devices.slow]\ngflops = 0.5\n[[peers]]\npeers = {peers}\ndevice = "slow"\n'
EMULATED = ("compute.fidelity=emulated", "swarm.stages=2")
BOUNDS_MS = (2, 5, 10, 15, 20, 30, 50, 100, 200, 500, float("inf"))
LEFT = 3
DEADLINE_S = 10


class Swarm:
    """A swarm that trains on emulated devices, and when its deaths and repairs were told."""

    def __init__(self, folder, ranks, *settings):
        data, deck = os.path.join(folder, "data.bin"), os.path.join(folder, "deck.toml")
        with open(data, "w", encoding="ascii") as file:
            file.write(words(1, 600))
        with open(deck, "w", encoding="ascii") as file:
            file.write(DECK.format(data=data) + DEVICE.format(peers=list(range(ranks))))
        self.run = os.path.join(folder, "RUN.h5")
        arguments = ["train", deck, "--out", self.run]
        for setting in (*EMULATED, *settings):
            arguments += ["--set", setting]
        self.process = subprocess.Popen(
            [*launch(ranks, bind=False), BINARY, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=launch_environment(),
        )
        self.told = {" kill ": queue.Queue(), " repair ": queue.Queue()}
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        wait_for(lambda: os.path.exists(self.run + ".journal/term-1"))
        time.sleep(1)
        self.pids = ranks_of(self.process)

    def read(self):
        for line in self.process.stdout:
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
        return tuple(times.get(timeout=DEADLINE_S) - killed for times in self.told.values())

    def end(self):
        end_tree(self.process)
        self.process.wait()
        self.reader.join(DEADLINE_S)


def show(name, times_s, bounds_ms=BOUNDS_MS):
    """A line, and a histogram."""
    times_ms = sorted(1e3 * time_s for time_s in times_s)
    print(
        f"{name}: {len(times_ms)}, median {times_ms[len(times_ms) // 2]:.1f} ms, "
        f"99th percentile {times_ms[min(len(times_ms) - 1, int(0.99 * len(times_ms)))]:.1f} ms, "
        f"longest {times_ms[-1]:.1f} ms"
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
    options = parser.parse_args()
    if not MPIRUN or "ulfm" not in launch(1):
        print("there is no MPI that reports deaths")
        return 77
    rng = random.Random(options.seed)
    of_leaders, of_others = [], []
    for _ in range(options.runs):
        with tempfile.TemporaryDirectory(prefix="swarmpi-recovery-") as folder:
            swarm = Swarm(folder, options.ranks, "train.steps=100000")
            try:
                while len(swarm.pids) > LEFT:
                    leads = rng.random() < 0.3
                    rank = min(swarm.pids) if leads else rng.choice(sorted(swarm.pids)[1:])
                    (of_leaders if leads else of_others).append(swarm.kill(rank)[1])
                    time.sleep(0.2 * rng.random())
            finally:
                swarm.end()
    show("deaths of leaders", of_leaders)
    show("deaths of others", of_others)
    show("all deaths", of_leaders + of_others)
    return 0


if __name__ == "__main__":
    sys.exit(main())
