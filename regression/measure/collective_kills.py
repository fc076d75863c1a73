#!/usr/bin/env python3
"""What a SIGKILL in the middle of a reduction by NCCL costs, with ranks that share one GPU.

The model is large and a step's batch tiny, so that a step is nearly all reduction. Once a view's
replicas add up by NCCL, one of them is killed at a random moment; when the others have repaired
that and add up by NCCL again, the next; until one or two are left, who finish the run. It must
be equal bit for bit to that of one process.

A kill counts as one in the middle if a survivor says that its collective has ended so many ms into
a step's sums, and these began before the signal was sent. What is counted from the signal on: until
the death was told; until the repair, which is durable by then; until the step whose sums were
broken off was committed (by the journal's clock from the death on); until the next view adds up by
NCCL. Lines have come through mpirun.

usage: collective_kills.py [--runs N] [--ranks N] [--steps N] [--seed S] [--kernels KERNELS]
                           [--point-to-point] [--set KEY=VALUE]... [--record FILE.json]
With --point-to-point replicas do not use NCCL, nobody knows where in a step a kill falls, and the
step that is counted is the first that was committed after the death; for comparison, and to try
this tool where there is no GPU (--kernels native --set model.width=64 --set model.vocab=256).
The program is $SWARMPI; needs an Open MPI with ULFM. Exit status: 1 if a run has failed, or no kill
was in the middle.
"""

import argparse
import dataclasses
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where harness/ is

from harness import journal, program, record
from harness.program import BINARY
from harness.swarm import NCCL_ON_ONE_DEVICE, Swarm, launch_environment, reports_deaths
from measure.recovery_time import quantiles_ms

# 64 M parameters, 512 MB of sums.
LARGE = (
    "model.width=512",
    "model.heads=8",
    "model.vocab=50304",
    "train.microbatch_size=1",
    "train.lr=1e-3",
    "output.validate_every=0",
)
ADDS_UP = re.compile(r"collective of stage 0: (\d+) replicas add up by it from step (\d+) on")
BROKEN_OFF = re.compile(r"collective of stage 0: ended (\d+) ms into the sums of step (\d+): (.*)")
REPAIR = re.compile(r" repair ")
# A kill comes so long after NCCL has begun; a step takes less.
LEAST_S, SPREAD_S = 0.1, 2.0
LEADS = 0.3  # so often the leader
TOLD_DEADLINE_S = 60
RUN_DEADLINE_S = 200
SHOWN = 4000


class Failure(Exception):
    """What a run did wrong."""


class Heard:
    """The lines of a swarm with the times at which they came. One thread adds, others wait."""

    def __init__(self):
        self.lines = []
        self.come = threading.Condition()

    def add(self, line):
        with self.come:
            self.lines.append((time.monotonic(), line.rstrip()))
            self.come.notify_all()

    def all(self, pattern, from_s=0.0, to_s=float("inf")):
        """(time, match) of each line of that time in which the pattern is found."""
        with self.come:
            lines = list(self.lines)
        found = ((time_s, pattern.search(line)) for time_s, line in lines)
        return [(time_s, match) for time_s, match in found if match and from_s <= time_s < to_s]

    def first(self, pattern, from_s, goes_on):
        """The first of them, which may still come; None once `goes_on` says no."""
        while True:
            ended = not goes_on()
            found = self.all(pattern, from_s)
            if found:
                return found[0]
            if ended:
                return None
            with self.come:
                self.come.wait(0.05)

    def text(self):
        return "\n".join(line for _, line in self.lines)


@dataclasses.dataclass
class Kill:
    """A kill: who, of how many, and what is known of it; times in s, `at_s` on this clock."""

    ranks: int
    rank: int
    at_s: float
    told_s: float
    repaired_s: float
    into_s: float = None  # so long the sums had been added up when the signal was sent, at least
    step: int = None  # whose sums these were
    committed_s: float = None
    again_s: float = None  # until the next view adds up by NCCL

    def in_the_middle(self):
        return self.into_s is not None and self.into_s > 0


def find_sums(kill, heard, until_s):
    """Enters which sums the kill has broken off, by what survivors said until then."""
    for time_s, match in heard.all(BROKEN_OFF, kill.at_s, until_s):
        into_s = float(match[1]) / 1000 - (time_s - kill.at_s)
        if kill.into_s is None or into_s > kill.into_s:
            kill.into_s, kill.step = into_s, int(match[2])


