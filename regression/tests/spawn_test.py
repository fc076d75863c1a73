"""Processes that are started in the place of those that are gone (swarm.spawn).

The program under test is $SWARMPI, its launcher $SWARMPI_MPIRUN.
"""

import os
import re
import signal
import unittest

from harness.processes import children, lives, runs, wait_for, wait_until_gone
from harness.program import BINARY
from harness.swarm import reports_deaths
from harness.test_case import DisturbedSwarmTest

STEPS = 1200


@unittest.skipUnless(reports_deaths(), "this MPI reports no deaths")
class Spawned(DisturbedSwarmTest):
    """Devices are emulated: a run takes some seconds, in which newcomers find their place."""

    settings = (f"train.steps={STEPS}", "output.checkpoint_every=20", "output.validate_every=0")

    def started_with_spawn(self, name):
        self.slow_down(overhead_s=1e-3)
        return self.started(name, "swarm.spawn=true", "compute.fidelity=emulated")

    def newcomers(self, swarm, pids):
        """Process numbers of those that were not there at the start."""
        others = set(children(swarm)) - set(pids.values())
        return [pid for pid in others if runs(pid, BINARY) and lives(pid)]

    def wait_for_newcomers(self, swarm, pids):
        wait_for(lambda: self.newcomers(swarm, pids), "a process that was started for a dead one")
        return self.newcomers(swarm, pids)

    def served_newcomer(self, swarm, pids, run):
        """The process number of the first that serves a stage."""

        def serves():
            with open(run + ".journal/term-1", "rb") as file:
                return b"migrate" in file.read()

        wait_for(serves, "a newcomer that serves a stage")
        return self.newcomers(swarm, pids)[0]

    def assert_undisturbed(self, swarm, run):
        """And every newcomer has ended with the run."""
        tree = children(swarm)
        out = super().assert_undisturbed(swarm, run)
        wait_until_gone(tree, "all processes of the run")
        return out

    def assert_served(self, out, peers):
        for peer in peers:
            for event in ("spawn", "join", "stage [01] +migrate"):
                self.assertRegex(out, rf"peer {peer} +{event}")
            self.assertRegex(out, rf"\n +{peer} +[01]")  # it is among those who have worked

    def test_a_newcomer_takes_the_place_of_a_worker(self):
        swarm, pids, run = self.started_with_spawn("worker")
        os.kill(pids[2], signal.SIGKILL)
        out = self.assert_undisturbed(swarm, run)
        self.assert_served(out, [4])
        self.assertEqual(len(re.findall(" spawn ", out)), 1, out)

    def test_the_leader_is_replaced_too(self):
        swarm, pids, run = self.started_with_spawn("leader")
        os.kill(pids[0], signal.SIGKILL)
        self.assert_served(self.assert_undisturbed(swarm, run), [5])

    def test_all_but_one(self):
        swarm, pids, run = self.started_with_spawn("one")
        for rank in (0, 1, 2):
            os.kill(pids[rank], signal.SIGKILL)
        self.assert_served(self.assert_undisturbed(swarm, run), [7, 11, 15])

    def test_a_newcomer_dies(self):
        swarm, pids, run = self.started_with_spawn("newcomer")
        os.kill(pids[1], signal.SIGKILL)
        os.kill(self.served_newcomer(swarm, pids, run), signal.SIGKILL)
        out = self.assert_undisturbed(swarm, run)
        self.assert_served(out, [8])

    def test_a_newcomer_dies_while_it_starts(self):
        """The one that starts it may wait for it in vain: then the others go on without both."""
        swarm, pids, run = self.started_with_spawn("early")
        os.kill(pids[1], signal.SIGKILL)
        os.kill(self.wait_for_newcomers(swarm, pids)[0], signal.SIGKILL)
        self.assert_undisturbed(swarm, run)

    def test_a_newcomer_dies_with_the_one_that_has_started_it(self):
        swarm, pids, run = self.started_with_spawn("both")
        os.kill(pids[1], signal.SIGKILL)
        newcomer = self.served_newcomer(swarm, pids, run)
        os.kill(pids[0], signal.SIGKILL)
        wait_until_gone([newcomer], "the newcomer")
        out = self.assert_undisturbed(swarm, run)
        self.assert_served(out, [6, 10])

    def test_told_to_stop_all_do(self):
        swarm, pids, _ = self.started_with_spawn("stop")
        os.kill(pids[3], signal.SIGKILL)
        self.wait_for_newcomers(swarm, pids)
        os.kill(children(swarm)[0], signal.SIGUSR1)
        swarm.result(20)
        self.assert_resumes("stop", ranks=3)


if __name__ == "__main__":
    unittest.main()
