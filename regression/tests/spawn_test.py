"""Processes that are started in the place of those that are gone (swarm.spawn).

The program under test is $SWARMPI, its launcher $SWARMPI_MPIRUN.
"""

import os
import re
import signal
import unittest

from death_test import DeathTest, hears_of_deaths
from harness import BINARY, children, lives, wait_for

STEPS = 1200


@unittest.skipUnless(hears_of_deaths(), "this MPI reports no deaths")
class Spawned(DeathTest):
    """Devices are emulated: a run takes some seconds, in which newcomers find their place."""

    settings = (f"train.steps={STEPS}", "output.checkpoint_every=20", "output.validate_every=0")

    def started_with_spawn(self, name):
        self.slow_down(overhead_s=1e-3)
        return self.started(name, "swarm.spawn=true", "compute.fidelity=emulated")

    def newcomers(self, process, pids):
        """Process numbers of those that were not there at the start."""
        found = []
        for pid in set(children(process)) - set(pids.values()):
            try:
                if os.path.samefile(os.readlink(f"/proc/{pid}/exe"), BINARY) and lives(pid):
                    found.append(pid)
            except OSError:
                pass
        return found

    def served_newcomer(self, process, pids, run):
        """The process number of the first that serves a stage."""

        def serves():
            with open(run + ".journal/term-1", "rb") as file:
                return b"migrate" in file.read()

        wait_for(serves)
        return self.newcomers(process, pids)[0]

    def assert_undisturbed(self, process, run):
        """And every newcomer has ended with the run."""
        tree = children(process)
        out = super().assert_undisturbed(process, run)
        wait_for(lambda: not any(map(lives, tree)))
        return out

    def assert_served(self, out, peers):
        for peer in peers:
            for event in ("spawn", "join", "stage [01] +migrate"):
                self.assertRegex(out, rf"peer {peer} +{event}")
            self.assertRegex(out, rf"\n +{peer} +[01]")  # it is among those who have worked

    def test_a_newcomer_takes_the_place_of_a_worker(self):
        process, pids, run = self.started_with_spawn("worker")
        os.kill(pids[2], signal.SIGKILL)
        out = self.assert_undisturbed(process, run)
        self.assert_served(out, [4])
        self.assertEqual(len(re.findall(" spawn ", out)), 1, out)

    def test_the_leader_is_replaced_too(self):
        process, pids, run = self.started_with_spawn("leader")
        os.kill(pids[0], signal.SIGKILL)
        self.assert_served(self.assert_undisturbed(process, run), [5])

    def test_all_but_one(self):
        process, pids, run = self.started_with_spawn("one")
        for rank in (0, 1, 2):
            os.kill(pids[rank], signal.SIGKILL)
        self.assert_served(self.assert_undisturbed(process, run), [7, 11, 15])

    def test_a_newcomer_dies(self):
        process, pids, run = self.started_with_spawn("newcomer")
        os.kill(pids[1], signal.SIGKILL)
        os.kill(self.served_newcomer(process, pids, run), signal.SIGKILL)
        out = self.assert_undisturbed(process, run)
        self.assert_served(out, [8])

    def test_a_newcomer_dies_while_it_starts(self):
        """The one that starts it may wait for it in vain: then the others go on without both."""
        process, pids, run = self.started_with_spawn("early")
        os.kill(pids[1], signal.SIGKILL)
        wait_for(lambda: self.newcomers(process, pids))
        os.kill(self.newcomers(process, pids)[0], signal.SIGKILL)
        self.assert_undisturbed(process, run)

    def test_a_newcomer_dies_with_the_one_that_has_started_it(self):
        process, pids, run = self.started_with_spawn("both")
        os.kill(pids[1], signal.SIGKILL)
        newcomer = self.served_newcomer(process, pids, run)
        os.kill(pids[0], signal.SIGKILL)
        wait_for(lambda: not lives(newcomer))
        out = self.assert_undisturbed(process, run)
        self.assert_served(out, [6, 10])

    def test_told_to_stop_all_do(self):
        process, pids, _ = self.started_with_spawn("stop")
        os.kill(pids[3], signal.SIGKILL)
        wait_for(lambda: self.newcomers(process, pids))
        os.kill(children(process)[0], signal.SIGUSR1)
        self.swarm_ended(process, 20)
        self.assert_resumes("stop", ranks=3)


if __name__ == "__main__":
    unittest.main()
