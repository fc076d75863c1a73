"""Processes that are started in the place of those that are gone (swarm.spawn).

The program under test is $SWARMPI, its launcher $SWARMPI_MPIRUN. spawn_check has the scenarios of
the transport alone.
"""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

try:
    import h5py
except ImportError:
    h5py = None

from harness import emulated_hosts, small_disks
from harness.processes import children, lives, runs, wait_for, wait_until_gone
from harness.program import BINARY, DEADLINE_S, ROOT, built
from harness.small_disks import missing
from harness.swarm import Swarm, reports_deaths
from harness.test_case import DisturbedSwarmTest

PRIVATE_MOUNTS = str(ROOT / "regression" / "harness" / "private_mounts.sh")
STEPS = 1200
# No start of a process may hold others up for longer: they suspect it after 3 s.
LONGEST_ROUND_S, SUSPECTED_AFTER_S = 1, 3
CHECK = built("spawn_check", "SPAWN_CHECK")


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
        """And every newcomer has ended with the run, and MPI in every rank."""
        tree = children(swarm)
        _, out, err = swarm.result(60)
        self.assert_complete(run, out + err)
        self.assert_same_run(self.reference, run)
        self.assertNotIn("MPI hangs", err)
        wait_until_gone(tree, "all processes of the run")
        return out

    def assert_held_nobody_up(self, out, run, lost):
        """Nobody was lost but those that were killed, and no step took long but for the disk."""
        self.assertRegex(out, rf"\nlost +{lost} peer")
        if not h5py:
            return
        with h5py.File(run) as file:
            steps, times = file["steps/step"][:], file["steps/time_s"][:]
            told = zip(file["goodput/step"][:], file["goodput/checkpoint_s"][:])
        disk_s = dict.fromkeys(steps, 0.0)
        for step, checkpoint_s in told:
            disk_s[step] = max(disk_s.get(step, 0.0), checkpoint_s)
        for step, begin, end in zip(steps[1:], times, times[1:]):
            took = f"step {step} took {end - begin:.2f} s, {disk_s[step]:.2f} s for a checkpoint"
            self.assertLess(end - begin - disk_s[step], LONGEST_ROUND_S, f"{took}\n{out}")
            # A start that holds up who writes counts as waiting for the checkpoint, too.
            self.assertLess(end - begin, SUSPECTED_AFTER_S, f"{took}\n{out}")

    def assert_served(self, out, peers):
        for peer in peers:
            for event in ("spawn", "join", "stage [01] +migrate"):
                self.assertRegex(out, rf"peer {peer} +{event}")
            self.assertRegex(out, rf"\n +{peer} +[01]")  # it is among those who have worked

    def test_a_newcomer_takes_the_place_of_a_worker(self):
        swarm, pids, run = self.started_with_spawn("worker")
        shown = self.hidden_files("worker")
        self.assertEqual(len(shown), 2, f"one in each folder, for newcomers to look for: {shown}")
        os.kill(pids[2], signal.SIGKILL)
        out = self.assert_undisturbed(swarm, run)
        self.assert_served(out, [4])
        self.assertEqual(len(re.findall(" spawn ", out)), 1, out)
        self.assertEqual(self.hidden_files("worker"), [])

    def test_the_leader_is_replaced_too(self):
        swarm, pids, run = self.started_with_spawn("leader")
        os.kill(pids[0], signal.SIGKILL)
        self.assert_served(self.assert_undisturbed(swarm, run), [5])

    def test_all_but_one(self):
        swarm, pids, run = self.started_with_spawn("one")
        for rank in (0, 1, 2):
            os.kill(pids[rank], signal.SIGKILL)
        self.assert_served(self.assert_undisturbed(swarm, run), [7, 11, 15])

    @unittest.skipIf(missing(), missing())
    def test_starts_nobody_when_mpiruns_session_folder_is_full(self):
        disk = self.path("sessions")
        small_disks.make(disk, 16 << 20)
        self.addCleanup(small_disks.remove, disk)
        self.slow_down()
        spawn = ("swarm.stages=2", "swarm.spawn=true", "compute.fidelity=emulated")
        arguments, run = self.training("full", *self.settings, *spawn, quiet=False)
        swarm = self.start_swarm(
            4, *arguments, within=lambda line: ["env", f"TMPDIR={disk}", *line]
        )
        pids = self.ranks_of(swarm, 4)
        self.wait_for_checkpoint("full", 20, swarm)
        small_disks.fill(disk)
        os.kill(pids[2], signal.SIGKILL)

        def says_so():
            with open(run + ".journal/term-1", "rb") as file:
                return b"no process is started" in file.read()

        wait_for(lambda: swarm.poll() is not None or says_so(), "a start that is not made")
        self.wait_for_checkpoint("full", self.checkpoints("full")[-1] + 40, swarm)
        os.kill(children(swarm)[0], signal.SIGUSR1)
        status, out, err = swarm.result(30)
        self.assertEqual(status, 3, err)
        self.assertRegex(out + err, rf"mpirun's session folder {disk}\S* has 0.0 MB free")
        self.assert_resumes("full")

    def test_a_newcomer_dies(self):
        swarm, pids, run = self.started_with_spawn("newcomer")
        os.kill(pids[1], signal.SIGKILL)
        os.kill(self.served_newcomer(swarm, pids, run), signal.SIGKILL)
        out = self.assert_undisturbed(swarm, run)
        self.assert_served(out, [8])

    def signal_while_one_starts(self, name, number):
        """Sends the first newcomer, peer 4, this signal before it joins; returns what came of it.

        On a busy machine it may have joined before the signal comes: then it is tried again.
        """
        for attempt in range(3):
            swarm, pids, run = self.started_with_spawn(f"{name}{attempt}")
            os.kill(pids[1], signal.SIGKILL)
            os.kill(self.wait_for_newcomers(swarm, pids)[0], number)
            out = self.assert_undisturbed(swarm, run)
            if not re.search(r"peer 4 +join", out):
                return out, run
        self.fail("each time the newcomer had joined before the signal came")

    def test_a_newcomer_dies_while_it_starts(self):
        out, run = self.signal_while_one_starts("early", signal.SIGKILL)
        self.assert_held_nobody_up(out, run, lost=1)

    def test_a_newcomer_hangs_while_it_starts(self):
        """It is killed at the run's end, for which mpirun would wait."""
        out, run = self.signal_while_one_starts("hangs", signal.SIGSTOP)
        self.assert_held_nobody_up(out, run, lost=1)

    @unittest.skipIf(missing(), missing())
    def test_a_newcomer_whose_files_the_rank_that_starts_it_does_not_see_is_not_taken(self):
        """Two replicas: the one that is left needs no checkpoint, and sees none."""
        arguments, run = self.training(
            "unseen",
            *self.settings,
            "swarm.stages=1",
            "swarm.spawn=true",
            "compute.fidelity=emulated",
            quiet=False,
        )
        self.slow_down(overhead_s=2e-3)
        swarm = self.start_swarm(2, *arguments, through=(PRIVATE_MOUNTS, "0", "-"))
        pids = self.ranks_of(swarm, 2)
        self.wait_for_checkpoint("unseen", 20, swarm)
        hide = ("mount", "-t", "tmpfs", "private", self.path("unseen", "RUN.checkpoints"))
        subprocess.run(("nsenter", "-t", str(pids[0]), "-m", *hide), check=True, timeout=DEADLINE_S)
        os.kill(pids[1], signal.SIGKILL)
        _, out, err = swarm.result(120)
        self.assert_complete(run, out + err)
        self.assertRegex(out, r"spawn +.*the rank that has started it does not see")
        self.assertNotRegex(out, r"peer \d+ +join")

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


