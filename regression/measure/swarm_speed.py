#!/usr/bin/env python3
"""What being a swarm costs, what idle ranks cost, and what the wiring makes of uneven peers.

usage: swarm_speed.py [--rounds N] [cost] [idle] [uneven]      default: all three

`cost`: four stages on four ranks that share one core, beside one rank with the same work, by turns;
the CPU time of all processes, mpirun and the start included. `idle`: spares of a run that trains;
their CPU time over ten seconds. `uneven`: one of four emulated peers is four times slower; tokens
per second beside those of perfect balance, for iwrr and fixed. SWARMPI and SWARMPI_MPIRUN name the
program and mpirun, if they are not build/swarmpi and on PATH. It is a measurement, not a gate.
"""

import argparse
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from harness import BINARY, launch, ranks_of, wait_for, words

DECK = """
[model]
layers = {layers}
width = {width}
heads = 2
context = {context}
vocab = 128
[data]
paths = ["{data}"]
[train]
steps = {steps}
microbatches = {microbatches}
microbatch_size = {size}
lr = 1e-3
[swarm]
"""
LARGE = {"layers": 4, "width": 256, "context": 128, "steps": 80, "microbatches": 8, "size": 4}
SMALL = {"layers": 2, "width": 32, "context": 32, "steps": 15, "microbatches": 52, "size": 2}
FAST_GFLOPS, SLOW_GFLOPS = 1.0, 0.25
EMULATED = f"""window = 12
[compute]
fidelity = "emulated"
[devices.fast]
gflops = {FAST_GFLOPS}
[devices.slow]
gflops = {SLOW_GFLOPS}
[[peers]]
peers = [0, 1, 2]
device = "fast"
[[peers]]
peers = [3]
device = "slow"
"""


class Place:
    """A folder with data and decks; every run gets a folder of its own."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="swarmpi-speed-")
        self.runs = 0
        self.data = os.path.join(self.folder, "data.bin")
        with open(self.data, "w", encoding="ascii") as file:
            file.write(words(1, 3000))

    def deck(self, shape, more=""):
        path = os.path.join(self.folder, "deck.toml")
        with open(path, "w", encoding="ascii") as file:
            file.write(DECK.format(data=self.data, **shape) + more)
        return path

    def command(self, deck, *settings):
        self.runs += 1
        folder = os.path.join(self.folder, str(self.runs))
        os.mkdir(folder)
        command = [BINARY, "train", deck, "--quiet", "--out", os.path.join(folder, "RUN.h5")]
        return command + [word for setting in settings for word in ("--set", setting)]


def children_cpu_s():
    use = resource.getrusage(resource.RUSAGE_CHILDREN)
    return use.ru_utime + use.ru_stime


def cpu_s_of(command):
    before_s = children_cpu_s()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return children_cpu_s() - before_s


def cost(place, rounds):
    deck = place.deck(LARGE, "stages = 4\n")
    core = ["taskset", "-c", str(min(os.sched_getaffinity(0)))]
    ratios = []
    for _ in range(rounds):
        one_s = cpu_s_of(core + place.command(deck))
        four_s = cpu_s_of(core + launch(4, bind=False) + place.command(deck))
        ratios.append(four_s / one_s)
        print(f"  one rank {one_s:.1f} s, four ranks {four_s:.1f} s of CPU: {ratios[-1]:.3f}")
    print(f"cost: {statistics.median(ratios):.3f} times the CPU time of one rank (median)")


def cpu_ticks(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def idle(place):
    spares, seconds = 6, 10
    deck = place.deck(dict(LARGE, steps=100000), f"stages = 2\nspares = {spares}\n")
    with subprocess.Popen(launch(2 + spares) + place.command(deck)) as process:
        wait_for(lambda: len(ranks_of(process)) == 2 + spares)
        time.sleep(3)
        waiting = [pid for rank, pid in ranks_of(process).items() if rank >= 2]
        before = [cpu_ticks(pid) for pid in waiting]
        time.sleep(seconds)
        used = [cpu_ticks(pid) - b for pid, b in zip(waiting, before)]
        for pid in ranks_of(process).values():
            os.kill(pid, signal.SIGUSR1)
    shares = [100 * ticks / os.sysconf("SC_CLK_TCK") / seconds for ticks in used]
    print(f"idle: {min(shares):.1f} to {max(shares):.1f} % of a core a rank, {spares} ranks")


def uneven(place):
    import h5py

    flops = subprocess.run(
        [BINARY, "check", place.deck(SMALL, EMULATED)], capture_output=True, text=True, check=True
    ).stdout
    per_token = next(line for line in flops.splitlines() if "FLOPs per token" in line).split()
    unit = {"k": 1e3, "M": 1e6}[per_token[5]]
    perfect = (3 * FAST_GFLOPS + SLOW_GFLOPS) * 1e9 / (float(per_token[4]) * unit)
    for wiring in ("iwrr", "fixed"):
        command = place.command(place.deck(SMALL, EMULATED), f"swarm.wiring={wiring}")
        subprocess.run(launch(4) + command, check=True)
        with h5py.File(command[command.index("--out") + 1]) as run:
            times_s, tokens = run["steps/time_s"][:], run["steps/tokens"][:]
        rate = tokens[4:].sum() / (times_s[-1] - times_s[3])
        print(f"uneven: {wiring} {rate:.0f} tokens/s, {100 * rate / perfect:.1f} % of perfect")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("what", nargs="*", default=["cost", "idle", "uneven"])
    arguments = parser.parse_args()
    os.environ.setdefault("OMPI_ALLOW_RUN_AS_ROOT", "1")
    os.environ.setdefault("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
    place = Place()
    try:
        for what in arguments.what:
            if what == "cost":
                cost(place, arguments.rounds)
            elif what == "idle":
                idle(place)
            elif what == "uneven":
                uneven(place)
            else:
                parser.error(f"what is {what}?")
    finally:
        shutil.rmtree(place.folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
