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

from harness import journal
from harness.file_watch import FileWatch
from harness.processes import children, lives, wait_for, wait_until_gone
from harness.swarm import reports_deaths
from harness.test_case import DisturbedSwarmTest


class Told(DisturbedSwarmTest):
    """A swarm that is asked to stop, or a rank that is asked to leave, does so; no work is lost."""

    def test_a_notice_to_mpirun_stops_with_a_checkpoint(self):
        for notice in (signal.SIGUSR1, signal.SIGUSR2):
            with self.subTest(notice=notice):
                swarm, _, _ = self.started(notice.name)
                os.kill(children(swarm)[0], notice)
                status, _, err = swarm.result(20)
                self.assertEqual(status, 3, err)
                self.assertEqual(err.count("--resume"), 1, err)
                self.assert_resumes(notice.name, ranks=3)

    @unittest.skipUnless(reports_deaths(), "this MPI reports no deaths")
    def test_usr1_to_one_rank_lets_it_go(self):
        self.slow_down()
        for rank in (0, 3):
            with self.subTest(rank=rank):
                swarm, pids, run = self.started(f"left{rank}", "compute.fidelity=emulated")
                os.kill(pids[rank], signal.SIGUSR1)
                wait_until_gone([pids[rank]], f"rank {rank}")
                out = self.assert_undisturbed(swarm, run)
                self.assertRegex(out, rf"peer {rank} +leave")
                self.assertNotIn("kill ", out)


@unittest.skipIf(reports_deaths(), "this MPI reports deaths")
class WithoutReports(DisturbedSwarmTest):
    """Where the others are not told of a death, it ends the run."""

    def test_a_killed_rank_ends_the_run(self):
        swarm, pids, _ = self.started("killed")
        os.kill(pids[2], signal.SIGKILL)
        swarm.result(20)
        wait_until_gone(pids.values(), "all ranks", timeout_s=5)
        self.assert_resumes("killed", ranks=2)

    def test_usr1_to_one_rank_stops_all_with_a_checkpoint(self):
        swarm, pids, _ = self.started("told")
        os.kill(pids[1], signal.SIGUSR1)
        status, _, err = swarm.result(20)
        self.assertEqual(status, 3, err)
        self.assert_resumes("told")


@unittest.skipUnless(reports_deaths(), "this MPI reports no deaths")
class Killed(DisturbedSwarmTest):
    """Any rank, at any instant."""

    def test_one_rank(self):
        for rank in (0, 1, 3):
            with self.subTest(rank=rank):
                swarm, pids, run = self.started(f"killed{rank}")
                os.kill(pids[rank], signal.SIGKILL)
                out = self.assert_undisturbed(swarm, run)
                self.assertRegex(out, rf"peer {rank} +kill")
                self.assertRegex(out, r"\nlost +1 peer; \d+ repairs?, median")

    def test_two_at_once_one_of_them_the_leader(self):
        swarm, pids, run = self.started("leader")
        for rank in (0, 3):
            os.kill(pids[rank], signal.SIGKILL)
        out = self.assert_undisturbed(swarm, run)
        self.assertRegex(out, r"peer 1 +leader +term 2")

    def test_a_stage_goes_back_to_the_checkpoint(self):
        swarm, pids, run = self.started("stage", "swarm.pins=[0, 1, 0, 1]")
        for rank in (1, 3):
            os.kill(pids[rank], signal.SIGKILL)
        out = self.assert_undisturbed(swarm, run)
        self.assertRegex(out, r"incarnation +a stage was lost")

    def test_all_but_one(self):
        swarm, pids, run = self.started("one")
        for rank in (2, 0, 1):
            os.kill(pids[rank], signal.SIGKILL)
            time.sleep(0.02)
        self.assert_undisturbed(swarm, run)

    def test_a_spare_takes_the_place(self):
        swarm, pids, run = self.started("spare", "swarm.spares=1", "swarm.pins=[0, 0, 1]")
        os.kill(pids[1], signal.SIGKILL)
        out = self.assert_undisturbed(swarm, run)
        self.assertRegex(out, r"peer 3 +stage [01] +migrate")
        self.assertNotIn("incarnation", out)

    def test_everybody_and_the_run_goes_on(self):
        swarm, pids, _ = self.started("all")
        for pid in pids.values():
            os.kill(pid, signal.SIGKILL)
        swarm.result(20)
        self.assert_resumes("all", ranks=3)


