"""Folders that one rank has for itself: refused at the start, or survived where that comes later.

And checkpoints that were damaged. The program under test is $SWARMPI, its launcher $SWARMPI_MPIRUN.
Ranks with disks of their own need root.
"""

import glob
import os
import signal
import subprocess
import time
import unittest

from harness.program import DEADLINE_S, ROOT
from harness.small_disks import missing, mount
from harness.swarm import MPIRUN, reports_deaths
from harness.test_case import DisturbedSwarmTest, SwarmpiTest, content

PRIVATE_MOUNTS = str(ROOT / "regression" / "harness" / "private_mounts.sh")


@unittest.skipUnless(MPIRUN, "there is no mpirun")
@unittest.skipIf(missing(), missing())
class PrivateFolders(SwarmpiTest):
    """Two ranks, two stages; a folder of one rank is on a disk of its own."""

    def refusal(self, rank, folder, *settings, how=""):
        """Starts with a folder that only `rank` sees so; returns what is said."""
        for place in (folder, self.path("run")):
            os.makedirs(place, exist_ok=True)
        before = content(self.folder)
        arguments, run = self.training("run", "swarm.stages=2", *settings)
        swarm = self.start_swarm(2, *arguments, through=(PRIVATE_MOUNTS, str(rank), how + folder))
        status, out, err = swarm.result()
        self.assertEqual(status, 2, out + err)
        self.assertFalse(os.path.exists(run + ".journal"), "it has not begun")
        self.assertEqual(content(self.folder), before, "nothing is left behind")
        return err

    def assert_names(self, err, key, folder):
        for words in (key, folder, "has written", "all hosts share"):
            self.assertIn(words, err)

    def test_checkpoints_of_the_second_rank(self):
        folder = self.path("checkpoints")
        err = self.refusal(1, folder, f"output.checkpoint={folder}")
        self.assert_names(err, "output.checkpoint", folder)

    def test_checkpoints_of_the_first_rank(self):
        folder = self.path("checkpoints")
        err = self.refusal(0, folder, f"output.checkpoint={folder}")
        self.assert_names(err, "output.checkpoint", folder)

    def test_the_folder_of_the_run_file(self):
        folder = self.path("run")
        err = self.refusal(1, folder, f"output.checkpoint={self.path('checkpoints')}")
        self.assert_names(err, "output.run", folder)

    def assert_sees_not(self, err, maker):
        self.assertRegex(err, f"it does not see .*, which rank {maker} on .* has written")

    def test_what_the_second_rank_writes_does_not_come_through(self):
        folder = self.path("checkpoints")
        err = self.refusal(1, folder, f"output.checkpoint={folder}", how="over:")
        self.assert_names(err, "output.checkpoint", folder)
        self.assert_sees_not(err, 1)

    def test_what_the_first_rank_writes_does_not_come_through(self):
        folder = self.path("checkpoints")
        err = self.refusal(0, folder, f"output.checkpoint={folder}", how="over:")
        self.assert_names(err, "output.checkpoint", folder)
        self.assert_sees_not(err, 0)

    def test_a_rank_with_mounts_of_its_own_that_sees_the_same_is_welcome(self):
        arguments, run = self.training("run", "swarm.stages=2")
        swarm = self.start_swarm(2, *arguments, through=(PRIVATE_MOUNTS, "1", "-"))
        _, out, err = swarm.result()
        self.assert_complete(run, out + err)
        self.assertEqual(self.hidden_files("run"), [])


@unittest.skipUnless(reports_deaths(), "this MPI reports no deaths")
@unittest.skipIf(missing(), missing())
class LostFolder(DisturbedSwarmTest):
    """The folder goes away from under one rank while the run goes on."""

    settings = ("train.steps=600", "output.checkpoint_every=20", "output.validate_every=0")

    def test_its_checkpoints_are_dropped_and_the_run_ends_well(self):
        self.slow_down()
        arguments, run = self.training(
            "lost",
            *self.settings,
            "swarm.stages=2",
            "output.keep=99",
            "compute.fidelity=emulated",
            quiet=False,
        )
        swarm = self.start_swarm(2, *arguments, through=(PRIVATE_MOUNTS, "1", "-"))
        pids = self.ranks_of(swarm, 2)
        self.wait_for_checkpoint("lost", 40, swarm)
        self.assertIsNone(swarm.poll(), swarm.poll() is not None and swarm.communicate())
        checkpoints = self.path("lost", "RUN.checkpoints")
        within = ("nsenter", "-t", str(pids[1]), "-m")
        hide = (*within, "mount", "-t", "tmpfs", "private", checkpoints)
        subprocess.run(hide, check=True, timeout=DEADLINE_S)
        time.sleep(2)
        # Lazy, for the rank may just have a part open there; the part is lost all the same.
        show = (*within, "umount", "--lazy", checkpoints)
        subprocess.run(show, check=True, timeout=DEADLINE_S)
        out = self.assert_undisturbed(swarm, run)
        self.assertRegex(out, r"peer 1 +stage 1 +dropped +checkpoint not completed: the part")
        self.assertRegex(out, r"the last good one is of step \d+")
        for manifest in glob.glob(os.path.join(checkpoints, "step-*", "manifest")):
            step = os.path.dirname(manifest)
            with self.subTest(step=os.path.basename(step)):
                status, _, err = self.run_program("sample", step, "--prompt", "a", "-n", "1")
                self.assertEqual(status, 0, err)


