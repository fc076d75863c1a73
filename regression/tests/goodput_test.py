"""What a run file says that the time of peers went by with, where what it went by with is known:
devices and links are emulated, so that passes, updates and messages take so long on any machine,
files hang for a while, and one peer is killed.

The program under test is $SWARMPI, its launcher $SWARMPI_MPIRUN.
"""

import os
import re
import time
import unittest

try:
    import h5py
    import numpy as np
except ImportError:
    h5py = None

from harness.hanging_calls import DATA, PART, HangingCalls
from harness.processes import started_s, wait_for
from harness.program import slow_devices, with_settings
from harness.swarm import MPIRUN, reports_deaths
from harness.test_case import SwarmpiTest

RANKS, STAGES, STEPS, MICROBATCHES = 4, 2, 20, 16
PASS_S = 0.025
# Of each microbatch: forward and backward in the first stage, both in one in the last. Step 0,
# which measures, is one more.
PASSES = 3
USEFUL_S = (STEPS + 1) * MICROBATCHES * PASSES * PASS_S
PARTS = ("useful", "repeated", "reduction", "link", "repair", "checkpoint", "start", "idle")
SETTINGS = (
    f"swarm.stages={STAGES}",
    f"train.steps={STEPS}",
    f"train.microbatches={MICROBATCHES}",
    "swarm.wiring=fixed",
    "compute.fidelity=emulated",
    "output.validate_every=0",
    "output.checkpoint_every=10",
)
VICTIM, DIES_IN = 3, 11
KILL = f"""
[[faults.at]]
step = {DIES_IN}
peer = {VICTIM}
event = "kill"
point = "backward"
microbatch = 13
"""


# A run in which one microbatch is under way at a time, so that the time of each part is known.
ALONE_STEPS, ALONE_MICROBATCHES = 10, 8
WIDTH, CONTEXT, MICROBATCH_SIZE = 64, 64, 4
BOUNDARY_BYTES = 4 * WIDTH * CONTEXT * MICROBATCH_SIZE
MBPS, MEMORY_GB_PER_S = 26, 0.05
# What passes over memory for a weight in a step, where one replica has it: docs/deck.md.
UPDATE_BYTES = 12 + 32
HANGS_S = 2
ALONE = f"""
[devices.known]
gflops = 1000
overhead_s = {PASS_S}
memory_gb_per_s = {MEMORY_GB_PER_S}
[links.known]
up_mbps = {MBPS}
down_mbps = {MBPS}
[[peers]]
device = "known"
link = "known"
"""
ALONE_SETTINGS = (
    "swarm.stages=2",
    "swarm.window=1",
    "swarm.wiring=fixed",
    f"model.width={WIDTH}",
    f"model.context={CONTEXT}",
    f"train.microbatch_size={MICROBATCH_SIZE}",
    f"train.microbatches={ALONE_MICROBATCHES}",
    f"train.steps={ALONE_STEPS}",
    "compute.fidelity=emulated",
    "output.validate_every=0",
    f"output.checkpoint_every={ALONE_STEPS}",
)


class Lives:
    """The tables of a run file that tell of peers' time."""

    def __init__(self, run):
        with h5py.File(run) as file:
            self.table = {name: column[:] for name, column in file["goodput"].items()}
            self.steps_s = file["steps/time_s"][:]
            kinds = file["events/kind"].asstr()[:]
            self.death_s = file["events/time_s"][:][kinds == "kill"]

    def seconds(self, part, peer=None):
        rows = slice(None) if peer is None else self.table["peer"] == peer
        return float(self.table[f"{part}_s"][rows].sum())

    def life_s(self, peer=None):
        return sum(self.seconds(part, peer) for part in PARTS)

    def text(self):
        return ", ".join(f"{part} {self.seconds(part):.3f}" for part in PARTS)


