#!/usr/bin/env python3
"""What Algorithm 2 makes of a swarm in which three of the four peers of a stage have died.

Eight ranks on emulated devices serve two stages of nearly equal cost. Three peers of one stage are
killed; with swarm.rebalance = "paper" others move there. Measured are the tokens a second over the
20 steps that begin two periods after the last death, against five ranks that were dealt 3 + 2 or
2 + 3 from the start, whichever is better. Moves after that are counted: equal loads move nobody,
but loads that are measured are never quite equal.

usage: rebalancing.py [--seeds N] [--record FILE.json] [--plot FILE.png]
The program is $SWARMPI; needs an Open MPI with ULFM, h5py, and matplotlib for --plot.
"""

import argparse
import itertools
import re
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where harness/ is

from harness import program, record
from harness.program import BINARY
from harness.swarm import Swarm, reports_deaths
from hdf5 import h5py

RANKS, LEFT = 8, 5
PERIOD_S = 2
DEATHS_S = (0.8, 1.1, 1.4)  # before the first move: four peers serve each stage until then
STEPS_MEASURED = 20
# A microbatch takes a stage 40 ms, and 8 % more the last one, which has the head; five peers need a
# quarter of a second for a step of twelve, where one of them is mostly idle.
DEVICE = '[devices.slow]\ngflops = 0.5\n[[peers]]\npeers = {peers}\ndevice = "slow"\n'
SETTINGS = (
    "compute.fidelity=emulated",
    "swarm.stages=2",
    "model.layers=8",
    "train.microbatches=12",
    "output.validate_every=0",
    "swarm.window=16",  # by default it follows the ranks that there are at the start
)


class Run:
    """A run: when its steps ended, what they had cost, and what happened to its peers."""

    def __init__(self, ranks, steps, *settings, trace=()):
        with tempfile.TemporaryDirectory(prefix="swarmpi-rebalancing-") as folder:
            deck, _ = program.write_deck(folder, DEVICE.format(peers=list(range(ranks))))
            run = f"{folder}/RUN.h5"
            own = [f"train.steps={steps}", *settings]
            if trace:
                path = Path(folder, "trace.csv")
                path.write_text("".join(f"{t},kill,{peer}\n" for t, peer in trace), "ascii")
                own += ["faults.mode=kill", f"faults.trace={path}"]
            arguments = program.train_arguments(deck, run, *SETTINGS, *own, quiet=False)
            with Swarm(ranks, [BINARY, *arguments], bind=False) as swarm:
                _, out, err = swarm.result()
            if not Path(run + ".journal/complete").exists():
                raise RuntimeError(f"a run did not end well:\n{out}\n{err}")
            with h5py.File(run, "r") as file:
                self.ends_s = list(file["steps/time_s"])
                self.tokens = int(file["steps/tokens"][1])
                events = file["events"]
                self.events = list(
                    zip(
                        events["time_s"][()],
                        events["kind"].asstr()[()],
                        events["detail"].asstr()[()],
                    )
                )
        # Each peer that was not killed tells how many of its jobs took longer than on its device.
        told = re.findall(r"(\d+) of (\d+) jobs took longer", err)
        if len(told) != ranks - len(trace):
            raise RuntimeError(f"{len(told)} peers have told of late jobs:\n{err}")
        self.late_jobs = sum(int(late) for late, _ in told)
        self.jobs = sum(int(jobs) for _, jobs in told)

    def tokens_per_s(self, first):
        """Over the measured steps, from this one on."""
        if first + STEPS_MEASURED >= len(self.ends_s):
            raise RuntimeError("a run was over before all was measured: give it more steps")
        took_s = self.ends_s[first + STEPS_MEASURED] - self.ends_s[first]
        return self.tokens * STEPS_MEASURED / took_s

    def times_of(self, kind, text=""):
        return [time_s for time_s, of, detail in self.events if of == kind and text in detail]

    def first_step_after(self, time_s):
        return sum(end < time_s for end in self.ends_s)


