"""How long a spare takes to serve, over a slow link, against the size of the state that it learns.

usage: learning_time.py [--state-mb N ...] [--record FILE.json]
Two emulated hosts, the second behind a link of 25 ms and 200 Mbit/s, two ranks on each: three
replicas of the only stage, and a spare. The replica that shares the spare's host is killed, and
the spare learns from those on the other. Counted is from the line of the death until that of the
spare's `migrate`, by the times that stand in them; beside it stands what the state alone takes at
the link's rate. --state-mb: of the largest tensor's state (weights, moments); two are so large.
The program is $SWARMPI, the link $SLOW_LINK; needs an Open MPI with ULFM, and root.
Exit status: 1 if anybody else died, or the spare did not serve.
"""

import argparse
import os
import re
import signal
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
RANKS_OF_A_HOST = 2
KILLED, SPARE = 1, 3  # the ranks of the second host
WIDTH = 512
FLOATS = 3  # an element's weight and two moments
DEADLINE_S = 600
PROGRESS = r"^step +[1-9]\d*/"  # one in ten seconds
TIME = re.compile(r" *(\d+\.\d\d) s ")
SETTINGS = (
    "model.layers=1",
    f"model.width={WIDTH}",
    "train.steps=100000",
    "train.microbatches=6",
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
            self.all.append(line.rstrip())
            self.changed.notify_all()

    def find(self, pattern, first=0):
        return next((line for line in self.all[first:] if re.search(pattern, line)), None)

    def wait(self, pattern, deadline_s=DEADLINE_S):
        """The first such line; None if none came in time."""
        with self.changed:
            self.changed.wait_for(lambda: self.find(pattern), deadline_s)
            return self.find(pattern)


def time_in(line):
    return float(TIME.match(line)[1])


def state_bytes(elements_of_largest):
    """Of the whole stage: embedding, head, one block; what is small is left out."""
    return 4 * FLOATS * (2 * elements_of_largest + 12 * WIDTH**2)


def learns(state_mb):
    """Figures of one run; None where something went wrong, which is printed."""
    vocab = round(state_mb * 1e6 / (4 * FLOATS * WIDTH))
    lines = Lines()
    with tempfile.TemporaryDirectory(prefix="swarmpi-learning-") as folder:
        hosts = EmulatedHosts(folder, 2, {1: LINK})
        try:
            deck, _ = program.write_deck(folder)
            run = os.path.join(folder, "RUN.h5")
            arguments = program.train_arguments(
                deck, run, *SETTINGS, f"model.vocab={vocab}", quiet=False
            )
            with Swarm(
                2 * RANKS_OF_A_HOST,
                [BINARY, *arguments],
                deadline_s=DEADLINE_S,
                on_line=lines.hear,
                **hosts.options(RANKS_OF_A_HOST, folder),
            ) as swarm:
                try:
                    return watch(swarm, folder, run, lines, vocab * WIDTH)
                finally:
                    emulated_hosts.end_marked(folder)
        finally:
            hosts.remove()


def watch(swarm, folder, run, lines, elements):
    wait_for(lambda: os.path.exists(run + ".journal/term-1"), "the journal")
    if lines.wait(PROGRESS) is None:
        return failed(lines, "no step was made")
    os.kill(emulated_hosts.marked(folder)[KILLED], signal.SIGKILL)
    begun = time.monotonic()
    death = lines.wait(rf"peer {KILLED} +kill")
    serves = lines.wait(rf"peer {SPARE} .*migrate")
    if death is None or serves is None:
        return failed(lines, "the spare does not serve")
    others = [line for line in lines.all if re.search(r" (kill|suspect) ", line) and line != death]
    if others:
        return failed(lines, "somebody else was suspected, or died: " + others[0])
    dropped = sum(" dismiss " in line for line in lines.all)
    size = state_bytes(elements)
    return {
        "tensor_state_mb": 4e-6 * FLOATS * elements,
        "stage_state_mb": 1e-6 * size,
        "serves_s": time_in(serves) - time_in(death),
        "state_at_rate_s": 8e-6 * size / LINK.rate_mbit,
        "watched_s": time.monotonic() - begun,
        "dropped": dropped,
    }


def failed(lines, why):
    print(*lines.all[-30:], why, sep="\n", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--state-mb", type=float, nargs="+", default=[6, 60])
    record.add_option(parser)
    options = parser.parse_args()
    missing = emulated_hosts.missing(True) or (
        "" if reports_deaths() else "there is no MPI that reports deaths"
    )
    if missing:
        print("not run:", missing)
        return 77
    figures = {}
    for state_mb in options.state_mb:
        measured = learns(state_mb)
        if measured is None:
            return 1
        print(
            "a state of {stage_state_mb:.0f} MB, the largest tensor's of {tensor_state_mb:.0f} MB: "
            "serves after {serves_s:.1f} s, at the link's rate {state_at_rate_s:.1f} s; dropped "
            "{dropped} times".format(**measured),
            flush=True,
        )
        figures.update({f"{name}_of_{state_mb:g}_mb": value for name, value in measured.items()})
    record.write(
        options.record,
        "The time from a death until a spare serves that has learned the stage over a link of "
        f"{LINK.delay_ms} ms and {LINK.rate_mbit} Mbit/s, against what its state takes there.",
        figures,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
