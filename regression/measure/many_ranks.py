#!/usr/bin/env python3
"""What a hundred ranks cost on one host: start, step, end; then ranks of the same swarm are killed.

usage: many_ranks.py [--ranks N ...] [--steps N] [--kills N] [--seed S] [--record FILE.json]
A tiny deck in 4 stages, one microbatch for each replica. Two runs for each number of ranks: one
that nobody disturbs, of which the start (until the first step's line), a step (the median) and the
end (from the last step's line until mpirun has ended) are printed; and a longer one whose ranks are
killed with SIGKILL one at a time, the leader every third time. Both must be complete, bitwise equal
to the run of one process, and nobody may be suspected. Needs h5py and an Open MPI with ULFM; the
program is $SWARMPI. Exit status: 1 if a run was not as it must be.
"""

import argparse
import os
import random
import re
import signal
import statistics
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
from hdf5 import h5py

STAGES = 4
DEADLINE_S = 580
STEP = re.compile(r"step +\d+/\d+ ")
LONGER = 5  # the run with deaths has so many times the steps
SHOWN = 4000


class Failure(Exception):
    """What a run did wrong."""


class WatchedSwarm:
    """A swarm of so many ranks, and what it has said."""

    def __init__(self, folder, name, ranks, settings):
        os.makedirs(os.path.join(folder, name))
        self.run = os.path.join(folder, name, "RUN.h5")
        deck, _ = program.write_deck(folder)
        arguments = program.train_arguments(deck, self.run, *settings, quiet=False)
        self.said, self.step_line_s = [], []
        self.begun_s = time.monotonic()
        self.swarm = Swarm(
            ranks,
            [BINARY, *arguments],
            bind=False,
            stderr=subprocess.STDOUT,
            on_line=self.hear,
            deadline_s=DEADLINE_S,
        )

    def hear(self, line):
        self.said.append(line.rstrip())
        if STEP.match(line):
            self.step_line_s.append(time.monotonic())

    def has_ended(self):
        return self.swarm.poll() is not None

    def repairs(self):
        return sum(" repair " in line for line in self.said)

    def end(self):
        """Waits until mpirun has ended; seconds since the last step's line."""
        status = self.swarm.wait(DEADLINE_S)
        ended_s = time.monotonic()
        self.swarm.end()
        if not os.path.exists(self.run + ".journal/complete"):
            raise Failure("\n".join([*self.said, f"it ended with {status}"])[-SHOWN:])
        return ended_s - self.step_line_s[-1]

    def compare(self, reference):
        compared = program.run("compare", reference, self.run, check=False)
        if compared.returncode != 0:
            raise Failure(compared.stdout + compared.stderr)
        suspects = [line for line in self.said if " suspect " in line]
        if suspects:
            raise Failure(f"{len(suspects)} times somebody was suspected, first: {suspects[0]}")


def reference_of(folder, name, settings):
    """The run of one process."""
    os.makedirs(os.path.join(folder, name))
    run = os.path.join(folder, name, "RUN.h5")
    deck, _ = program.write_deck(folder)
    program.run(*program.train_arguments(deck, run, *settings), timeout_s=DEADLINE_S)
    return run


def undisturbed(folder, ranks, steps, settings):
    """Figures of a run without deaths."""
    settings = [*settings, f"train.steps={steps}"]
    reference = reference_of(folder, f"alone-{ranks}", settings)
    settings.append(f"swarm.stages={STAGES}")
    watched = WatchedSwarm(folder, f"quiet-{ranks}", ranks, settings)
    try:
        end_s = watched.end()
    finally:
        watched.swarm.end()
    watched.compare(reference)
    with h5py.File(watched.run) as file:
        times = list(file["steps/time_s"])
    return {
        "start_s": watched.step_line_s[0] - watched.begun_s,
        "step_s": statistics.median(b - a for a, b in zip(times, times[1:])),
        "end_s": end_s,
    }


def killed(folder, ranks, options, rng, settings):
    """How many ranks were killed."""
    settings = [*settings, f"train.steps={LONGER * options.steps}"]
    reference = reference_of(folder, f"alone-{ranks}-longer", settings)
    settings.append(f"swarm.stages={STAGES}")
    watched = WatchedSwarm(folder, f"killed-{ranks}", ranks, settings)
    try:
        wait_for(lambda: watched.step_line_s or watched.has_ended(), "a step", DEADLINE_S)
        pids = watched.swarm.ranks()
        done = 0
        while done < options.kills and not watched.has_ended():
            left = sorted(rank for rank in pids if lives(pids[rank]))
            if len(left) < 2:
                break
            before = watched.repairs()
            os.kill(pids[left[0] if done % 3 == 0 else rng.choice(left[1:])], signal.SIGKILL)
            done += 1
            wait_for(
                lambda before=before: watched.repairs() > before or watched.has_ended(),
                "the repair",
                DEADLINE_S,
            )
            time.sleep(rng.random())
        watched.end()
    finally:
        watched.swarm.end()
    watched.compare(reference)
    if done < options.kills:
        raise Failure(f"it ended after {done} deaths: give it more steps")
    return done


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[64, 128])
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    record.add_option(parser)
    options = parser.parse_args()
    if not reports_deaths():
        print("not run: there is no MPI that reports deaths")
        return 77
    rng = random.Random(options.seed)
    figures, failed = {}, False
    with tempfile.TemporaryDirectory(prefix="swarmpi-many-") as folder:
        for ranks in options.ranks:
            settings = (f"train.microbatches={ranks // STAGES}", "compute.threads=1")
            try:
                measured = undisturbed(folder, ranks, options.steps, settings)
                print(
                    "{} ranks: starts in {start_s:.1f} s, a step takes {step_s:.2f} s, ends in "
                    "{end_s:.1f} s".format(ranks, **measured),
                    flush=True,
                )
                measured["killed"] = killed(folder, ranks, options, rng, settings)
                print(f"{ranks} ranks, {measured['killed']} of them killed: equal", flush=True)
            except (Failure, TimeoutError, subprocess.SubprocessError) as failure:
                failed = True
                print(f"{ranks} ranks FAILED: {failure}", flush=True)
                continue
            figures.update({f"{name}_of_{ranks}_ranks": value for name, value in measured.items()})
    record.write(
        options.record,
        "Swarms of many ranks on one host: start, step and end of one that nobody disturbs; one "
        "whose ranks are killed. Both bitwise equal to one process, nobody suspected.",
        figures,
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
