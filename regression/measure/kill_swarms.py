#!/usr/bin/env python3
"""Runs swarms under mpirun and kills their ranks with SIGKILL, in bursts, at random times.

Each run must end complete and bitwise equal to that of one process that nobody disturbs.

usage: kill_swarms.py [--runs N] [--seed S] [--ranks LEAST MOST] [--static SHARE]
                      [--methods METHOD...] [--kernels KERNELS] [--collectives]
                      [--record FILE.json]
SHARE of the runs use one of these methods, by default any with static pipelines, the others SWARM.
With --collectives replicas sum by NCCL where the method lets them.
The program is $SWARMPI; needs an Open MPI with ULFM. Prints a line for each run, and a summary.
CTest runs it with few runs; how many kills a release has withstood is measured by hand.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where harness/ is

from harness import program, record
from harness.processes import lives, wait_for
from harness.program import BINARY
from harness.swarm import Swarm, reports_deaths

SETTINGS = (
    "train.steps=400",
    "output.checkpoint_every=50",
    "output.validate_every=100",
    "output.publish_every_s=0.5",
)
# What the bits depend on: updates, and what crosses the cuts between so many stages.
CUT_STAGES = 3
BITS = [
    [],
    [],
    ["train.updates=delayed"],
    ["swarm.compress_activations=blockwise8", "swarm.compress_gradients=fp16"],
    ["swarm.compress_gradients=bf16", "train.updates=delayed"],
    ["swarm.boundary=bottleneck", "swarm.compress_gradients=uniform8"],
    ["swarm.boundary=maxout", "swarm.compress_activations=bf16"],
]
METHODS = ("gpipe", "1f1b", "data_parallel", "zero_offload")
OF_ONE_STAGE = ("data_parallel", "zero_offload")
# Without and with tensors that replicas own parts of.
LARGER = [[], ["model.width=64", "model.vocab=256"]]
DEADLINE_S = 100
SHOWN = 4000


def is_cut(bits):
    """Whether bits depend on where the model is cut into stages."""
    return any(setting.startswith("swarm.") for setting in bits)


class Failure(Exception):
    """What a run did wrong."""


class Killer:
    """Starts swarms in a folder of its own, and compares what they leave."""

    def __init__(self, folder, methods, kernels, collectives=False):
        self.folder = folder
        self.collectives = ["swarm.collectives=nccl"] if collectives else []
        self.methods = methods  # beside SWARM
        self.settings = [*SETTINGS, f"compute.kernels={kernels}"]
        self.deck, _ = program.write_deck(folder)

    def run_file(self, name):
        os.makedirs(os.path.join(self.folder, name))
        return os.path.join(self.folder, name, "RUN.h5")

    def arguments(self, run, *settings):
        return program.train_arguments(self.deck, run, *self.settings, *settings)

    def swarm(self, name, rng, least, most, static):
        """One run; returns its ranks, its kills, and what it took."""
        ranks = rng.randint(least, most)
        bits = rng.choice(BITS)
        stages = CUT_STAGES if is_cut(bits) else rng.randint(1, 4)
        spares = rng.randint(0, max(0, ranks - stages - 1) // 2)
        method = rng.choice(self.methods) if rng.random() < static else "swarm"
        if method != "swarm":  # they know no delayed updates
            bits = [setting for setting in bits if not setting.startswith("train.")]
        if method in OF_ONE_STAGE:
            bits, stages = rng.choice(LARGER), 1
        settings = [f"swarm.stages={stages}", f"swarm.spares={spares}"]
        settings += bits
        settings += self.swarm_settings(rng) if method == "swarm" else [f"swarm.method={method}"]
        settings += self.collectives if method != "zero_offload" else []
        run = self.run_file(name)
        started = time.monotonic()
        command = [BINARY, *self.arguments(run, *settings)]
        with Swarm(ranks, command, bind=False, stderr=subprocess.STDOUT) as swarm:
            try:
                killed = self.kill(swarm, rng, ranks, run)
                _, said, _ = swarm.result(DEADLINE_S)
            except TimeoutError as error:
                raise Failure(str(error)) from error
        took_s = time.monotonic() - started
        if not killed:
            raise Failure("it had ended before anybody could be killed: give it more steps")
        what = f"{ranks} ranks, {' '.join(settings)}, {len(killed)} killed: {killed}"
        if not os.path.exists(run + ".journal/complete"):
            raise Failure(f"{what}: not complete\n{said[-SHOWN:]}")
        reference = self.reference_of(bits)
        compared = program.run("compare", reference, run, check=False)
        if compared.returncode != 0:
            raise Failure(f"{what}: {compared.stdout}{compared.stderr}")
        shutil.rmtree(os.path.join(self.folder, name))
        return ranks, killed, took_s, what

    @staticmethod
    def swarm_settings(rng):
        """What only SWARM does."""
        settings = []
        if rng.random() < 0.3:
            settings.append("swarm.recovery=redo")
        if rng.random() < 0.5:
            period_s = rng.uniform(0.05, 1)
            settings += ["swarm.rebalance=paper", f"swarm.rebalance_period_s={period_s:.2f}"]
            settings.append(f"swarm.rebalance_load={rng.choice(['sum', 'mean'])}")
            settings.append(f"swarm.newcomers={rng.choice(['even', 'weakest', 'loaded'])}")
        return settings

    def reference_of(self, bits):
        """The run of one process with the settings that change bits."""
        name = "-".join(["reference", *bits]).replace("=", "-")
        run = os.path.join(self.folder, name, "RUN.h5")
        if not os.path.exists(run):
            self.run_file(name)
            stages = [f"swarm.stages={CUT_STAGES}"] if is_cut(bits) else []
            program.run(*self.arguments(run, *stages, *bits))
        return run

    def kill(self, swarm, rng, ranks, run):
        """Bursts of one to three, while it runs and somebody is left; often the leader."""
        killed = []
        begun = run + ".journal/term-1"
        wait_for(
            lambda: os.path.exists(begun) or swarm.poll() is not None, "the journal", DEADLINE_S
        )
        pids = swarm.ranks()
        wanted = min(ranks - 1, rng.randint(3, 9))
        while len(killed) < wanted and swarm.poll() is None:
            time.sleep(rng.choice([0.02, 0.1, 0.3]) * rng.random())
            left = sorted(rank for rank in pids if rank not in killed and lives(pids[rank]))
            for _ in range(rng.choice([1, 1, 2, 3])):
                if len(left) < 2 or len(killed) >= wanted:
                    break
                victim = left[0] if rng.random() < 0.3 else rng.choice(left)
                left.remove(victim)
                os.kill(pids[victim], signal.SIGKILL)
                killed.append(victim)
        return killed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--ranks", type=int, nargs=2, default=(4, 8), metavar=("LEAST", "MOST"))
    parser.add_argument("--static", type=float, default=0.3, metavar="SHARE")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--kernels", choices=("native", "reference", "cuda"), default="native")
    parser.add_argument("--collectives", action="store_true")
    record.add_option(parser)
    options = parser.parse_args()
    if not reports_deaths():
        print("not run: there is no MPI that reports deaths")
        return 77
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    killed_in, times_s, failed = [], [], 0
    with tempfile.TemporaryDirectory(prefix="swarmpi-kills-") as folder:
        killer = Killer(folder, options.methods, options.kernels, options.collectives)
        for number in range(options.runs):
            rng = random.Random(f"{seed} {number}")
            try:
                _, killed, took_s, what = killer.swarm(
                    f"run{number}", rng, *options.ranks, options.static
                )
            except Failure as failure:
                failed += 1
                print(f"run {number} FAILED: {failure}", flush=True)
                continue
            killed_in.append(len(killed))
            times_s.append(took_s)
            print(f"run {number}: {what}; {took_s:.1f} s", flush=True)
    kills, slowest_s = sum(killed_in), max(times_s, default=0)
    print(f"{options.runs} runs, {kills} ranks killed, {failed} failed; at most {slowest_s:.1f} s")
    record.write(
        options.record,
        "Swarms whose ranks are killed in bursts at random times, compared bitwise with an "
        f"undisturbed run; seed {seed}.",
        {"runs": options.runs, "kills": kills, "failed_runs": failed, "slowest_run_s": slowest_s},
        {"kills_in_run": killed_in, "run_s": times_s},
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