def rebalanced(stage, load, seed):
    """Three of the four peers of the stage die; peer 0, which leads, lives."""
    victims = [peer for peer in range(RANKS) if peer % 2 == stage][1:]
    settings = (
        "swarm.rebalance=paper",
        f"swarm.rebalance_period_s={PERIOD_S}",
        f"swarm.rebalance_load={load}",
        f"swarm.seed={seed}",
    )
    return Run(RANKS, 70, *settings, trace=list(zip(DEATHS_S, victims)))


def best_dealt(seed):
    """Tokens a second of five ranks that were dealt to the stages from the start."""
    best = 0.0
    for pins in ("[0,0,0,1,1]", "[0,0,1,1,1]"):
        run = Run(LEFT, STEPS_MEASURED + 8, f"swarm.pins={pins}", f"swarm.seed={seed}")
        best = max(best, run.tokens_per_s(5))
    return best


def plot(path, run, dealt):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from picture_file import picture_at, save

    took_s = [b - a for a, b in zip(run.ends_s, run.ends_s[1:])]
    figure, axes = pyplot.subplots(figsize=(8, 3.5), layout="constrained")
    axes.step(run.ends_s[1:], [run.tokens / t for t in took_s], where="pre", label="8 ranks, 3 die")
    axes.axhline(dealt, color="0.4", linestyle="--", label="5 ranks, best deal from the start")
    for time_s in run.times_of("kill"):
        axes.axvline(time_s, color="tab:red", linewidth=1)
    for time_s in run.times_of("migrate", "moves from"):
        axes.axvline(time_s, color="tab:green", linewidth=1, linestyle=":")
    axes.plot([], [], color="tab:red", label="a peer dies")
    axes.plot([], [], color="tab:green", linestyle=":", label="a move begins")
    axes.set(xlabel="run time (s)", ylabel="tokens / s", ylim=(0, None))
    axes.legend(loc="lower left", fontsize="small", framealpha=1)
    save(figure, picture_at(Path(path)), 120)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--plot", metavar="FILE.png")
    record.add_option(parser)
    options = parser.parse_args()
    if not reports_deaths():
        print("not run: there is no MPI that reports deaths")
        return 77
    shares, moves_after, late, samples, steps_s = [], [], [], [], []
    for seed in range(1, options.seeds + 1):
        dealt = best_dealt(seed)
        for stage, load in itertools.product((0, 1), ("sum", "mean")):
            run = rebalanced(stage, load, seed)
            settled_s = max(run.times_of("kill")) + 2 * PERIOD_S
            first = run.first_step_after(settled_s)
            share = float(run.tokens_per_s(first) / dealt)
            shares.append(share)
            last_s = run.ends_s[first + STEPS_MEASURED]
            begun = run.times_of("migrate", "moves from")
            moves_after.append(int(sum(settled_s < time_s < last_s for time_s in begun)))
            late.append(run.late_jobs / run.jobs)
            steps_s.append(float(last_s - run.ends_s[first]) / STEPS_MEASURED)
            samples.append(
                {
                    **{"seed": seed, "stage": stage, "load": load, "share": share},
                    **{"moves": len(begun), "late_jobs": run.late_jobs, "jobs": run.jobs},
                }
            )
            print(
                f"seed {seed}, stage {stage} loses three, load by {load}: {share:.3f} of "
                f"{dealt:.0f} tokens/s; {len(begun)} moves, {moves_after[-1]} in the steps "
                f"measured; {steps_s[-1]:.3f} s a step, {run.late_jobs} of {run.jobs} jobs late",
                flush=True,
            )
            if options.plot and len(shares) == 1:
                plot(options.plot, run, dealt)
    record.write(
        options.record,
        "Tokens a second after three of four peers of a stage have died and others have moved "
        "there, against the best static deal of those that are left.",
        {
            "least_share": min(shares),
            "median_share": statistics.median(shares),
            "most_moves_in_steps_measured": max(moves_after),
            "shortest_step_s": min(steps_s),
            "longest_step_s": max(steps_s),
            "most_late_share": max(late),
        },
        samples,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
