"""Jobs and disks that hang while the process goes on to answer: nobody dies needlessly, and if
anybody can do the work, only time is lost.

The program under test is $SWARMPI, its launcher $SWARMPI_MPIRUN, the library that makes calls hang
$HANGING_CALLS. Times are short: with suspect_after_s = 1 a job is late after 10 s without CPU.
"""

import os
import re
import signal
import time
import unittest

from harness import frozen_disks
from harness.hanging_calls import ANY_FILE, DATA, JOURNAL, PART, HangingCalls
from harness.processes import children, wait_for
from harness.swarm import reports_deaths
from harness.test_case import DisturbedSwarmTest


class HangTest(DisturbedSwarmTest):
    settings = ("train.steps=600", "output.checkpoint_every=20", "output.validate_every=0")
    storage_timeout_s = 4
    short = (
        "compute.fidelity=emulated",
        "swarm.heartbeat_s=0.1",
        "swarm.suspect_after_s=1",
        "compute.job_timeout_s=20",
        f"output.storage_timeout_s={storage_timeout_s}",
    )

    def setUp(self):
        super().setUp()
        self.slow_down(overhead_s=2e-3)

    def hang(self):
        self.calls.begin()
        return time.monotonic()

    def go_on(self):
        self.calls.end()

    def started_with(self, name, call, file, ranks=None, *settings, **options):
        """A swarm in which this call will hang on these ranks."""
        self.calls = HangingCalls(self.path(name + "-hangs"), call, file, ranks)
        self.addCleanup(self.calls.end)
        return self.started(
            name, *self.short, *settings, through=self.calls.command(), **options
        )

    def assert_nobody_died(self, out):
        self.assertNotRegex(out, r"peer \d+ +(?:stage \d+ +)?kill")
        self.assertNotIn("incarnation", out)


@unittest.skipUnless(reports_deaths(), "this MPI reports no deaths")
class Jobs(HangTest):
    """A pass reads its data from a server that does not answer."""

    def test_one_that_hangs_alone_is_given_up(self):
        for rank in (3, 0):
            with self.subTest(rank=rank):
                name = f"alone{rank}"
                swarm, _, run = self.started_with(name, "stat", DATA, [rank])
                self.hang()
                out = self.assert_undisturbed(swarm, run)
                # A leader's own rows may be lost with it: then its successor says why.
                if rank != 0:
                    self.assertRegex(
                        out, rf"a job of peer {rank} hangs: (?:forward|backward) pass"
                    )
                self.assertRegex(
                    out, rf"peer {rank} +kill .*gave itself up: (?:forward|backward) pass"
                )
                self.assertEqual(len(re.findall(r"peer \d+ +kill", out)), 1, out)
                self.go_on()

    def test_where_nobody_else_can_the_run_ends_and_says_why(self):
        swarm, _, _ = self.started_with("only", "stat", DATA, [1], "swarm.pins=[0, 1, 0, 0]")
        self.hang()
        status, out, err = swarm.result(60)
        self.assertEqual(status, 3, out + err)
        self.assertRegex(err, r"peer 1 hangs in (?:forward|backward) pass .* no other peer can do")
        self.go_on()
        self.assert_resumes("only", ranks=2)

    def test_where_all_hang_on_one_server_nobody_goes(self):
        swarm, _, run = self.started_with("all", "stat", DATA)
        self.hang()
        time.sleep(16)
        self.go_on()
        out = self.assert_undisturbed(swarm, run)
        self.assertRegex(out, r"a job of peer \d hangs: ")
        self.assert_nobody_died(out)


@unittest.skipUnless(reports_deaths(), "this MPI reports no deaths")
class Stopped(HangTest):
    """A host whose processes are stopped for longer than a job may take."""

    def test_after_it_nobody_takes_the_others_for_late(self):
        swarm, pids, run = self.started("stopped", *self.short)
        for pid in pids.values():
            os.kill(pid, signal.SIGSTOP)
        time.sleep(16)
        for pid in pids.values():
            os.kill(pid, signal.SIGCONT)
        out = self.assert_undisturbed(swarm, run)
        self.assertNotRegex(out, r"of peer \d hangs")
        self.assert_nobody_died(out)


