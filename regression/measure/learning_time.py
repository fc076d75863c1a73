#!/usr/bin/env python3
"""What a death costs, and how soon a spare serves in its stead, against the size of the state.

usage: learning_time.py [--state-mb N ...] [--runs N] [--places host link]
                        [--with-rows-of FILE.json] [--picture FILE.png] [--record FILE.json]
Four ranks, three replicas of the only stage and a spare: on one host, and on two emulated hosts of
which the second is behind a link of 25 ms and 200 Mbit/s. A replica is killed (over the link the
one that shares the spare's host), and the spare learns the stage from the others. Counted are the
time from the signal until the line of the repair has come through mpirun, of which the kernel takes
a share that grows with the memory that it frees before anybody can hear of the death; the time from
the first news until the repair was planned, as the line says; and by the times in the lines that
from the death until the spare's `migrate`. Beside it stand three steps as the replicas that are
left take them and, over the link, what the state alone takes at its rate. A spare whose link cannot
carry the gradient in the time of a step is not waited for (docs/limits.md): over the link devices
are emulated on which a step of the two that are left takes twice as long as its gradient does
there. --state-mb: of the stage (weights, two moments), in fp32; the two largest tensors are each
almost half of a large one. Medians of --runs. --with-rows-of: what an earlier record holds stands
in the picture and in the record as well.
The program is $SWARMPI, the link $SLOW_LINK; needs an Open MPI with ULFM, and root for the link.
Exit status: 1 if anybody else died or was suspected, or the spare did not serve.
"""

import argparse
import json
import os
import re
import signal
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where harness/ is

from harness import emulated_hosts, program, record
from harness.emulated_hosts import EmulatedHosts, Link
from harness.processes import wait_for
from harness.program import BINARY
from harness.swarm import Swarm, reports_deaths

LINK = Link(delay_ms=25, rate_mbit=200)
RANKS = 4
RANKS_OF_A_HOST = 2
KILLED, SPARE = 1, 3  # the ranks of the second host
BYTES = 4 * 3  # an element's weight and two moments
SMALL_WIDTH, WIDTH = 64, 512
STATE_OVER_GRADIENT = 3
DEADLINE_S = 900
# Of a step. Pieces of state are read between passes: over the link, where a step is long for the
# sake of its gradient, few passes would be so long that a donor seldom came to it (docs/limits.md).
MICROBATCHES = {"host": 6, "link": 48}
TOKENS_OF_A_MICROBATCH = 2 * 32
STEP_OVER_GRADIENT = 2  # over the link
LONGER = 3 / 2  # a step on emulated devices, when two replicas of three are left
PROGRESS = r"^step +[1-9]\d*/.* ([\d.]+)([kM]?) tokens/s"  # one in ten seconds, later one in sixty
TIME = re.compile(r" *(\d+\.\d\d) s ")
TOOK = re.compile(r"([\d.]+) (us|ms|s)$")
SETTINGS = (
    "model.layers=1",
    "train.steps=1000000",
    "swarm.stages=1",
    "swarm.spares=1",
    "output.validate_every=0",
    "output.checkpoint_every=0",
    "compute.threads=1",
)


class Lines:
    """What a swarm has said, with whoever waits for it."""

    def __init__(self):
        self.all = []
        self.changed = threading.Condition()

    def hear(self, line):
        with self.changed:
            self.all.append((time.monotonic(), line.rstrip()))
            self.changed.notify_all()

    def find(self, pattern, since_s):
        came = (found for found in self.all if found[0] >= since_s)
        return next((found for found in came if re.search(pattern, found[1])), None)

    def wait(self, pattern, since_s=0):
        """When the first such line came, and the line; Failure if none came in time."""
        with self.changed:
            self.changed.wait_for(lambda: self.find(pattern, since_s), DEADLINE_S)
            found = self.find(pattern, since_s)
        if found is None:
            raise Failure(self, f"no line has come with {pattern}")
        return found


class Failure(Exception):
    """What a run did wrong, with the last that it said."""

    def __init__(self, lines, why):
        super().__init__("\n".join([*(line for _, line in lines.all[-30:]), why]))


def time_in(line):
    return float(TIME.match(line)[1])


