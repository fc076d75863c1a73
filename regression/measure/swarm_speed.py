#!/usr/bin/env python3
"""What being a swarm costs, what idle ranks cost, and what the wiring makes of uneven peers.

usage: swarm_speed.py [--rounds N] [--record FILE.json] [cost] [idle] [uneven]

Without a name all three are measured. `cost`: four stages on four ranks that share one core, beside
one rank with the same work, by turns; the CPU time of all processes, mpirun and the start included.
`idle`: spares of a run that trains; their CPU time over ten seconds. `uneven`: one of four emulated
peers is four times slower; tokens per second beside those of perfect balance, for iwrr and fixed.
$SWARMPI and $SWARMPI_MPIRUN name the program and mpirun, if they are not build/swarmpi and on PATH.
No figure fails it.
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
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where harness/ is

from harness import program, record
from harness.processes import wait_for
from harness.program import BINARY
from harness.swarm import Swarm

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
DEADLINE_S = 300
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
        self.data = program.write_data(self.folder, 3000)

    def deck(self, shape, more=""):
        path = os.path.join(self.folder, "deck.toml")
        with open(path, "w", encoding="ascii") as file:
            file.write(DECK.format(data=self.data, **shape) + more)
        return path

    def command(self, deck, *settings):
        self.runs += 1
        folder = os.path.join(self.folder, str(self.runs))
        os.mkdir(folder)
        run = os.path.join(folder, "RUN.h5")
        return [BINARY, *program.train_arguments(deck, run, *settings)]


def children_cpu_s():
    use = resource.getrusage(resource.RUSAGE_CHILDREN)
    return use.ru_utime + use.ru_stime


def on_one_core(command):
    return ["taskset", "-c", str(min(os.sched_getaffinity(0))), *command]


def cpu_s_of_process(command):
    before_s = children_cpu_s()
    subprocess.run(
        on_one_core(command), stdout=subprocess.DEVNULL, check=True, timeout=DEADLINE_S
    )
    return children_cpu_s() - before_s


def cpu_s_of_swarm(ranks, command):
    before_s = children_cpu_s()
    train(ranks, command, bind=False, within=on_one_core, stdout=subprocess.DEVNULL)
    return children_cpu_s() - before_s


def train(ranks, command, **options):
    with Swarm(ranks, command, **options) as swarm:
        status, _, err = swarm.result()
    if status != 0:
        raise RuntimeError(f"status {status} of {command}: {err}")


def cost(place, rounds):
    deck = place.deck(LARGE, "stages = 4\n")
    ratios = []
    for _ in range(rounds):
        one_s = cpu_s_of_process(place.command(deck))
        four_s = cpu_s_of_swarm(4, place.command(deck))
        ratios.append(four_s / one_s)
        print(f"  one rank {one_s:.1f} s, four ranks {four_s:.1f} s of CPU: {ratios[-1]:.3f}")
    print(f"cost: {statistics.median(ratios):.3f} times the CPU time of one rank (median)")
    figures = {"four_ranks_over_one_cpu_time_ratio": statistics.median(ratios)}
    return figures, {"cpu_time_ratio": ratios}


def cpu_ticks(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def idle(place):
    spares, seconds = 6, 10
    deck = place.deck(dict(LARGE, steps=100000), f"stages = 2\nspares = {spares}\n")
    with Swarm(2 + spares, place.command(deck)) as swarm:
        wait_for(lambda: len(swarm.ranks()) == 2 + spares, f"{2 + spares} ranks")
        time.sleep(3)
        waiting = [pid for rank, pid in swarm.ranks().items() if rank >= 2]
        before = [cpu_ticks(pid) for pid in waiting]
        time.sleep(seconds)
        used = [cpu_ticks(pid) - b for pid, b in zip(waiting, before)]
        for pid in swarm.ranks().values():
            os.kill(pid, signal.SIGUSR1)
        swarm.result()
    shares = [100 * ticks / os.sysconf("SC_CLK_TCK") / seconds for ticks in used]
    print(f"idle: {min(shares):.1f} to {max(shares):.1f} % of a core a rank, {spares} ranks")
    figures = {
        "idle_rank_least_core_percent": min(shares),
        "idle_rank_most_core_percent": max(shares),
    }
    return figures, {"idle_rank_core_percent": shares}


def uneven(place):
    import h5py

    flops = program.run("check", place.deck(SMALL, EMULATED)).stdout
    per_token = next(line for line in flops.splitlines() if "FLOPs per token" in line).split()
    unit = {"k": 1e3, "M": 1e6}[per_token[5]]
    perfect = (3 * FAST_GFLOPS + SLOW_GFLOPS) * 1e9 / (float(per_token[4]) * unit)
    figures = {}
    for wiring in ("iwrr", "fixed"):
        command = place.command(place.deck(SMALL, EMULATED), f"swarm.wiring={wiring}")
        train(4, command)
        with h5py.File(command[command.index("--out") + 1]) as run:
            times_s, tokens = run["steps/time_s"][:], run["steps/tokens"][:]
        rate = tokens[4:].sum() / (times_s[-1] - times_s[3])
        print(f"uneven: {wiring} {rate:.0f} tokens/s, {100 * rate / perfect:.1f} % of perfect")
        figures[f"{wiring}_tokens_per_s"] = rate
        figures[f"{wiring}_percent_of_perfect"] = 100 * rate / perfect
    return figures, {}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("what", nargs="*", help="of cost, idle, uneven; default: all three")
    record.add_option(parser)
    arguments = parser.parse_args()
    tools = {
        "cost": lambda place: cost(place, arguments.rounds),
        "idle": idle,
        "uneven": uneven,
    }
    unknown = [what for what in arguments.what if what not in tools]
    if unknown:
        parser.error(f"there is no {unknown[0]}, only {', '.join(tools)}")
    place = Place()
    figures, samples = {}, {}
    try:
        for what in arguments.what or tools:
            found, more = tools[what](place)
            figures.update(found)
            samples.update(more)
    finally:
        shutil.rmtree(place.folder, ignore_errors=True)
    record.write(
        arguments.record,
        "The CPU time of four stages on four ranks that share one core against that of one rank, "
        "that of idle ranks, and the speed with one of four peers four times slower.",
        figures,
        samples,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
