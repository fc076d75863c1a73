"""Ranks that are killed, stopped or told to go while they train: only time is lost.

The program under test is $SWARMPI, its launcher $SWARMPI_MPIRUN. Where the MPI reports no deaths a
run ends when a rank dies, and goes on bit for bit.
"""

import os
import re
import signal
import threading
import time
import unittest

from file_watch import FileWatch
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

    def slow_down(self, overhead_s=5e-4):
        """Emulated devices: the same bits, some seconds on any machine."""
        with open(self.deck, "a", encoding="ascii") as file:
            file.write(
                f"[devices.slow]\ngflops = 1000\noverhead_s = {overhead_s}\n"
                '[[peers]]\npeers = [0, 1, 2, 3]\ndevice = "slow"\n'
            )

    def started(self, name, *settings, ranks=4, checkpoint=20, quiet=False, through=()):
        """The swarm, its ranks' process numbers, and the run file."""
        arguments, run = self.training(name, *self.settings, "swarm.stages=2", *settings)
        if not quiet:
            arguments.remove("--quiet")
        process = self.start_swarm(ranks, *arguments, through=through)
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
class Unread(DeathTest):
    """Nobody reads what the run says any more; then a rank is killed."""

    settings = ("train.steps=300", *SETTINGS[1:])

    def test_a_rank_whose_reader_has_gone_trains_on(self):
        for rank in (0, 2):
            with self.subTest(rank=rank):
                only_one_line = ("bash", "-c", 'exec "$@" > >(head -1)', "bash")
                process, pids, run = self.started(f"line{rank}", through=only_one_line)
                os.kill(pids[rank], signal.SIGKILL)
                out = self.assert_undisturbed(process, run)
                self.assertLessEqual(len(out.splitlines()), len(pids), out)

    def test_a_quiet_run_does_not_need_a_reader(self):
        process, pids, run = self.started("quiet", quiet=True)
        process.stdout.close()
        os.kill(pids[0], signal.SIGKILL)
        self.assert_undisturbed(process, run)

    def test_mpirun_ends_when_it_cannot_pass_on_what_is_said(self):
        """It ends its ranks too: with `| head -1` after it the run has to be resumed."""
        process, pids, _ = self.started("unread")
        process.stdout.close()
        os.kill(pids[2], signal.SIGKILL)
        self.swarm_ended(process, 20)
        wait_for(lambda: not any(map(lives, pids.values())))
        self.assert_resumes("unread", ranks=3)


@unittest.skipUnless(hears_of_deaths(), "this MPI reports no deaths")
class KilledWhileWriting(DeathTest):
    """Whoever writes is killed as soon as the file that it writes is there.

    A file is written under a hidden name that ends with its writer's process number.
    """

    settings = (
        "train.steps=80",
        "output.checkpoint_every=1",
        "output.publish_every_s=0.01",
        "output.validate_every=0",
    )
    RANKS = 6

    def hunt(self, name, wanted, least=RANKS - 1):
        """Kills who writes files that match `wanted`, while others are left; returns what was said.

        Prints how many died while their file was not finished.
        """
        arguments, run = self.training(name, *self.settings, "swarm.stages=2")
        arguments.remove("--quiet")
        watch = FileWatch(self.path(name))
        self.addCleanup(watch.close)
        process = self.start_swarm(self.RANKS, *arguments)
        wait_for(lambda: process.poll() is not None or len(ranks_of(process)) == self.RANKS)
        pids = ranks_of(process)
        halfway = 0
        end = time.monotonic() + 60
        while len(pids) > 1 and process.poll() is None and time.monotonic() < end:
            for path in watch.made(0.2):
                victim = self.writer_of(path, pids) if re.search(wanted, path) else None
                if victim in pids and len(pids) > 1:
                    pid = pids[victim]
                    if not lives(pid):
                        continue  # the run has just ended
                    os.kill(pid, signal.SIGKILL)
                    del pids[victim]
                    wait_for(lambda pid=pid: not lives(pid))
                    halfway += ".part-" in path and os.path.exists(path)
        out = self.assert_undisturbed(process, run)
        killed = self.RANKS - len(pids)
        self.assertGreaterEqual(killed, least, out)
        self.assert_checkpoints_in_order(name)
        print(f"{name}: {killed} killed, {halfway} left an unfinished file")
        return out

    @staticmethod
    def writer_of(path, pids):
        """The rank that writes this file: its name tells, but for journals, which leaders write."""
        number = re.search(r"\.part-.*-(\d+)-\d+$", path)
        if number is None:
            return min(pids)
        return next((rank for rank, pid in pids.items() if pid == int(number[1])), None)

    def assert_checkpoints_in_order(self, name):
        """As many as shall be kept, all complete, and the newest goes on to the same run."""
        folder = self.path(name, "checkpoints")
        for step in os.listdir(folder):
            self.assertIn("manifest", os.listdir(os.path.join(folder, step)))
        self.assertEqual(sorted(os.listdir(folder)), ["step-79", "step-80"])
        again = self.train(name, *self.settings, resume=folder)
        self.assert_same_run(self.reference, again)

    def test_the_deck_has_them_killed_before_they_write(self):
        with open(self.deck, encoding="ascii") as file:
            deck = file.read()
        for victims in ((1,), (0,), (0, 1)):
            name = "".join(["deck", *map(str, victims)])
            with self.subTest(victims=victims):
                faults = self.path(name + ".toml")
                with open(faults, "w", encoding="ascii") as file:
                    file.write(deck + '[faults]\nmode = "kill"\n')
                    for peer in victims:
                        file.write(
                            f'[[faults.at]]\nstep = 20\npeer = {peer}\nevent = "kill"\n'
                            'point = "checkpoint"\n'
                        )
                arguments, run = self.training(name, *self.settings, "swarm.stages=2", deck=faults)
                arguments.remove("--quiet")
                out = self.assert_undisturbed(self.start_swarm(4, *arguments), run)
                for peer in victims:
                    self.assertRegex(out, rf"peer {peer} +kill")
                self.assert_checkpoints_in_order(name)

    def test_a_stage(self):
        self.hunt("stage", r"/\.stage-\d+.*\.part-")

    def test_what_makes_a_checkpoint_complete(self):
        self.hunt("leader", r"/\.leader.*\.part-")
        self.hunt("manifest", r"/\.manifest\.part-")

    def test_the_journal(self):
        out = self.hunt("journal", r"/term-\d+$")
        self.assertRegex(out, rf"peer {self.RANKS - 1} +leader +term {self.RANKS}")

    def test_the_run_file_which_can_be_read_at_any_time(self):
        run = self.path("run", "RUN.h5")
        over, answers = threading.Event(), []

        def read():
            while not over.wait(0.01):
                if os.path.exists(run):
                    answers.append(self.run_program("info", run))

        reader = threading.Thread(target=read)
        reader.start()
        try:
            self.hunt("run", r"/\.RUN\.h5\.part-")
        finally:
            over.set()
            reader.join()
        self.assertGreater(len(answers), 5)
        self.assertEqual([answer for answer in answers if answer[0] != 0], [])

    def test_the_marks_of_the_end(self):
        self.hunt("marking", r"/\.(complete|ended)\.part-", least=1)
        self.hunt("marked", r"/complete$", least=1)


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