def took_s(lines, line):
    took = TOOK.search(line)
    if took is None:
        raise Failure(lines, "no time in the line: " + line)
    number, unit = took.groups()
    return float(number) * {"us": 1e-6, "ms": 1e-3, "s": 1}[unit]


def step_s(line, microbatches):
    number, unit = re.search(PROGRESS, line).groups()
    tokens_per_s = float(number) * {"": 1, "k": 1e3, "M": 1e6}[unit]
    return microbatches * TOKENS_OF_A_MICROBATCH / tokens_per_s


class Model:
    """Of one block, with a vocabulary that makes the stage's state so large."""

    def __init__(self, state_mb):
        block = BYTES * 12 * WIDTH**2
        self.width = WIDTH if 1e6 * state_mb > 1.5 * block else SMALL_WIDTH
        block = BYTES * 12 * self.width**2
        self.vocab = max(128, round((1e6 * state_mb - block) / (2 * BYTES * self.width)))
        self.tensor_bytes = BYTES * self.vocab * self.width
        self.state_bytes = 2 * self.tensor_bytes + block
        self.settings = (f"model.width={self.width}", f"model.vocab={self.vocab}")

    def devices(self):
        """Lines of a deck: two replicas' step is longer than the link needs for its gradient."""
        gradient_s = 8e-6 * self.state_bytes / STATE_OVER_GRADIENT / LINK.rate_mbit
        jobs = MICROBATCHES["link"] / 2
        return program.slow_devices(STEP_OVER_GRADIENT * gradient_s / jobs, RANKS)


def one_run(place, model):
    """(repaired_s, serves_s, step_s, dropped) of a run."""
    lines = Lines()
    with tempfile.TemporaryDirectory(prefix="swarmpi-learning-") as folder:
        over_link = place == "link"
        deck, _ = program.write_deck(folder, model.devices() if over_link else "")
        run = os.path.join(folder, "RUN.h5")
        microbatches = MICROBATCHES[place]
        settings = [*SETTINGS, *model.settings, f"train.microbatches={microbatches}"]
        settings += ["compute.fidelity=emulated"] * over_link
        arguments = program.train_arguments(deck, run, *settings, quiet=False)
        hosts = EmulatedHosts(folder, 2, {1: LINK}) if over_link else None
        options = hosts.options(RANKS_OF_A_HOST, folder) if hosts else {"bind": False}
        try:
            with Swarm(
                RANKS,
                [BINARY, *arguments],
                deadline_s=DEADLINE_S,
                on_line=lines.hear,
                **options,
            ) as swarm:
                try:
                    wait_for(lambda: os.path.exists(run + ".journal/term-1"), "the journal")
                    taken_s = step_s(lines.wait(PROGRESS)[1], microbatches)
                    pids = emulated_hosts.marked(folder) if hosts else swarm.ranks()
                    longer = LONGER if over_link else 1
                    return watch(pids[KILLED], lines) | {"step_s": longer * taken_s}
                finally:
                    emulated_hosts.end_marked(folder)
        finally:
            if hosts:
                hosts.remove()


def watch(victim, lines):
    killed_s = time.monotonic()
    os.kill(victim, signal.SIGKILL)
    death = lines.wait(rf"peer {KILLED} +kill")[1]
    # A reduction that takes longer than the deadline for news is planned anew, which is a repair.
    repaired = lines.wait(" repair ", killed_s)
    serves = lines.wait(rf"peer {SPARE} .*migrate", killed_s)[1]
    for _, line in lines.all:
        if re.search(r" (kill|suspect) ", line) and line != death:
            raise Failure(lines, "somebody else was suspected, or died: " + line)
    return {
        "repaired_s": repaired[0] - killed_s,
        "news_to_repair_s": took_s(lines, repaired[1]),
        "serves_s": time_in(serves) - time_in(death),
        "dropped": sum(" dismiss " in line for _, line in lines.all),
    }


def measure(place, state_mb, runs):
    """Medians of some runs."""
    model = Model(state_mb)
    all_runs = [one_run(place, model) for _ in range(runs)]
    figures = {name: statistics.median(run[name] for run in all_runs) for name in all_runs[0]}
    figures["state_mb"] = 1e-6 * model.state_bytes
    figures["largest_tensor_mb"] = 1e-6 * model.tensor_bytes
    if place == "link":
        figures["at_rate_s"] = 8e-6 * model.state_bytes / LINK.rate_mbit
    return figures


