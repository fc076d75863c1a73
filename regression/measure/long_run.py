#!/usr/bin/env python3
"""What a long run costs its leader, and how soon it is led or resumed by another.

Two parts. long_journal gives the rows of --steps steps on --peers peers to the storage of one
process, as a leader does: memory, publishing, checkpoints and successions, stretch by stretch. And
a real swarm of as many ranks trains a tiny deck for --real-steps steps: its leader is killed after
a tenth of the steps and again near the end, the run is stopped and resumed, in its folder and in
another. --picture draws both.

usage: long_run.py [--steps N] [--peers P] [--real-steps N] [--picture FILE.png]
                   [--record FILE.json]
The programs are $SWARMPI and $LONG_JOURNAL, the launcher $SWARMPI_MPIRUN.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where harness/ is

from harness import program, record
from harness.processes import wait_for
from harness.program import BINARY, built
from harness.swarm import Swarm, reports_deaths

LONG_JOURNAL = built("long_journal", "LONG_JOURNAL")
DEADLINE_S = 24 * 3600


def synthetic(steps, peers):
    """The line of long_journal, and its table on stderr."""
    command = [LONG_JOURNAL, "--steps", str(steps), "--peers", str(peers), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=DEADLINE_S)
    lines = done.stdout.splitlines()
    print("\n".join(lines[:-1]), file=sys.stderr)
    return json.loads(lines[-1])


class Run:
    """A swarm on a tiny deck; what its leader takes is looked at five times a second."""

    def __init__(self, folder, name, ranks, steps, resume=None):
        self.folder = folder
        self.run = os.path.join(folder, name, "RUN.h5")
        os.makedirs(os.path.dirname(self.run), exist_ok=True)
        deck = os.path.join(folder, "deck.toml")
        if not os.path.exists(deck):
            program.write_deck(folder)
        settings = (
            f"train.steps={steps}",
            "train.schedule=constant",
            "swarm.stages=2",
            "output.checkpoint_every=500",
            "output.publish_every_s=2",
            "output.validate_every=0",
        )
        arguments = program.train_arguments(deck, self.run, *settings, quiet=False)
        arguments += ["--resume", resume] if resume else []
        self.memory = []  # (step, MB of the leader)
        self.step = -1
        self.begun = time.monotonic()
        self.goes_on_s = None  # until the first line that names a step
        self.events = []
        self.swarm = Swarm(
            ranks,
            [BINARY, *arguments],
            bind=False,
            stderr=subprocess.STDOUT,
            on_line=self.hear,
            deadline_s=DEADLINE_S,
        )
        wait_for(lambda: self.newest_term() > 0, "the journal", DEADLINE_S)
        self.pids = self.swarm.ranks()
        self.watcher = threading.Thread(target=self.watch, daemon=True)
        self.watcher.start()

    def hear(self, line):
        self.events.append((time.monotonic(), line))
        found = re.search(r"step +(\d+)", line)
        if found:
            self.step = int(found[1])
            self.goes_on_s = self.goes_on_s or time.monotonic() - self.begun

    def newest_term(self):
        try:
            names = os.listdir(self.run + ".journal")
        except OSError:
            return 0
        return max([int(n[5:]) for n in names if re.fullmatch(r"term-\d+", n)], default=0)

    def watch(self):
        while self.swarm.poll() is None:
            leader = min(self.pids, default=None)
            try:
                with open(f"/proc/{self.pids[leader]}/status", encoding="ascii") as file:
                    resident = re.search(r"VmRSS:\s+(\d+)", file.read())
                self.memory.append((self.step, int(resident[1]) / 1000))
            except (OSError, KeyError, TypeError):
                pass
            time.sleep(0.2)

    def kill_leader(self):
        """Milliseconds until the next leader has begun its term."""
        before = self.newest_term()
        killed = time.monotonic()
        os.kill(self.pids.pop(min(self.pids)), signal.SIGKILL)
        while self.newest_term() == before:
            if time.monotonic() - killed > 60:
                raise TimeoutError("nobody leads")
            time.sleep(0.0005)
        return 1000 * (time.monotonic() - killed)

    def wait_for_step(self, step):
        wait_for(lambda: self.step >= step or self.swarm.poll() is not None, "a step", DEADLINE_S)

    def end(self):
        self.swarm.wait(timeout=DEADLINE_S)


def real(folder, ranks, steps):
    """Figures of a swarm, and the memory of its leaders by step."""
    figures = {}
    run = Run(folder, "long", ranks, steps)
    run.wait_for_step(steps // 10)
    figures["first_succession_ms"] = run.kill_leader()
    run.wait_for_step(steps * 9 // 10)
    figures["last_succession_ms"] = run.kill_leader()
    run.end()
    checkpoints = os.path.join(folder, "long", "RUN.checkpoints")
    for name in ("long", "elsewhere"):
        resumed = Run(folder, name, ranks, steps + 500, checkpoints)
        resumed.wait_for_step(steps)
        figures[f"resumed_{name}_s"] = resumed.goes_on_s
        resumed.end()
        if name == "long":
            checkpoints = os.path.join(checkpoints, f"step-{steps}")
    memory = [mb for _, mb in run.memory]
    tenth = max(1, len(memory) // 10)
    figures["first_memory_mb"] = max(memory[:tenth])
    figures["last_memory_mb"] = max(memory[-tenth:])
    return figures, run.memory


def draw(path, samples, memory):
    """Storage alone above, the leader of the swarm below."""
    import matplotlib  # pylint: disable=import-outside-toplevel

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt  # pylint: disable=import-outside-toplevel
    from picture_file import picture_at, save  # pylint: disable=import-outside-toplevel

    figure, axes = plt.subplots(2, 2, figsize=(9, 5), layout="constrained")
    steps = [sample["steps"] / 1000 for sample in samples]
    for axis, key, label in (
        (axes[0][0], "memory_mb", "memory of the process (MB)"),
        (axes[0][1], "leads_ms", "until a successor leads (ms)"),
        (axes[1][0], "checkpoint_ms", "a checkpoint's rows (ms)"),
    ):
        values = [sample[key] for sample in samples]
        axis.plot(steps, values, "o-")
        axis.set(xlabel="thousand steps", ylabel=label, ylim=(0, 1.2 * max(values)))
    axes[1][1].plot([step / 1000 for step, _ in memory], [mb for _, mb in memory], ".")
    most = 1.2 * max([mb for _, mb in memory], default=1)
    label = "memory of its leader (MB)"
    axes[1][1].set(xlabel="thousand steps of a swarm", ylabel=label, ylim=(0, most))
    save(figure, picture_at(Path(path)), 120)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--peers", type=int, default=8)
    parser.add_argument("--real-steps", type=int, default=3000)
    parser.add_argument("--picture", type=Path)
    record.add_option(parser)
    options = parser.parse_args()
    rows = synthetic(options.steps, options.peers)
    figures = {f"rows_{name}": value for name, value in rows["figures"].items()}
    memory = []
    if options.real_steps and reports_deaths():
        with tempfile.TemporaryDirectory(prefix="swarmpi-long-run-") as folder:
            found, memory = real(folder, options.peers, options.real_steps)
        figures |= {f"swarm_{name}": round(value, 2) for name, value in found.items()}
        figures["swarm_steps"] = options.real_steps
    for name, value in figures.items():
        print(f"{name:28} {value}")
    if options.picture:
        draw(options.picture, rows["samples"], memory)
    record.write(options.record, __doc__.partition("\n")[0], figures, rows["samples"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