@unittest.skipUnless(reports_deaths(), "this MPI reports no deaths")
class BeforeTheFirstCheckpoint(DisturbedSwarmTest):
    """Nothing is there to continue from: the run begins again at step 0."""

    settings = ("train.steps=600", "output.validate_every=0")

    def test_it_begins_again_when_the_leader_then_everybody_dies(self):
        self.slow_down()
        arguments, run = self.training(
            "early", *self.settings, "swarm.stages=2", "compute.fidelity=emulated"
        )
        swarm = self.start_swarm(4, *arguments)
        pids = self.ranks_of(swarm, 4)
        for term, victims in ((1, [0]), (2, [1, 2, 3])):
            path = f"{run}.journal/term-{term}"
            wait_for(
                lambda path=path: journal.STEP in [kind for kind, _ in journal.records(path)],
                f"a row of term {term}",
            )
            for rank in victims:
                os.kill(pids[rank], signal.SIGKILL)
        swarm.result(20)
        self.assert_resumes("early", ranks=3)


@unittest.skipUnless(reports_deaths(), "this MPI reports no deaths")
class Shadowed(DisturbedSwarmTest):
    """Spares that learn beforehand: a stage outlives its last replica."""

    def kill_after(self, name, step, pid):
        """Kills a rank once the run has a checkpoint of this step or of a later one."""
        folder = self.path(name, "RUN.checkpoints")

        def is_there():
            steps = [re.fullmatch(r"step-(\d+)", entry) for entry in os.listdir(folder)]
            return any(match and int(match[1]) >= step for match in steps)

        wait_for(is_there, f"a checkpoint of step {step}")
        os.kill(pid, signal.SIGKILL)

    def test_a_stage_goes_on_without_its_last_replica_and_again_without_the_next(self):
        self.slow_down()
        shadows = ("swarm.stages=1", "swarm.spares=2", "swarm.shadows=1")
        swarm, pids, run = self.started("again", *shadows, ranks=3)
        self.kill_after("again", 100, pids[0])
        self.kill_after("again", 300, pids[1])
        out = self.assert_undisturbed(swarm, run)
        for peer in (1, 2):
            self.assertRegex(out, rf"peer {peer} +stage 0 +migrate")
        self.assertNotIn("incarnation", out)

    def test_every_stage_has_its_shadow(self):
        self.slow_down()
        shadows = ("swarm.pins=[0, 1]", "swarm.spares=2", "swarm.shadows=2")
        swarm, pids, run = self.started("each", *shadows)
        self.kill_after("each", 100, pids[1])
        self.kill_after("each", 300, pids[0])
        out = self.assert_undisturbed(swarm, run)
        for stage in (0, 1):
            self.assertRegex(out, rf"peer [23] +stage {stage} +migrate")
        self.assertNotIn("incarnation", out)

    def test_without_shadows_it_goes_back(self):
        swarm, pids, run = self.started("none", "swarm.pins=[0, 1]", "swarm.spares=2")
        os.kill(pids[1], signal.SIGKILL)
        self.assertIn("incarnation", self.assert_undisturbed(swarm, run))


@unittest.skipUnless(reports_deaths(), "this MPI reports no deaths")
class Unread(DisturbedSwarmTest):
    """Nobody reads what the run says any more; then a rank is killed."""

    settings = ("train.steps=300", *DisturbedSwarmTest.settings[1:])

    def test_a_rank_whose_reader_has_gone_trains_on(self):
        for rank in (0, 2):
            with self.subTest(rank=rank):
                only_one_line = ("bash", "-c", 'exec "$@" > >(head -1)', "bash")
                swarm, pids, run = self.started(f"line{rank}", through=only_one_line)
                os.kill(pids[rank], signal.SIGKILL)
                out = self.assert_undisturbed(swarm, run)
                self.assertLessEqual(len(out.splitlines()), len(pids), out)

    def test_a_quiet_run_does_not_need_a_reader(self):
        swarm, pids, run = self.started("quiet", quiet=True)
        swarm.stdout.close()
        os.kill(pids[0], signal.SIGKILL)
        self.assert_undisturbed(swarm, run)

    def test_mpirun_ends_when_it_cannot_pass_on_what_is_said(self):
        """It ends its ranks too: with `| head -1` after it the run has to be resumed."""
        swarm, pids, _ = self.started("unread")
        swarm.stdout.close()
        os.kill(pids[2], signal.SIGKILL)
        swarm.result(20)
        wait_until_gone(pids.values(), "all ranks")
        self.assert_resumes("unread", ranks=3)