def say(place, figures):
    at_rate = ", the state at the link's rate {at_rate_s:.1f} s" if place == "link" else ""
    line = (
        "{state_mb:.0f} MB of state, {largest_tensor_mb:.0f} MB of the largest tensor: repaired "
        "after {repaired_ms:.0f} ms, {news_ms:.0f} ms after the first news; the spare serves after "
        "{serves_s:.2f} s, three steps take {three_steps_s:.2f} s" + at_rate + "; dropped "
        "{dropped} times"
    )
    values = {
        **figures,
        "repaired_ms": 1e3 * figures["repaired_s"],
        "news_ms": 1e3 * figures["news_to_repair_s"],
        "three_steps_s": 3 * figures["step_s"],
    }
    print(f"{place}: {line.format(**values)}", flush=True)


def draw(path, rows):
    import matplotlib  # pylint: disable=import-outside-toplevel

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt  # pylint: disable=import-outside-toplevel
    from picture_file import picture_at, save  # pylint: disable=import-outside-toplevel

    names = {"host": "on one host", "link": f"over {LINK.delay_ms} ms, {LINK.rate_mbit} Mbit/s"}
    figure, (repaired, serves) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for place, name in names.items():
        points = sorted((row["state_mb"], row) for row in rows if row["place"] == place)
        if not points:
            continue
        sizes_mb = [size_mb for size_mb, _ in points]
        (line,) = repaired.plot(
            sizes_mb, [1e3 * row["repaired_s"] for _, row in points], "o-", label=name
        )
        color = line.get_color()
        news_ms = [1e3 * row["news_to_repair_s"] for _, row in points]
        repaired.plot(sizes_mb, news_ms, "o--", color=color, label="as above, from the first news")
        serves.plot(sizes_mb, [row["serves_s"] for _, row in points], "o-", color=color, label=name)
        if place == "link":
            bound = [1.5 * row["at_rate_s"] + 3 * row["step_s"] for _, row in points]
            serves.plot(sizes_mb, bound, "--", color=color, label="1.5 x size / rate + 3 steps")
    repaired.set_ylabel("ms until the repair, from SIGKILL")
    serves.set_ylabel("s from the death until the spare serves")
    repaired.set_ylim(0, 1.6 * repaired.get_ylim()[1])  # room for the legend
    serves.set_yscale("log")
    for axes in (repaired, serves):
        axes.set_xscale("log")
        axes.set_xlabel("state of the stage, MB")
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    save(figure, picture_at(Path(path)), 100)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--state-mb", type=float, nargs="+", default=[1, 10, 158, 518, 1000])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--places", nargs="+", choices=("host", "link"), default=("host", "link"))
    parser.add_argument("--with-rows-of", type=Path, metavar="FILE.json")
    parser.add_argument("--picture", type=Path)
    record.add_option(parser)
    options = parser.parse_args()
    missing = "" if reports_deaths() else "there is no MPI that reports deaths"
    if "link" in options.places:
        missing = missing or emulated_hosts.missing(True)
    if missing:
        print("not run:", missing)
        return 77
    rows = []
    if options.with_rows_of:
        rows = json.loads(options.with_rows_of.read_text(encoding="utf-8"))["samples"]
    for place in options.places:
        for state_mb in options.state_mb:
            try:
                figures = measure(place, state_mb, options.runs)
            except Failure as failure:
                print(f"{place}, {state_mb:g} MB FAILED: {failure}", flush=True)
                return 1
            say(place, figures)
            rows.append({"place": place, "runs": options.runs, **figures})
    if options.picture:
        draw(options.picture, rows)
    record.write(
        options.record,
        "The time from a SIGKILL until the repair, and from the death until a spare serves that "
        "has learned the stage, against the size of its state: on one host and over a link of "
        f"{LINK.delay_ms} ms and {LINK.rate_mbit} Mbit/s; medians of runs.",
        {
            f"{name}_{row['place']}_{row['state_mb']:.0f}_mb": value
            for row in rows
            for name, value in row.items()
            if name not in ("place", "runs")
        },
        rows,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