@unittest.skipUnless(h5py, "there is no h5py")
@unittest.skipUnless(MPIRUN, "there is no mpirun")
class Goodput(SwarmpiTest):
    """Each part may be off by 2 % of all time."""

    def assert_near(self, found_s, known_s, lives, what):
        bound_s = 0.02 * lives.life_s()
        self.assertLess(abs(found_s - known_s), bound_s, f"{what}; {lives.text()}")

    def hang_for_a_while(self, hanging, what):
        """Returns how long both ranks together hung, in seconds."""
        wait_for(lambda: len(hanging.begun()) == 2, what, 60)
        time.sleep(HANGS_S)
        hanging.end()
        return sum(time.time() - begun_s for begun_s in hanging.begun().values())

    def starts(self, swarm, run):
        """Returns how long both ranks together lived before the first view, in seconds."""
        first_term = run + ".journal/term-1"
        wait_for(lambda: os.path.exists(first_term), "the first view")
        view_s = os.stat(first_term).st_mtime
        processes = swarm.ranks().values()
        self.assertEqual(len(processes), 2)
        return sum(view_s - started_s(process) for process in processes)

    def assert_lives(self, lives, peers):
        """Of peers that live until the end no time is unexplained."""
        for peer in peers:
            # From the first view to the last commit; what comes before and after is short.
            lived_s = lives.life_s(peer) - lives.seconds("start", peer)
            known_s = float(lives.steps_s[-1])
            print(f"peer {peer}: {lived_s:.3f} s of {known_s:.3f} s", flush=True)
            self.assertLess(abs(lived_s - known_s), 0.02 * known_s + 0.2, f"peer {peer}")

    def test_without_deaths_passes_are_all_that_is_computed(self):
        self.add_to_deck(slow_devices(PASS_S, RANKS))
        lives = Lives(self.train("run", *SETTINGS, ranks=RANKS))
        print(lives.text(), flush=True)
        self.assert_lives(lives, range(RANKS))
        self.assert_near(lives.seconds("useful"), USEFUL_S, lives, "passes")
        self.assertEqual(lives.seconds("repeated"), 0)
        self.assertEqual(lives.seconds("repair"), 0)
        self.assertEqual(set(lives.table["peer"]), set(range(RANKS)))
        self.assertLessEqual(np.unique(lives.table["step"]).tolist(), list(range(STEPS + 2)))

    def test_each_part_where_one_microbatch_is_under_way_at_a_time(self):
        self.add_to_deck(ALONE)
        _, checked, err = self.run_program("check", self.deck, *with_settings([], ALONE_SETTINGS))
        weights = 1e3 * float(re.search(r"# parameters +([0-9.]+) k", checked + err)[1])
        hanging = HangingCalls(self.path("hangs"), "read fsync", f"{DATA} {PART}")
        hanging.begin()
        arguments, run = self.training("alone", *ALONE_SETTINGS)
        swarm = self.start_swarm(2, *arguments, through=hanging.command())
        hung_s = self.hang_for_a_while(hanging, "both to read data")
        start_s = self.starts(swarm, run)
        self.assertGreater(start_s, hung_s)
        hanging.begin()
        checkpoint_s = self.hang_for_a_while(hanging, "the last checkpoint")
        status, out, err = swarm.result(60)
        self.assert_complete(run, f"{status}: {out}{err}")
        lives = Lives(run)
        print(lives.text(), flush=True)
        passed = (ALONE_STEPS + 1) * ALONE_MICROBATCHES
        boundary_s = BOUNDARY_BYTES * 8e-6 / MBPS
        known_s = {
            "useful": passed * PASSES * PASS_S,
            "repeated": 0,
            "reduction": ALONE_STEPS * weights * UPDATE_BYTES * 1e-9 / MEMORY_GB_PER_S,
            # Each boundary, there and back, is on its way from one peer to the other.
            "link": passed * 2 * 2 * boundary_s,
            "repair": 0,
            "checkpoint": checkpoint_s,
            "start": start_s,
            # While one has a pass to do the other has none.
            "idle": passed * PASSES * PASS_S,
        }
        # Where other programs want the cores too, both wait until they have one.
        on_time_s = passed * (PASSES * PASS_S + 2 * boundary_s) + known_s["reduction"] / 2
        late_s = float(lives.steps_s[-1]) - on_time_s
        print(f"late by {late_s:.3f} s of {on_time_s:.3f} s", flush=True)
        known_s["idle"] += 2 * max(0, late_s)
        for part, part_s in known_s.items():
            with self.subTest(part):
                self.assert_near(lives.seconds(part), part_s, lives, part)

    @unittest.skipUnless(reports_deaths(), "this MPI reports no deaths")
    def test_a_death_costs_its_open_step_and_what_is_done_again(self):
        self.add_to_deck(slow_devices(PASS_S, RANKS) + KILL)
        arguments, run = self.training("run", *SETTINGS, "faults.mode=kill", quiet=False)
        status, out, err = self.start_swarm(RANKS, *arguments).result(60)
        self.assert_complete(run, f"{status}: {out}{err}")
        lives = Lives(run)
        print(lives.text(), *re.findall(r"\ngoodput.*\n.*", out), sep="\n", flush=True)
        self.assertEqual(len(lives.death_s), 1, out)
        self.assert_lives(lives, [peer for peer in range(RANKS) if peer != VICTIM])
        # Each pass counts once, whoever did it; of the dead peer only those that were committed.
        self.assert_near(lives.seconds("useful"), USEFUL_S, lives, "passes")
        # It was lost in a step: what it did since the commit before is all that it has lost.
        death_s = float(lives.death_s[0])
        open_s = death_s - float(lives.steps_s[DIES_IN - 1])
        self.assert_near(lives.seconds("repeated", VICTIM), open_s, lives, "the dead peer's")
        self.assert_near(
            lives.life_s(VICTIM) - lives.seconds("start", VICTIM), death_s, lives, "its life"
        )
        others_s = lives.seconds("repeated") - lives.seconds("repeated", VICTIM)
        self.assertLess(others_s, 2 * MICROBATCHES * PASS_S, "passes that others did once more")
        # Nothing where all others compute meanwhile; in simulation/goodput_test somebody waits.
        self.assertLess(lives.seconds("repair"), 0.02 * lives.life_s())
        self.assertRegex(out, r"\ngoodput +\d+\.\d %, ETTR \d+\.\d %, of [\d.]+ peer-seconds\n")


if __name__ == "__main__":
    unittest.main()
