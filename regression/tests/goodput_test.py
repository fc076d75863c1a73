"""What a run file says that the time of peers went by with, where what it went by with is known:
devices are emulated, so that a pass takes so long on any machine, and one peer is killed.

The program under test is $SWARMPI, its launcher $SWARMPI_MPIRUN.
"""

import re
import unittest

try:
    import h5py
    import numpy as np
except ImportError:
    h5py = None

from harness.program import slow_devices
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

    def setUp(self):
        super().setUp()
        self.add_to_deck(slow_devices(PASS_S, RANKS))

    def assert_near(self, found_s, known_s, lives, what):
        bound_s = 0.02 * lives.life_s()
        self.assertLess(abs(found_s - known_s), bound_s, f"{what}; {lives.text()}")

    def assert_lives(self, lives, peers):
        """Of peers that live until the end no time is unexplained."""
        for peer in peers:
            # From the first view to the last commit; what comes before and after is short.
            lived_s = lives.life_s(peer) - lives.seconds("start", peer)
            known_s = float(lives.steps_s[-1])
            print(f"peer {peer}: {lived_s:.3f} s of {known_s:.3f} s", flush=True)
            self.assertLess(abs(lived_s - known_s), 0.02 * known_s + 0.2, f"peer {peer}")

    def test_without_deaths_passes_are_all_that_is_computed(self):
        lives = Lives(self.train("run", *SETTINGS, ranks=RANKS))
        print(lives.text(), flush=True)
        self.assert_lives(lives, range(RANKS))
        self.assert_near(lives.seconds("useful"), USEFUL_S, lives, "passes")
        self.assertEqual(lives.seconds("repeated"), 0)
        self.assertEqual(lives.seconds("repair"), 0)
        self.assertEqual(set(lives.table["peer"]), set(range(RANKS)))
        self.assertLessEqual(np.unique(lives.table["step"]).tolist(), list(range(STEPS + 2)))

    @unittest.skipUnless(reports_deaths(), "this MPI reports no deaths")
    def test_a_death_costs_its_open_step_and_what_is_done_again(self):
        self.add_to_deck(KILL)
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
        self.assertGreater(lives.seconds("repair"), 0)
        self.assertLess(lives.seconds("repair"), 0.02 * lives.life_s())
        self.assertRegex(out, r"\ngoodput +\d+\.\d %, ETTR \d+\.\d %, of [\d.]+ peer-seconds\n")


if __name__ == "__main__":
    unittest.main()
