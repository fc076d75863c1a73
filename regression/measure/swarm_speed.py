#!/usr/bin/env python3
"""What being a swarm costs, what a second rank adds, what idle ranks cost, what uneven ones reach.

usage: swarm_speed.py [--rounds N] [--record FILE.json] [cost] [replicas] [idle] [uneven]

Without a name all four are measured. `cost`: four stages on four ranks that share one core, beside
one rank with the same work, by turns; the CPU time of all processes, mpirun and the start included.
`replicas`: tokens per second of two ranks with one stage, shape b of pytorch_speed.py and 8
microbatches a step, in fp32 and bf16, beside one rank with the same work; and beside two runs apart
with half of it each, which share the machine and nothing else; by turns, one thread a rank. Where
neighbours of the machine come and go, the ledger (/goodput) says what a second rank costs beside
the passes; that passes slow each other is not in it, but in the runs apart.
`idle`: spares of a run that trains; their CPU time over ten seconds. `uneven`: one of four emulated
peers is four times slower; tokens per second beside those of perfect balance, for iwrr and fixed.
$SWARMPI and $SWARMPI_MPIRUN name the program and mpirun, if they are not build/swarmpi and on PATH.
No figure fails it.
"""

import argparse
import contextlib
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
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where harness/ is

import numpy as np
from harness import program, record
from harness.processes import wait_for
from harness.program import BINARY
from harness.swarm import Swarm
from measure.pytorch_speed import SHAPES

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
REPLICAS = {"steps": 8, "microbatches": 8, "size": 4}
WARM_UP_STEPS = 2
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
    with Swarm(ranks, command, deadline_s=DEADLINE_S, **options) as swarm:
        finish(swarm, command)


def finish(swarm, command):
    status, _, err = swarm.result(DEADLINE_S + 10)
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


class Speed(NamedTuple):
    tokens_per_s: float  # of the median step
    passes_s: float  # of a step and a rank, where they were fastest
    beside_s: float  # of a step and a rank, where it was least: all that is not passes


def speed(command):
    """Of a finished run, without its first steps."""
    from hdf5 import h5py

    with h5py.File(command[command.index("--out") + 1]) as file:
        took_s = np.diff(file["steps/time_s"][:])[WARM_UP_STEPS:]
        tokens = int(file["steps/tokens"][-1])
        ledger = {name: of[:] for name, of in file["goodput"].items()}
    ranks = len(np.unique(ledger["peer"]))
    passes_s, beside_s = [], []
    for step in range(1 + WARM_UP_STEPS, REPLICAS["steps"] + 1):
        mine = ledger["step"] == step
        spent_s = sum(of[mine].sum() for name, of in ledger.items() if name.endswith("_s"))
        passes_s.append(ledger["useful_s"][mine].sum() / ranks)
        beside_s.append(spent_s / ranks - passes_s[-1])
    return Speed(tokens / float(np.median(took_s)), min(passes_s), min(beside_s))


def together(place, deck, ranks, settings):
    """The speed of a swarm."""
    command = place.command(deck, *settings)
    train(ranks, command, bind=False)
    return speed(command)


def apart(place, deck, ranks, settings):
    """The tokens per second of as many runs of one rank that each do their part of its work."""
    part = f"train.microbatches={REPLICAS['microbatches'] // ranks}"
    commands = [place.command(deck, *settings, part) for _ in range(ranks)]
    with contextlib.ExitStack() as running:
        swarms = [
            running.enter_context(Swarm(1, command, bind=False, deadline_s=DEADLINE_S))
            for command in commands
        ]
        for swarm, command in zip(swarms, commands):
            finish(swarm, command)
    return sum(speed(command).tokens_per_s for command in commands)


def replicas_in(precision, place, rounds):
    shape = SHAPES["b"]._asdict()
    deck = place.deck({**shape, **REPLICAS}, "[compute]\nthreads = 1\n")
    settings = [f"model.precision={precision}", "train.clip=0"]
    settings += [f"model.{key}={shape[key]}" for key in ("heads", "vocab")]
    one, two, both = [], [], []
    for _ in range(rounds):
        one.append(together(place, deck, 1, settings))
        two.append(together(place, deck, 2, settings))
        both.append(apart(place, deck, 2, settings))
        rates = one[-1].tokens_per_s, two[-1].tokens_per_s, both[-1]
        print("  {}, tokens/s: one {:.0f}, two {:.0f}, apart {:.0f}".format(precision, *rates))
    figures = {}
    for name, rates in (("two", [run.tokens_per_s for run in two]), ("apart", both)):
        ratios = [rate / alone.tokens_per_s for rate, alone in zip(rates, one)]
        found = statistics.median(ratios), min(ratios), max(ratios)
        for end, ratio in zip(("", "_min", "_max"), found):
            figures[f"{precision}_{name}_over_one_ratio{end}"] = ratio
        print("replicas: {} {} over one {:.3f} ({:.3f} to {:.3f})".format(precision, name, *found))
    # The same passes for both, the fastest of one rank; the least of what comes beside them.
    passes_s = min(run.passes_s for run in one)
    one_s, two_s = (min(run.beside_s for run in runs) for runs in (one, two))
    ratio = (passes_s + one_s) / (passes_s / 2 + two_s)
    figures |= {
        f"{precision}_passes_s": passes_s,
        f"{precision}_one_beside_s": one_s,
        f"{precision}_two_beside_s": two_s,
        f"{precision}_two_over_one_by_ledger_ratio": ratio,
    }
    print(
        f"replicas: {precision} by the ledger: passes {passes_s:.3f} s, beside them {one_s:.3f} s "
        f"of one rank, {two_s:.3f} s of each of two: two over one {ratio:.3f}"
    )
    samples = {f"{precision}_one": one, f"{precision}_two": two, f"{precision}_apart": both}
    return figures, samples


def replicas(place, rounds):
    figures, samples = {}, {}
    for precision in ("fp32", "bf16"):
        found, more = replicas_in(precision, place, rounds)
        figures |= found
        samples |= more
    return figures, samples


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
    from hdf5 import h5py

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
    parser.add_argument("what", nargs="*", help="of cost, replicas, idle, uneven; default: all")
    record.add_option(parser)
    arguments = parser.parse_args()
    tools = {
        "cost": lambda place: cost(place, arguments.rounds),
        "replicas": lambda place: replicas(place, arguments.rounds),
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
        "the speed of two ranks with one stage over that of one, the CPU time of idle ranks, and "
        "the speed with one of four peers four times slower.",
        figures,
        samples,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