class CheckOfStarts(unittest.TestCase):
    """Each letter of a plan is a process that rank 0 has started: see spawn_check."""

    def check(self, plan, ranks=3, ends=True, says="", **options):
        """Returns for each process of the plan its peer, or None where the start was given up.

        No start may have held up the messages between the ranks, nor anything of it the end.
        `says`: what one of the processes must have said.
        """
        folder = tempfile.mkdtemp(prefix="swarmpi-spawn-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        # Where none is to be given up, a slow machine has as long as in a run.
        limit_s = 20 if set(plan) <= set("lad") else 2
        with Swarm(ranks, [CHECK, folder, str(limit_s), plan], **options) as swarm:
            said = "\n".join(map(str, swarm.result(60)))
        with open(os.path.join(folder, "report"), encoding="utf-8") as file:
            report = file.read()
        said += "\n" + report
        self.assertIn(says, said)
        starts = re.findall(
            r"^(.): after (\S+) s, longest round (\S+) s: (?:spawned (\d+)|failed)", report, re.M
        )
        self.assertEqual("".join(start[0] for start in starts), plan, said)
        for _, took_s, longest_s, _ in starts:
            self.assertLess(float(took_s), limit_s + 1, said)
            self.assertLess(float(longest_s), LONGEST_ROUND_S, said)
        self.assertLess(min(float(took_s) for _, took_s, *_ in starts), 3, said)
        end = re.search(r"^end: (\S+) s", report, re.M)
        if ends:
            self.assertLess(float(end[1]), 2, said)
            self.assertNotIn("MPI hangs", said)
        return [int(peer) if peer else None for *_, peer in starts]


@unittest.skipUnless(reports_deaths(), "this MPI reports no deaths")
class StartedOverMpi(CheckOfStarts):
    """All on this host."""

    def test_one_after_the_other(self):
        self.assertEqual(self.check("lll"), [3, 6, 9])

    def test_a_started_process_has_others_started(self):
        self.assertEqual(self.check("laa"), [3, 6, 9])

    def test_some_die_later(self):
        self.assertEqual(self.check("ldldl"), [3, 6, 9, 12, 15])

    def test_some_die_or_hang_before_they_have_joined(self):
        """They are given up, and the next one is started as if they had not been."""
        self.assertEqual(self.check("klhl1l"), [None, 6, None, 12, None, 18])

    def test_at_any_moment(self):
        self.assertEqual(len(self.check("rrrlrrrl", ends=False)), 8)

    def test_in_the_moment_of_connecting(self):
        """MPI hangs in the rank that has started it, which starts no others: another one does.

        So it does where it hangs there, and is killed when it is given up.
        """
        for publication in "2345BCDEf":
            with self.subTest(publication=publication):
                _, dead, other, last = self.check(f"l{publication}ll", ends=False)
                self.assertIsNone(dead)
                self.assertEqual([other, last], [4, 7])

    def test_one_that_cannot_be_connected_says_so_and_goes(self):
        says = "no connection with the rank that has started it: MPI_Publish_name"
        self.assertEqual(self.check("lnl", says=says), [3, None, 9])

    def test_where_mpi_hangs_in_two_ranks_the_third_starts_all_others(self):
        peers = self.check("l2l2ll", ends=False)
        self.assertEqual(peers, [3, None, 4, None, 5, 8])


@unittest.skipIf(emulated_hosts.missing(), emulated_hosts.missing())
@unittest.skipUnless(reports_deaths(), "this MPI reports no deaths")
class StartedOnHosts(CheckOfStarts):
    """One rank on each of three hosts."""

    def test_by_a_rank_on_another_host_than_mpirun(self):
        folder = tempfile.mkdtemp(prefix="swarmpi-spawn-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        hosts = emulated_hosts.EmulatedHosts(folder, 3)
        self.addCleanup(hosts.remove)
        options = hosts.options(1, folder, first=1)
        self.assertEqual(self.check("lll", **options), [3, 6, 9])


if __name__ == "__main__":
    unittest.main()
