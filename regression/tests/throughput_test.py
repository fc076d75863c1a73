"""What a run file says of throughput and of the peers' time, on devices whose speed is known.

The program under test is $SWARMPI, its launcher $SWARMPI_MPIRUN.
"""

import unittest

try:
    import h5py
    import numpy as np
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

    def trained(self, *devices):
        """The run file of as many peers, which have these devices."""
        self.add_to_deck(DEVICES)
        for peer, device in enumerate(devices):
            self.add_to_deck(f'[[peers]]\npeers = [{peer}]\ndevice = "{device}"\n')
        return self.train(
            "run",
            "swarm.wiring=fixed",
            "compute.fidelity=emulated",
            f"train.microbatches={MICROBATCHES}",
            "output.validate_every=0",
            ranks=len(devices),
        )

    def measured(self, *devices):
        """tokens_per_s, fraction_of_ideal and fraction_of_capacity of the third fastest step: where
        other programs want the cores too, many steps come late."""
        with h5py.File(self.trained(*devices)) as file:
            table = {name: column[2:] for name, column in file["throughput"].items()}
        step = np.argsort(table["tokens_per_s"])[-3]
        names = ("tokens_per_s", "fraction_of_ideal", "fraction_of_capacity")
        return tuple(float(table[name][step]) for name in names)

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

    def test_the_time_of_a_peer_is_computing_transfers_and_waiting(self):
        with h5py.File(self.trained("fast", "slow")) as file:
            ended_s = file["steps/time_s"][:]
            table = {name: column[:] for name, column in file["peers"].items()}
        elapsed_s = np.diff(ended_s)[1:]
        passes = MICROBATCHES / 2  # of each peer in a step
        for peer, pass_s in ((0, FAST_S), (1, SLOW_S)):
            rows = (table["peer"] == peer) & (table["step"] > 1)
            compute, idle, reduction, transfer = (
                table[name][rows]
                for name in ("compute_s", "idle_s", "communication_s", "transfer_s")
            )
            whole = compute + idle + reduction
            self.assertAlmostEqual(whole.sum(), elapsed_s.sum(), delta=0.03 * elapsed_s.sum())
            self.assertAlmostEqual(np.median(compute), passes * pass_s, delta=0.1 * passes * pass_s)
            # Some KiB a microbatch, in memory: the rest is waiting for the slow peer.
            self.assertLess(np.median(transfer), 0.05 * np.median(elapsed_s))
            self.assertTrue((transfer <= idle + reduction).all())


if __name__ == "__main__":
    unittest.main()
