"""Swarms whose disk is full: they end, say why, and go on bit for bit when there is room again.

The program under test is $SWARMPI, its launcher $SWARMPI_MPIRUN. Needs root, for small disks.
"""

import os
import signal
import unittest

from harness import small_disks
from harness.processes import wait_until_gone
from harness.swarm import MPIRUN, reports_deaths
from harness.test_case import DisturbedSwarmTest

SMALL_BYTES, LARGE_BYTES = 32 << 20, 512 << 20


@unittest.skipUnless(MPIRUN, "there is no mpirun")
@unittest.skipIf(small_disks.missing(), small_disks.missing())
class FullDisk(DisturbedSwarmTest):
    """Four ranks, and a disk that is full before they are done."""

    settings = ("train.steps=300", "output.checkpoint_every=20", "output.validate_every=0")

    def make_disk(self, *names):
        folder = self.path(*names)
        small_disks.make(folder, SMALL_BYTES)
        self.addCleanup(small_disks.remove, folder)
        return folder

    def assert_full(self, swarm, pids, name):
        """It ends and says which file found no room; nobody is left. Returns mpirun's status."""
        status, _, err = swarm.result(60)
        wait_until_gone(pids.values(), "all ranks")
        self.assertRegex(err, rf"swarmpi: .*/{name}/\S+ failed: No space left on device")
        self.assertIn(f"stopped; go on with --resume {self.path(name, 'RUN.checkpoints')}", err)
        return status

    def assert_goes_on(self, name, disk):
        small_disks.enlarge(disk, LARGE_BYTES)
        self.assert_resumes(name, ranks=3)

    def test_somebody_else_has_filled_it(self):
        self.slow_down()
        for name, disk in (("all", ["all"]), ("part", ["part", "RUN.checkpoints"])):
            with self.subTest(disk=disk):
                folder = self.make_disk(*disk)
                swarm, pids, _ = self.started(name, "compute.fidelity=emulated")
                small_disks.fill(folder)
                self.assertEqual(self.assert_full(swarm, pids, name), 3)
                self.assert_goes_on(name, folder)

    def test_its_own_checkpoints_have_filled_it(self):
        keep_all = ("output.checkpoint_every=1", "output.keep=1000", "swarm.stages=2")
        disk = self.make_disk("kept")
        arguments, _ = self.training("kept", *self.settings, *keep_all)
        self.assertEqual(self.assert_full(self.start_swarm(4, *arguments), {}, "kept"), 3)
        self.assert_goes_on("kept", disk)

    @unittest.skipUnless(reports_deaths(), "this MPI reports no deaths")
    def test_it_is_full_when_a_rank_is_killed(self):
        self.slow_down()
        for rank in (0, 3):
            with self.subTest(rank=rank):
                name = f"killed{rank}"
                disk = self.make_disk(name)
                swarm, pids, _ = self.started(name, "compute.fidelity=emulated")
                small_disks.fill(disk)
                os.kill(pids[rank], signal.SIGKILL)
                self.assert_full(swarm, pids, name)
                self.assert_goes_on(name, disk)


if __name__ == "__main__":
    unittest.main()
