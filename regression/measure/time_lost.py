#!/usr/bin/env python3
"""What a death costs the whole run, against the time until it is known.

Each run loses some of its workers, one after another, and spares take their places: as many work as
before but for the time in which a spare learns, which is part of the price. A death has cost what
the steps around it took longer than as many steps far from any death, by the run file's clock. The
same for places where nobody died shows what chance does. As a check on both, the whole runs are
compared with runs that lost nobody. Devices are emulated, so that the cores are idle.

usage: time_lost.py [--runs N] [--deaths N] [--seed S] [--record FILE.json]
The program is $SWARMPI; needs an Open MPI with ULFM, and h5py.
"""

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where harness/ is

from harness import record
from harness.swarm import reports_deaths
from hdf5 import h5py
from measure.recovery_time import WatchedSwarm, quantiles_ms, show

WORKERS = 8
STEPS = 150
SETTINGS = (f"train.steps={STEPS}", "train.microbatches=12", "output.validate_every=0")
# Router and pipeline come to rest; and what a death disturbs: its step, those that it delays.
FIRST, AROUND = 10, 4
BOUNDS_MS = (-50, -20, -10, 0, 10, 20, 50, 100, 200, 500, float("inf"))
DEADLINE_S = 120


class Run:
    """A run that has lost these workers: when that was known, and when each step ended."""

    def __init__(self, victims, spares, rng):
        with tempfile.TemporaryDirectory(prefix="swarmpi-lost-") as folder:
            with WatchedSwarm(
                folder, WORKERS + spares, *SETTINGS, f"swarm.spares={spares}"
            ) as swarm:
                time.sleep(1)
                self.known_s = []
                for victim in victims:
                    self.known_s.append(swarm.kill(victim)[0])
                    time.sleep(1.2 + 0.4 * rng.random())
                swarm.swarm.wait(DEADLINE_S)
            if not os.path.exists(swarm.run + ".journal/complete"):
                raise RuntimeError("a run did not end well")
            with h5py.File(swarm.run, "r") as file:
                self.ends_s = list(file["steps/time_s"])
                events = zip(file["events/kind"].asstr()[()], file["events/time_s"][()])
                self.deaths_s = [time_s for kind, time_s in events if kind == "kill"]
        if len(self.deaths_s) != len(victims):
            raise RuntimeError(f"{len(victims)} were killed, {len(self.deaths_s)} deaths noted")

    def took_s(self):
        return self.ends_s[-1] - self.ends_s[FIRST]

    def spans_s(self):
        """What `AROUND` steps took: from each death on, and elsewhere."""
        from_deaths, elsewhere = [], []
        starts = [sum(end <= death for end in self.ends_s) - 1 for death in self.deaths_s]
        for start in starts:
            if start + AROUND >= len(self.ends_s):
                raise RuntimeError("a run had ended before all were killed: give it more steps")
            from_deaths.append(self.ends_s[start + AROUND] - self.ends_s[start])
        place = FIRST
        while place + AROUND < len(self.ends_s):
            near = [start for start in starts if place - AROUND < start < place + AROUND]
            if near:
                place = near[0] + AROUND
                continue
            elsewhere.append(self.ends_s[place + AROUND] - self.ends_s[place])
            place += AROUND
        return from_deaths, elsewhere


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--deaths", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    record.add_option(parser)
    options = parser.parse_args()
    if not reports_deaths():
        print("not run: there is no MPI that reports deaths")
        return 77
    rng = random.Random(options.seed)
    known_s, lost_s, chance_s, whole_s, undisturbed_s = [], [], [], [], []
    for _ in range(options.runs):
        undisturbed_s.append(Run([], options.deaths, rng).took_s())
        run = Run(rng.sample(range(WORKERS), options.deaths), options.deaths, rng)
        from_deaths, elsewhere = run.spans_s()
        usual_s = statistics.median(elsewhere)
        known_s += run.known_s
        lost_s += [span - usual_s for span in from_deaths]
        chance_s += [span - usual_s for span in elsewhere]
        whole_s.append(run.took_s())
    show("until a death is known", known_s)
    show(f"time lost per death, in {AROUND} steps", lost_s, BOUNDS_MS)
    show(f"{AROUND} steps where nobody died, about their median", chance_s, BOUNDS_MS)
    step_ms = 1e3 * statistics.mean(undisturbed_s) / (STEPS - FIRST)
    print(f"a step takes {step_ms:.1f} ms; mean time lost {1e3 * statistics.mean(lost_s):.1f} ms")
    per_death_ms = [1e3 * (a - b) / options.deaths for a, b in zip(whole_s, undisturbed_s)]
    print(
        f"whole runs, with deaths less without, per death: median "
        f"{statistics.median(per_death_ms):.1f} ms; {options.runs} pairs from "
        f"{min(per_death_ms):.1f} to {max(per_death_ms):.1f} ms"
    )
    record.write(
        options.record,
        f"What a death costs a run of {WORKERS} emulated workers whose places spares take.",
        {
            "deaths": len(lost_s),
            "step_ms": step_ms,
            "mean_lost_ms": 1e3 * statistics.mean(lost_s),
            "known_median_ms": quantiles_ms(known_s)["median_ms"],
            "known_longest_ms": quantiles_ms(known_s)["longest_ms"],
            "whole_runs_median_per_death_ms": statistics.median(per_death_ms),
        },
        {
            "known_s": known_s,
            f"lost_in_{AROUND}_steps_s": lost_s,
            "chance_s": chance_s,
            "whole_with_deaths_s": whole_s,
            "whole_undisturbed_s": undisturbed_s,
        },
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