def flip(path):
    """A bit in the middle of the file: its size and its end stay as they are."""
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))


@unittest.skipUnless(reports_deaths(), "this MPI reports no deaths")
class DamagedWhileItRuns(DisturbedSwarmTest):
    """A stage is lost, and the newest checkpoint has a part that only who loads it reads."""

    def test_all_go_back_once_more_to_an_older_one(self):
        self.slow_down()
        rare = ("output.checkpoint_every=200", "swarm.pins=[0, 1, 0]", "compute.fidelity=emulated")
        swarm, pids, run = self.started("flipped", *rare, ranks=3, checkpoint=400)
        flip(glob.glob(self.path("flipped", "RUN.checkpoints", "step-400", "stage-1*"))[0])
        os.kill(pids[1], signal.SIGKILL)
        out = self.assert_undisturbed(swarm, run)
        self.assertRegex(out, r"incarnation +a stage was lost.*from the checkpoint of step 400")
        self.assertRegex(out, r"dropped +checkpoint set aside")
        self.assertRegex(out, r"incarnation +peer \d cannot load stage 1 .*checkpoint of step 200")


class DamagedCheckpoints(SwarmpiTest):
    """The newest one is damaged; an older one, which is whole, lies beside it."""

    def damaged(self, *settings):
        """A run up to step 8, with checkpoints of steps 4, 6 and 8; returns their folder."""
        self.train("half", "train.schedule=constant", "train.steps=8",
                   "output.checkpoint_every=2", "output.keep=3", *settings)
        checkpoints = self.path("half", "RUN.checkpoints")
        flip(glob.glob(os.path.join(checkpoints, "step-8", "stage-0*"))[0])
        return checkpoints

    def resumed(self, resume, expect=0):
        arguments, run = self.training("half", "train.schedule=constant", resume=resume)
        status, out, err = self.run_program(*arguments)
        self.assertEqual(status, expect, out + err)
        return run, err

    def test_the_older_one_is_taken_with_a_warning(self):
        whole = self.train("whole", "train.schedule=constant")
        checkpoints = self.damaged()
        run, err = self.resumed(checkpoints)
        for words in ("DAMAGED", "step-8", "goes on from " + checkpoints + "/step-6"):
            self.assertIn(words, err)
        self.assert_same_run(whole, run)
        status, _, err = self.run_program("sample", checkpoints, "--prompt", "a", "-n", "1")
        self.assertEqual(status, 0, err)
        self.assertNotIn("DAMAGED", err)

    @unittest.skipIf(MPIRUN is None, "there is no mpirun")
    def test_what_one_rank_finds_all_pass_over(self):
        """Each of the ranks reads one stage's file, and then what it serves."""
        whole = self.train("whole", "train.schedule=constant")
        checkpoints = self.damaged("swarm.stages=3")
        flip(glob.glob(os.path.join(checkpoints, "step-6", "stage-2*"))[0])
        settings = ("train.schedule=constant", "swarm.stages=3")
        arguments, run = self.training("half", *settings, resume=checkpoints)
        status, out, err = self.start_swarm(3, *arguments).result()
        self.assertEqual(status, 0, out + err)
        for words in ("step-8 is DAMAGED", "step-6 is DAMAGED", f"from {checkpoints}/step-4"):
            self.assertEqual(err.count(words), 1 if "step-4" not in words else 2, err)
        self.assert_same_run(whole, run)

    def test_a_sample_of_the_older_one_says_so(self):
        checkpoints = self.damaged()
        status, _, err = self.run_program("sample", checkpoints, "--prompt", "a", "-n", "1")
        self.assertEqual(status, 0, err)
        for words in ("DAMAGED", "step-8", "the sample is of " + checkpoints + "/step-6"):
            self.assertIn(words, err)

    def test_one_that_was_named_is_refused(self):
        step = os.path.join(self.damaged(), "step-8")
        _, err = self.resumed(step, expect=2)
        self.assertIn("is damaged or was replaced", err)

    def test_where_all_are_damaged_the_newest_is_named(self):
        checkpoints = self.damaged()
        for part in glob.glob(os.path.join(checkpoints, "step-*", "stage-0*")):
            os.truncate(part, 100)
        _, err = self.resumed(checkpoints, expect=2)
        self.assertIn("step-8", err)

    def test_one_of_another_deck_is_refused_and_no_older_one_taken(self):
        self.damaged("train.lr=0.5")
        checkpoints = self.path("half", "RUN.checkpoints")
        _, err = self.resumed(checkpoints, expect=2)
        self.assertIn("train.lr", err)


if __name__ == "__main__":
    unittest.main()
