"""What a run file says of throughput, on devices whose speed is known.

The program under test is $SWARMPI, its launcher $SWARMPI_MPIRUN.
"""

import statistics
import unittest

try:
    import h5py
except ImportError:
    h5py = None

from harness.swarm import MPIRUN
from harness.test_case import SwarmpiTest

FAST_S, SLOW_S = 0.01, 0.04  # what a pass takes; its FLOPs are nothing beside that
MICROBATCHES, TOKENS = 32, 64  # of a step; of a microbatch
DEVICES = f"""
[devices.fast]
gflops = 1e6
overhead_s = {FAST_S}
[devices.slow]
gflops = 1e6
overhead_s = {SLOW_S}
"""


@unittest.skipUnless(h5py, "there is no h5py")
@unittest.skipUnless(MPIRUN, "there is no mpirun")
class Throughput(SwarmpiTest):
    """Two emulated peers that serve one stage; each gets every other microbatch."""

    def measured(self, *devices):
        """Medians over the steps: tokens_per_s, fraction_of_ideal, fraction_of_capacity."""
        self.add_to_deck(DEVICES)
        for peer, device in enumerate(devices):
            self.add_to_deck(f'[[peers]]\npeers = [{peer}]\ndevice = "{device}"\n')
        run = self.train(
            "run",
            "swarm.wiring=fixed",
            "compute.fidelity=emulated",
            f"train.microbatches={MICROBATCHES}",
            "output.validate_every=0",
            ranks=len(devices),
        )
        with h5py.File(run) as file:
            table = {name: column[2:] for name, column in file["throughput"].items()}
        names = ("tokens_per_s", "fraction_of_ideal", "fraction_of_capacity")
        return tuple(statistics.median(table[name]) for name in names)

    def test_a_slow_peer_that_gets_half_of_the_work_leaves_two_fifths(self):
        rate, ideal, capacity = self.measured("fast", "slow")
        known = TOKENS * (1 / FAST_S + 1 / SLOW_S)
        self.assertAlmostEqual(ideal, rate / known, delta=0.02)
        self.assertAlmostEqual(ideal, 0.4, delta=0.05)
        self.assertEqual(capacity, 1, "there is one stage only")

    def test_equal_peers_with_equal_work_come_near_to_the_ideal(self):
        rate, ideal, _ = self.measured("slow", "slow")
        self.assertAlmostEqual(ideal, rate / (TOKENS * 2 / SLOW_S), delta=0.04)
        self.assertGreater(ideal, 0.85)
        self.assertLessEqual(ideal, 1.01)


if __name__ == "__main__":
    unittest.main()