@unittest.skipUnless(reports_deaths(), "this MPI reports no deaths")
class Loading(HangTest):
    """A disk that hangs as a stage is loaded, for all go back: all who have served stage 1 die.

    Rank 0 serves stage 0 after that, and the others who are left stage 1.
    """

    def lose_stage_1(self, name, served_by, hangs):
        pins = [1 if rank in served_by else 0 for rank in range(4)]
        swarm, pids, run = self.started_with(name, "read", PART, [hangs], f"swarm.pins={pins}")
        self.hang()
        for rank in served_by:
            os.kill(pids[rank], signal.SIGKILL)
        return swarm, run

    def assert_lost(self, out, count):
        self.assertEqual(len(re.findall(r"peer \d+ +kill", out)), count, out)

    def test_one_that_hangs_beside_another_replica_costs_that_peer(self):
        swarm, run = self.lose_stage_1("beside", served_by=[1], hangs=3)
        out = self.assert_undisturbed(swarm, run)
        self.assertRegex(out, r"peer 3 +kill .*gave itself up: loading its stages \(")
        self.assert_lost(out, 2)

    def test_one_that_goes_on_has_cost_only_time(self):
        swarm, run = self.lose_stage_1("again", served_by=[1, 3], hangs=2)
        self.wait_for_words(swarm, "storage of peer 2 hangs: loading its stages (", 60)
        self.go_on()
        out = self.assert_undisturbed(swarm, run)
        self.assert_lost(out, 2)

    def test_where_nobody_else_has_loaded_the_run_ends_and_says_why(self):
        swarm, _ = self.lose_stage_1("only", served_by=[1, 3], hangs=2)
        status, out, err = swarm.result(60)
        self.assertEqual(status, 3, out + err)
        self.assertRegex(err, r"peer 2 hangs in loading its stages .* no other peer can do it")
        self.go_on()
        self.assert_resumes("only", ranks=2)


class Disks(HangTest):
    """A disk that hangs costs no peer."""

    def test_another_replica_writes_the_part(self):
        swarm, _, run = self.started_with("part", "fsync", PART, [0])
        self.hang()
        out = self.assert_undisturbed(swarm, run)
        self.assertEqual(len(re.findall(r"storage of peer 0 hangs: syncing", out)), 1, out)
        self.assertRegex(out, r"storage of peer 0 hangs: syncing \S*/\.stage-0")
        self.assert_nobody_died(out)
        self.assertRegex(out, r"step 600 .* checkpoint")

    def test_where_nobody_else_can_write_it_that_checkpoint_is_dropped(self):
        swarm, _, _ = self.started_with(
            "dropped", "pwrite", PART, [1], "swarm.pins=[0, 1, 0, 0]"
        )
        self.hang()
        status, out, err = swarm.result(60)
        # The last one as well, and with it what was trained since.
        self.assertEqual(status, 3, out + err)
        self.assertRegex(err, r"there is no checkpoint of step \d+: stage 1 cannot be written")
        self.assertRegex(out, r"dropped +no checkpoint: stage 1 cannot be written: .*peer 1")
        self.assert_nobody_died(out)
        self.go_on()
        self.assert_resumes("dropped", ranks=2)

    @unittest.skipUnless(reports_deaths(), "this MPI reports no deaths")
    def test_a_leader_whose_journal_hangs_hands_over(self):
        swarm, _, run = self.started_with("journal", "fsync", JOURNAL, [0])
        self.hang()
        named = "swarmpi: warning: storage of peer 0 hangs: syncing "
        self.wait_for_words(swarm, named, self.storage_timeout_s)
        out = self.assert_undisturbed(swarm, run)
        self.assertRegex(out, r"peer 1 +leader +term 2; storage hangs at peers 0")
        self.assert_nobody_died(out)

    @unittest.skipUnless(reports_deaths(), "this MPI reports no deaths")
    def test_a_leader_that_handed_over_may_lead_again_once_its_journal_works(self):
        swarm, _, run = self.started_with("again", "fsync", JOURNAL, [0])
        self.hang()
        wait_for(lambda: os.path.exists(f"{run}.journal/term-2"), "another leader")
        self.go_on()
        out = self.assert_undisturbed(swarm, run)
        self.assertRegex(out, r"peer 1 +leader +term 2; storage hangs at peers 0")
        self.assertRegex(out, r"storage of peer 0 works again: it may lead")
        self.assert_nobody_died(out)

    @unittest.skipUnless(reports_deaths(), "this MPI reports no deaths")
    def test_a_server_that_comes_back_has_cost_only_time(self):
        timeout_s = 2 * self.storage_timeout_s
        swarm, _, run = self.started_with(
            "back", "fsync", ANY_FILE, None, f"output.storage_timeout_s={timeout_s}"
        )
        self.hang()
        time.sleep(1.25 * timeout_s)  # after twice the timeout the run ends
        self.go_on()
        out = self.assert_undisturbed(swarm, run)
        self.assertRegex(out, r"storage of peer 0 hangs: syncing")
        self.assert_nobody_died(out)

    def test_a_server_that_does_not_come_back_ends_the_run(self):
        swarm, _, _ = self.started_with("server", "fsync", ANY_FILE)
        begun = self.hang()
        named = "swarmpi: warning: storage of peer 0 hangs: syncing "
        self.wait_for_words(swarm, named, self.storage_timeout_s)
        status, out, err = swarm.result(60)
        self.assertLess(time.monotonic() - begun, 40, out + err)
        self.assertEqual(status, 3, out + err)
        self.assertRegex(err, r"storage of peer 0 hangs: syncing \S+ does not return")
        self.go_on()
        self.assert_resumes("server", ranks=2)


