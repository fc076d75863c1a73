"""Ranks that are killed, stopped or told to go while they train: only time is lost.

The program under test is $SWARMPI, its launcher $SWARMPI_MPIRUN. Where the MPI reports no deaths a
run ends when a rank dies, and goes on bit for bit.
"""

import os
import signal
import time
import unittest

from harness import MPIRUN, SwarmpiTest, children, launch, lives, ranks_of, wait_for

SETTINGS = ("train.steps=600", "output.checkpoint_every=20", "output.validate_every=0")


def hears_of_deaths():
    return bool(MPIRUN) and "ulfm" in launch(1)


@unittest.skipUnless(MPIRUN, "there is no mpirun")
class DeathTest(SwarmpiTest):
    """A swarm in the midst of its run, and that of one process that nobody disturbs."""

    settings = SETTINGS

    def setUp(self):
        super().setUp()
        self.reference = self.train("reference", *self.settings)

    def slow_down(self):
        """Emulated devices: the same bits, some seconds on any machine."""
        with open(self.deck, "a", encoding="ascii") as file:
            file.write(
                "[devices.slow]\ngflops = 1000\noverhead_s = 5e-4\n"
                '[[peers]]\npeers = [0, 1, 2, 3]\ndevice = "slow"\n'
            )

    def started(self, name, *settings, ranks=4, checkpoint=20):
        """The swarm, its ranks' process numbers, and the run file."""
        arguments, run = self.training(name, *self.settings, "swarm.stages=2", *settings)
        arguments.remove("--quiet")
        process = self.start_swarm(ranks, *arguments)
        # Both before the run is under way: they may take long on a busy machine.
        wait_for(lambda: process.poll() is not None or len(ranks_of(process)) == ranks)
        pids = ranks_of(process)
        self.assertEqual(set(pids), set(range(ranks)), "the swarm has ended too early")
        manifest = self.path(name, "checkpoints", f"step-{checkpoint}", "manifest")
        wait_for(lambda: process.poll() is not None or os.path.exists(manifest))
        return process, pids, run

    def assert_undisturbed(self, process, run):
        """It ends complete and equal; returns what it said."""
        _, out, err = self.swarm_ended(process, 60)
        self.assertTrue(os.path.exists(run + ".journal/complete"), out + err)
        self.assert_same_run(self.reference, run)
        return out

    def assert_resumes(self, name, ranks=None):
        run = self.path(name, "RUN.h5")
        self.assertFalse(os.path.exists(run + ".journal/complete"))
        checkpoints = self.path(name, "checkpoints")
        resumed = self.train(name, *self.settings, ranks=ranks, resume=checkpoints)
        self.assert_same_run(self.reference, resumed)


class Told(DeathTest):
    """Whoever is asked to stop or go does, and nothing is lost."""

    def test_usr1_to_mpirun_stops_with_a_checkpoint(self):
        process, _, _ = self.started("stopped")
        os.kill(children(process)[0], signal.SIGUSR1)
        status, _, err = self.swarm_ended(process, 20)
        self.assertEqual(status, 3, err)
        self.assertEqual(err.count("--resume"), 1, err)
        self.assert_resumes("stopped", ranks=3)

    @unittest.skipUnless(hears_of_deaths(), "this MPI reports no deaths")
    def test_usr1_to_one_rank_lets_it_go(self):
        self.slow_down()
        for rank in (0, 3):
            with self.subTest(rank=rank):
                process, pids, run = self.started(f"left{rank}", "compute.fidelity=emulated")
                os.kill(pids[rank], signal.SIGUSR1)
                wait_for(lambda pid=pids[rank]: not lives(pid))
                out = self.assert_undisturbed(process, run)
                self.assertRegex(out, rf"peer {rank} +leave")
                self.assertNotIn("kill ", out)