@unittest.skipUnless(reports_deaths(), "this MPI reports no deaths")
class KilledWhileWriting(DisturbedSwarmTest):
    """The rank that writes a file is killed as soon as that file is there.

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
        """Kills who writes files that match `wanted`, while others are left.

        Returns what was said, and how many were killed. Prints how many died while their file was
        not finished.
        """
        arguments, run = self.training(name, *self.settings, "swarm.stages=2", quiet=False)
        watch = FileWatch(self.path(name))
        self.addCleanup(watch.close)
        swarm = self.start_swarm(self.RANKS, *arguments)
        pids = self.ranks_of(swarm, self.RANKS)
        halfway = 0
        end = time.monotonic() + 60
        while len(pids) > 1 and swarm.poll() is None and time.monotonic() < end:
            for path in watch.made(0.2):
                victim = self.writer_of(path, pids) if re.search(wanted, path) else None
                if victim in pids and len(pids) > 1:
                    pid = pids[victim]
                    if not lives(pid):
                        continue  # the run has just ended
                    os.kill(pid, signal.SIGKILL)
                    del pids[victim]
                    wait_until_gone([pid], f"rank {victim}")
                    halfway += ".part-" in path and os.path.exists(path)
        out = self.assert_undisturbed(swarm, run)
        killed = self.RANKS - len(pids)
        self.assertGreaterEqual(killed, least, out)
        self.assert_checkpoints_in_order(name)
        print(f"{name}: {killed} killed, {halfway} left an unfinished file")
        return out, killed

    @staticmethod
    def writer_of(path, pids):
        """The rank that writes this file: its name tells, but for journals, which leaders write."""
        number = re.search(r"\.part-.*-(\d+)-\d+$", path)
        if number is None:
            return min(pids)
        return next((rank for rank, pid in pids.items() if pid == int(number[1])), None)

    def assert_checkpoints_in_order(self, name):
        """As many as shall be kept, all complete, and the newest goes on to the same run."""
        folder = self.path(name, "RUN.checkpoints")
        self.assertEqual(sorted(os.listdir(folder)), ["step-79", "step-80", "swarmpi-owner"])
        for step in ("step-79", "step-80"):
            self.assertIn("manifest", os.listdir(os.path.join(folder, step)))
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
                arguments, run = self.training(
                    name, *self.settings, "swarm.stages=2", deck=faults, quiet=False
                )
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
        out, _ = self.hunt("journal", r"/term-\d+$")
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
        for name, wanted in (
            ("marking", r"/\.(complete|ended)\.part-"),
            ("marked", r"/complete$"),
        ):
            # The run may be over before its writer can be killed: then it is tried again.
            tries = (self.hunt(f"{name}{attempt}", wanted, least=0) for attempt in range(3))
            self.assertTrue(any(killed for _, killed in tries), name)


@unittest.skipUnless(reports_deaths(), "this MPI reports no deaths")
class Silent(DisturbedSwarmTest):
    """A rank that is stopped: after a while the others go on without it."""

    def test_for_less_than_the_deadline_costs_nobody(self):
        for rank in (0, 2):
            with self.subTest(rank=rank):
                swarm, pids, run = self.started(f"short{rank}")
                os.kill(pids[rank], signal.SIGSTOP)
                time.sleep(1)
                os.kill(pids[rank], signal.SIGCONT)
                self.assertNotIn("kill ", self.assert_undisturbed(swarm, run))

    def test_for_longer_is_a_death(self):
        for rank in (0, 2):
            with self.subTest(rank=rank):
                swarm, pids, run = self.started(f"long{rank}", "swarm.suspect_after_s=1")
                os.kill(pids[rank], signal.SIGSTOP)
                out = self.assert_undisturbed(swarm, run)
                self.assertRegex(out, rf"peer {rank} +kill")
                self.assertFalse(lives(pids[rank]))


if __name__ == "__main__":
    unittest.main()
