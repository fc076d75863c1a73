"""Runs swarms under mpirun and kills their ranks with SIGKILL, in bursts, at random times.

Each run must end complete and bitwise equal to that of one process that nobody disturbs.

usage: kill_swarms.py [--runs N] [--seed S] [--ranks LEAST MOST]
The program is $SWARMPI; needs an Open MPI with ULFM. Prints a line for each run, and a summary.
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

from harness import BINARY, DECK, MPIRUN, end_tree, launch, launch_environment, lives
from harness import ranks_of, words

SETTINGS = (
    "train.steps=400",
    "output.checkpoint_every=50",
    "output.validate_every=100",
    "output.publish_every_s=0.5",
)
DEADLINE_S = 100


class Failure(Exception):
    """What a run did wrong."""


class Killer:
    """Starts swarms in a folder of its own, and compares what they leave."""

    def __init__(self, folder):
        self.folder = folder
        self.deck = os.path.join(folder, "deck.toml")
        data = os.path.join(folder, "data.bin")
        with open(data, "w", encoding="ascii") as file:
            file.write(words(1, 600))
        with open(self.deck, "w", encoding="ascii") as file:
            file.write(DECK.format(data=data))
        self.reference = self.run_file("reference")
        subprocess.run(
            [BINARY, *self.arguments(self.reference)], check=True, timeout=DEADLINE_S
        )

    def run_file(self, name):
        os.makedirs(os.path.join(self.folder, name))
        return os.path.join(self.folder, name, "RUN.h5")

    def arguments(self, run, *settings):
        arguments = ["train", self.deck, "--out", run, "--quiet"]
        for setting in (*SETTINGS, *settings):
            arguments += ["--set", setting]
        return arguments

    def swarm(self, name, rng, least, most):
        """One run; returns its ranks, its kills, and what it took."""
        ranks = rng.randint(least, most)
        stages = rng.randint(1, 4)
        spares = rng.randint(0, max(0, ranks - stages - 1) // 2)
        settings = [f"swarm.stages={stages}", f"swarm.spares={spares}"]
        if rng.random() < 0.3:
            settings.append("train.updates=delayed")
        if rng.random() < 0.3:
            settings.append("swarm.recovery=redo")
        run = self.run_file(name)
        started = time.monotonic()
        log = open(os.path.join(self.folder, name, "log"), "w+", encoding="utf-8")
        process = subprocess.Popen(
            [*launch(ranks, bind=False), BINARY, *self.arguments(run, *settings)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=launch_environment(),
        )
        try:
            killed = self.kill(process, rng, ranks, run)
            process.wait(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired as error:
            raise Failure(f"no end after {DEADLINE_S} s\n{self.read(log)}") from error
        finally:
            end_tree(process)
            process.wait()
        took_s = time.monotonic() - started
        if not killed:
            raise Failure("it had ended before anybody could be killed: give it more steps")
        what = f"{ranks} ranks, {' '.join(settings)}, {len(killed)} killed: {killed}"
        if not os.path.exists(run + ".journal/complete"):
            raise Failure(f"{what}: not complete\n{self.read(log)}")
        reference = self.reference_of(settings)
        compared = subprocess.run(
            [BINARY, "compare", reference, run],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        if compared.returncode != 0:
            raise Failure(f"{what}: {compared.stdout}{compared.stderr}")
        shutil.rmtree(os.path.join(self.folder, name))
        return ranks, killed, took_s, what

    def reference_of(self, settings):
        """Delayed updates have other bits."""
        if "train.updates=delayed" not in settings:
            return self.reference
        run = os.path.join(self.folder, "delayed", "RUN.h5")
        if not os.path.exists(run):
            self.run_file("delayed")
            subprocess.run(
                [BINARY, *self.arguments(run, "train.updates=delayed")],
                check=True,
                timeout=DEADLINE_S,
            )
        return run

    def kill(self, process, rng, ranks, run):
        """Bursts of one to three, while it runs and somebody is left; often the leader."""
        killed = []
        begun = run + ".journal/term-1"
        end = time.monotonic() + DEADLINE_S
        while not os.path.exists(begun) and process.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        pids = ranks_of(process)
        wanted = min(ranks - 1, rng.randint(3, 9))
        while len(killed) < wanted and process.poll() is None:
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

    @staticmethod
    def read(log):
        log.seek(0)
        return log.read()[-4000:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--ranks", type=int, nargs=2, default=(4, 8), metavar=("LEAST", "MOST"))
    options = parser.parse_args()
    if not MPIRUN or "ulfm" not in launch(1):
        print("there is no MPI that reports deaths")
        return 77
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    kills, failed, slowest_s = 0, 0, 0
    with tempfile.TemporaryDirectory(prefix="swarmpi-kills-") as folder:
        killer = Killer(folder)
        for number in range(options.runs):
            rng = random.Random(f"{seed} {number}")
            try:
                _, killed, took_s, what = killer.swarm(f"run{number}", rng, *options.ranks)
            except Failure as failure:
                failed += 1
                print(f"run {number} FAILED: {failure}", flush=True)
                continue
            kills += len(killed)
            slowest_s = max(slowest_s, took_s)
            print(f"run {number}: {what}; {took_s:.1f} s", flush=True)
    print(f"{options.runs} runs, {kills} ranks killed, {failed} failed; at most {slowest_s:.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