def find_commit(kill, steps, events):
    """Enters the commit of the step under way, by a journal's rows."""
    deaths = [event for event in events if event.kind == "kill" and event.peer == kill.rank]
    if not deaths:
        raise Failure(f"the journal does not know of the death of rank {kill.rank}")
    death_s = deaths[0].time_s
    if kill.step is None:
        kill.step = min((n for n, row in steps.items() if row.time_s > death_s), default=None)
    row = steps.get(kill.step)
    if row is not None and row.time_s >= death_s:
        kill.committed_s = kill.told_s + row.time_s - death_s


def steady_steps(heard, kills, steps, events):
    """(what it took, from seal to commit) of the steps by NCCL that nothing disturbed, in s."""
    seal_to_commit_s = {event.step: event.cost_s for event in events if event.kind == "commit"}
    found = []
    for time_s, match in heard.all(ADDS_UP):
        later = [kill.step for kill in kills if kill.at_s > time_s]
        end = later[0] if later else max(steps, default=0) + 1
        for step in range(int(match[2]) + 1, end or 0):
            if {step - 1, step} <= steps.keys() and step in seal_to_commit_s:
                took_s = steps[step].time_s - steps[step - 1].time_s
                found.append((took_s, seal_to_commit_s[step]))
    return found


class Run:
    """One swarm, whose ranks are killed until so many are left."""

    def __init__(self, folder, options, deck, settings):
        self.options = options
        self.file = os.path.join(folder, "RUN.h5")
        self.heard = Heard()
        self.kills = []
        arguments = program.train_arguments(deck, self.file, *settings, quiet=False)
        self.swarm = Swarm(
            options.ranks,
            [BINARY, *arguments],
            bind=False,
            stderr=subprocess.STDOUT,
            env={**launch_environment(), **NCCL_ON_ONE_DEVICE},
            on_line=self.heard.add,
            deadline_s=RUN_DEADLINE_S,
        )

    def all_of_it(self, rng, reference):
        """Its undisturbed steps by NCCL."""
        self.kill_until(rng.choice((1, 2)), rng)
        steady = self.finish()
        self.compare(reference)
        if not self.kills:
            raise Failure("it had ended before anybody was killed: give it more steps")
        return steady

    def goes_on(self):
        return self.swarm.poll() is None

    def kill_until(self, left, rng):
        """Kills one after another; fewer, if the run comes to its end before."""
        pids, since_s = {}, 0.0
        while self.options.ranks - len(self.kills) > left:
            begun = self.begun(since_s)
            if begun is None:
                return
            pids = pids or self.swarm.ranks()
            time.sleep(LEAST_S + SPREAD_S * rng.random())
            if not self.goes_on():
                return
            dead = {kill.rank for kill in self.kills}
            living = sorted(set(pids) - dead)
            rank = living[0] if rng.random() < LEADS else rng.choice(living)
            since_s = self.kill(pids[rank], rank, len(living))

    def begun(self, since_s):
        """Waits until the view adds up by NCCL, or for any step; None if the run has ended."""
        pattern = REPAIR if self.options.point_to_point else ADDS_UP
        if self.options.point_to_point and not self.kills:
            pattern = re.compile(r" leader ")
        found = self.heard.first(pattern, since_s, self.goes_on)
        if found and self.kills and not self.options.point_to_point:
            self.kills[-1].again_s = found[0] - self.kills[-1].at_s
        return found

    def kill(self, pid, rank, ranks):
        """Kills it, and returns when the repair was told."""
        at_s = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        deadline_s = at_s + TOLD_DEADLINE_S

        def waits():
            return self.goes_on() and time.monotonic() < deadline_s

        death = re.compile(rf"\bpeer {rank}\b.* kill ")
        told, repaired = (self.heard.first(what, at_s, waits) for what in (death, REPAIR))
        if not told or not repaired:
            raise Failure(f"of rank {rank} no death or no repair was told")
        self.kills.append(Kill(ranks, rank, at_s, told[0] - at_s, repaired[0] - at_s))
        return at_s

    def finish(self):
        """Waits for its end, and reads what it has left."""
        status = self.swarm.wait(RUN_DEADLINE_S)
        self.swarm.end()
        if not os.path.exists(self.file + ".journal/complete"):
            raise Failure(f"it is not complete; its status is {status}")
        steps, events = journal.rows(self.file + ".journal")
        ends_s = [kill.at_s for kill in self.kills[1:]] + [float("inf")]
        for kill, end_s in zip(self.kills, ends_s):
            find_sums(kill, self.heard, end_s)
            find_commit(kill, steps, events)
        return steady_steps(self.heard, self.kills, steps, events)

    def compare(self, reference):
        compared = program.run("compare", reference, self.file, check=False)
        if compared.returncode != 0:
            raise Failure(compared.stdout + compared.stderr)