@unittest.skipIf(hears_of_deaths(), "this MPI reports deaths")
class WithoutReports(DeathTest):
    """Where the others are not told of a death, it ends the run."""

    def test_a_killed_rank_ends_the_run(self):
        process, pids, _ = self.started("killed")
        os.kill(pids[2], signal.SIGKILL)
        self.swarm_ended(process, 20)
        wait_for(lambda: not any(map(lives, pids.values())), timeout_s=5)
        self.assert_resumes("killed", ranks=2)

    def test_usr1_to_one_rank_stops_all_with_a_checkpoint(self):
        process, pids, _ = self.started("told")
        os.kill(pids[1], signal.SIGUSR1)
        status, _, err = self.swarm_ended(process, 20)
        self.assertEqual(status, 3, err)
        self.assert_resumes("told")


@unittest.skipUnless(hears_of_deaths(), "this MPI reports no deaths")
class Killed(DeathTest):
    """Any rank, at any instant."""

    def test_one_rank(self):
        for rank in (0, 1, 3):
            with self.subTest(rank=rank):
                process, pids, run = self.started(f"killed{rank}")
                os.kill(pids[rank], signal.SIGKILL)
                out = self.assert_undisturbed(process, run)
                self.assertRegex(out, rf"peer {rank} +kill")
                self.assertRegex(out, r"\nlost +1 peer; \d+ repairs?, median")

    def test_two_at_once_one_of_them_the_leader(self):
        process, pids, run = self.started("leader")
        for rank in (0, 3):
            os.kill(pids[rank], signal.SIGKILL)
        out = self.assert_undisturbed(process, run)
        self.assertRegex(out, r"peer 1 +leader +term 2")

    def test_a_stage_goes_back_to_the_checkpoint(self):
        process, pids, run = self.started("stage", "swarm.pins=[0, 1, 0, 1]")
        for rank in (1, 3):
            os.kill(pids[rank], signal.SIGKILL)
        out = self.assert_undisturbed(process, run)
        self.assertRegex(out, r"incarnation +a stage was lost")

    def test_all_but_one(self):
        process, pids, run = self.started("one")
        for rank in (2, 0, 1):
            os.kill(pids[rank], signal.SIGKILL)
            time.sleep(0.02)
        self.assert_undisturbed(process, run)

    def test_a_spare_takes_the_place(self):
        process, pids, run = self.started("spare", "swarm.spares=1", "swarm.pins=[0, 0, 1]")
        os.kill(pids[1], signal.SIGKILL)
        out = self.assert_undisturbed(process, run)
        self.assertRegex(out, r"peer 3 +stage [01] +migrate")
        self.assertNotIn("incarnation", out)

    def test_everybody_and_the_run_goes_on(self):
        process, pids, _ = self.started("all")
        for pid in pids.values():
            os.kill(pid, signal.SIGKILL)
        self.swarm_ended(process, 20)
        self.assert_resumes("all", ranks=3)


@unittest.skipUnless(hears_of_deaths(), "this MPI reports no deaths")
class Silent(DeathTest):
    """A rank that is stopped: after a while the others go on without it."""

    def test_for_less_than_the_deadline_costs_nobody(self):
        for rank in (0, 2):
            with self.subTest(rank=rank):
                process, pids, run = self.started(f"short{rank}")
                os.kill(pids[rank], signal.SIGSTOP)
                time.sleep(1)
                os.kill(pids[rank], signal.SIGCONT)
                self.assertNotIn("kill ", self.assert_undisturbed(process, run))

    def test_for_longer_is_a_death(self):
        for rank in (0, 2):
            with self.subTest(rank=rank):
                process, pids, run = self.started(f"long{rank}", "swarm.suspect_after_s=1")
                os.kill(pids[rank], signal.SIGSTOP)
                out = self.assert_undisturbed(process, run)
                self.assertRegex(out, rf"peer {rank} +kill")
                self.assertFalse(lives(pids[rank]))


if __name__ == "__main__":
    unittest.main()