class Stopping(HangTest):
    """USR1 while something hangs: a checkpoint, or the reason why there is none."""

    most_s = 45  # three waits of 10 s, and 10 s for the thread that hangs

    def stop(self, swarm):
        os.kill(children(swarm)[0], signal.SIGUSR1)
        begun = time.monotonic()
        status, out, err = swarm.result(60)
        self.assertEqual(status, 3, out + err)
        return time.monotonic() - begun, out, err

    def test_a_worker_whose_part_hangs_is_left_out(self):
        swarm, _, _ = self.started_with("part", "fsync", PART, [0])
        self.hang()
        took_s, out, err = self.stop(swarm)
        self.assertLess(took_s, self.most_s, out + err)
        self.assertNotIn("there is no checkpoint", err)
        self.go_on()
        self.assert_resumes("part", ranks=2)

    def test_a_stage_that_nobody_can_write_is_named(self):
        swarm, _, _ = self.started_with(
            "named", "fsync", PART, [1], "swarm.pins=[0, 1, 0, 0]"
        )
        self.hang()
        time.sleep(1)  # for steps behind the last checkpoint
        took_s, out, err = self.stop(swarm)
        self.assertLess(took_s, self.most_s, out + err)
        self.assertRegex(err, r"there is no checkpoint of step \d+: stage 1")
        self.go_on()
        self.assert_resumes("named", ranks=2)

    def test_a_job_that_hangs_is_not_waited_for(self):
        swarm, _, _ = self.started_with("job", "stat", DATA, [3])
        self.hang()
        time.sleep(1)
        took_s, out, err = self.stop(swarm)
        self.assertLess(took_s, self.most_s, out + err)
        self.assertNotIn("there is no checkpoint", err)
        self.go_on()
        self.assert_resumes("job", ranks=2)

    @unittest.skipUnless(reports_deaths(), "this MPI reports no deaths")
    def test_a_leader_whose_journal_hangs_hands_over_first(self):
        swarm, _, _ = self.started_with("journal", "fsync", JOURNAL, [0])
        self.hang()
        time.sleep(1)
        took_s, out, err = self.stop(swarm)
        self.assertLess(took_s, self.most_s, out + err)
        self.assertNotIn("there is no checkpoint", err)
        self.assertRegex(out, r"peer 1 +leader +term 2")
        self.go_on()
        self.assert_resumes("journal", ranks=2)


def sleeps_in_the_kernel(pid):
    """Whether a thread of the process is in an uninterruptible call, and stays there."""

    def asleep():
        states = {}
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/stat", encoding="ascii") as file:
                states[thread] = file.read().rpartition(")")[2].split()[0]
        return {thread for thread, state in states.items() if state == "D"}

    before = asleep()
    time.sleep(0.2)
    return bool(before & asleep())


@unittest.skipIf(frozen_disks.missing(), frozen_disks.missing())
class Frozen(HangTest):
    """Calls that cannot be ended by a signal either: a file system that is frozen."""

    def test_checkpoints_on_a_frozen_disk_are_given_up(self):
        folder = self.path("frozen", "RUN.checkpoints")
        disk = frozen_disks.make(folder, self.path("disk"))
        self.addCleanup(frozen_disks.remove, disk)
        swarm, _, run = self.started("frozen", *self.short)
        frozen_disks.freeze(disk)
        try:
            wait_for(lambda: swarm.poll() is not None or self.has_ended(run), "the end", 60)
        finally:
            frozen_disks.thaw(disk)
        status, out, err = swarm.result(60)
        self.assertEqual(status, 3, out + err)
        self.assertRegex(out, r"dropped +no checkpoint: stage \d cannot be written")
        self.assertRegex(err, r"there is no checkpoint of step \d+: stage \d cannot be written")
        self.assert_nobody_died(out)
        self.assert_resumes("frozen", ranks=2)

    def test_a_rank_that_is_killed_in_such_a_call_is_dead_to_the_others(self):
        """Its process stays, and its sockets stay open: MPI tells nobody."""
        folder = self.path("undead", "RUN.checkpoints")
        disk = frozen_disks.make(folder, self.path("disk"))
        self.addCleanup(frozen_disks.remove, disk)
        swarm, pids, run = self.started("undead", *self.short)
        frozen_disks.freeze(disk)
        try:
            rank = self.wait_for_hanging(pids)
            os.kill(pids[rank], signal.SIGKILL)
            wait_for(lambda: swarm.poll() is not None or self.has_ended(run), "the end", 60)
            self.assertTrue(sleeps_in_the_kernel(pids[rank]), "it is dead, but not gone")
        finally:
            frozen_disks.thaw(disk)
        status, out, err = swarm.result(60)
        self.assertEqual(status, 3, out + err)
        self.assertRegex(out, rf"peer {rank} +kill .*; it was killed because peer \d had not")
        self.assertNotIn("cannot be killed", out + err)
        self.assert_resumes("undead", ranks=2)

    def wait_for_hanging(self, pids):
        """A rank with a thread in a call that cannot be interrupted; not the leader."""
        hanging = []

        def any_hangs():
            hanging.extend(rank for rank in (1, 2, 3) if sleeps_in_the_kernel(pids[rank]))
            return hanging

        wait_for(any_hangs, "a rank that hangs", 30)
        return hanging[0]

    def has_ended(self, run):
        return os.path.exists(run + ".journal/ended")


if __name__ == "__main__":
    unittest.main()