def milliseconds(time_s):
    return f"{1e3 * time_s:.0f}" if time_s is not None else "-"


HEADER = ("run", "ranks", "rank", "step", "into", "told", "repaired", "committed", "again, ms")
ROW = "{:>4} {:>5} {:>5} {:>5} {:>6} {:>6} {:>8} {:>9} {:>9}"


def show_kill(number, kill):
    times = (kill.into_s, kill.told_s, kill.repaired_s, kill.committed_s, kill.again_s)
    step = "-" if kill.step is None else kill.step
    print(ROW.format(number, kill.ranks, kill.rank, step, *map(milliseconds, times)), flush=True)


def quantiles(kills):
    """Figures by name, of what is known of these kills."""
    figures = {}
    for name in ("told", "repaired", "committed", "again"):
        times_s = [getattr(kill, f"{name}_s") for kill in kills]
        times_s = [time_s for time_s in times_s if time_s is not None]
        if times_s:
            figures.update({f"{name}_{key}": ms for key, ms in quantiles_ms(times_s).items()})
    return figures


def settings_of(options):
    collectives = [] if options.point_to_point else ["swarm.collectives=nccl"]
    given = [f"compute.kernels={options.kernels}", f"train.steps={options.steps}"]
    given.append(f"train.microbatches={options.ranks}")
    return [*LARGE, *given, *options.settings], collectives


def measure(options, seed, folder):
    """All kills, undisturbed steps by NCCL, and how many runs have failed."""
    kills, steady, failed = [], [], 0
    deck, _ = program.write_deck(folder)
    settings, collectives = settings_of(options)
    reference = os.path.join(folder, "alone.h5")
    program.run(*program.train_arguments(deck, reference, *settings), timeout_s=RUN_DEADLINE_S)
    print(ROW.format(*HEADER), flush=True)
    for number in range(options.runs):
        with tempfile.TemporaryDirectory(dir=folder) as place:
            run = Run(place, options, deck, [*settings, *collectives])
            try:
                steady += run.all_of_it(random.Random(f"{seed} {number}"), reference)
            except (Failure, subprocess.TimeoutExpired, ProcessLookupError) as failure:
                failed += 1
                print(f"run {number} FAILED: {failure}; it said\n{run.heard.text()[-SHOWN:]}")
            finally:
                run.swarm.end()
        for kill in run.kills:
            show_kill(number, kill)
        kills += run.kills
    return kills, steady, failed


def summary(options, kills, steady):
    """Figures by name, and how many kills they are of."""
    middle = kills if options.point_to_point else [k for k in kills if k.in_the_middle()]
    figures = {"kills": len(kills)}
    if not options.point_to_point:
        figures["kills_in_the_middle"] = len(middle)
    figures |= quantiles(middle)
    if steady:
        step_s, reduction_s = (statistics.median(times) for times in zip(*steady))
        figures |= {"step_by_nccl_ms": 1e3 * step_s, "seal_to_commit_by_nccl_ms": 1e3 * reduction_s}
    return figures, len(middle)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--kernels", choices=("native", "reference", "cuda"), default="cuda")
    parser.add_argument("--point-to-point", action="store_true")
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE")
    record.add_option(parser)
    return parser.parse_args()


def main():
    options = parse()
    if not reports_deaths():
        print("not run: there is no MPI that reports deaths")
        return 77
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="swarmpi-collective-kills-") as folder:
        kills, steady, failed = measure(options, seed, folder)
    figures, middle = summary(options, kills, steady)
    figures = {"runs": options.runs, "failed_runs": failed, **figures}
    for name, figure in figures.items():
        print(f"{name} {figure:.1f}" if isinstance(figure, float) else f"{name} {figure}")
    where = "" if options.point_to_point else f", {middle} in the middle of a reduction"
    print(f"{options.runs} runs, {len(kills)} ranks killed{where}, {failed} failed")
    way = "point to point" if options.point_to_point else "by NCCL"
    record.write(
        options.record,
        f"SIGKILLs of ranks that share a GPU and reduce {way}, from the signal on; {options.ranks} "
        f"ranks, {', '.join(settings_of(options)[0])}; seed {seed}.",
        figures,
        {"kills": [dataclasses.asdict(kill) for kill in kills]},
    )
    return 1 if failed or not middle else 0


if __name__ == "__main__":
    sys.exit(main())
