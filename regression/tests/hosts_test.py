"""A swarm on three emulated hosts, whose ranks are killed or stopped.

The program under test is $SWARMPI, its launcher $SWARMPI_MPIRUN.
"""

import glob
import os
import signal
import time
import unittest

from harness import emulated_hosts
from harness.hosts_case import OnHosts
from harness.processes import children, wait_until_gone
from harness.swarm import reports_deaths


@unittest.skipIf(emulated_hosts.missing(), emulated_hosts.missing())
@unittest.skipUnless(reports_deaths(), "this MPI reports no deaths")
class Hosts(OnHosts):
    """Near to each other."""

    def test_ranks_of_each_host_are_killed(self):
        swarm, pids, run = self.start_on_hosts("each")
        for rank in (3, 4, 5):
            os.kill(pids[rank], signal.SIGKILL)
        self.assert_undisturbed(swarm, run)

    def test_all_ranks_of_a_host_are_killed_and_then_those_of_the_leaders(self):
        swarm, pids, run = self.start_on_hosts("host")
        for rank in (1, 4):
            os.kill(pids[rank], signal.SIGKILL)
        self.wait_for_checkpoint("host", 100)
        for rank in (0, 3):
            os.kill(pids[rank], signal.SIGKILL)
        out = self.assert_undisturbed(swarm, run)
        self.assertRegex(out, r"peer 2 +leader")

    def test_peers_of_several_hosts_share_no_emulated_line(self):
        site = ("sites.a={up_mbps = 5}", 'peers=[{site = "a"}]', "compute.fidelity=emulated")
        for options in ((), ("--dry-run",)):
            with self.subTest(options=options):
                arguments, run = self.training("sites", *self.settings, "swarm.stages=2", *site)
                swarm = self.swarm_on_hosts("sites", (*arguments, *options))
                status, _, err = swarm.result(60)
                self.assertEqual(status, 2, err)
                self.assertIn("sites.a: up_mbps is shared by several peers", err)
                self.assertIn("start all 6 on one host", err)
                self.assertEqual(os.listdir(os.path.dirname(run)), [], "nothing is left behind")

    def test_a_stopped_rank_is_killed_by_its_neighbour(self):
        swarm, pids, run = self.start_on_hosts("stopped", "swarm.suspect_after_s=1")
        os.kill(pids[4], signal.SIGSTOP)
        out = self.assert_undisturbed(swarm, run)
        self.assertRegex(out, r"peer 4 +kill")

    def test_a_host_that_is_stopped_for_a_while_is_waited_for(self):
        for ranks in ((1, 4), (0, 3)):
            with self.subTest(ranks=ranks):
                name = f"paused-{ranks[0]}"
                swarm, pids, run = self.start_on_hosts(name, "swarm.suspect_after_s=1")
                for rank in ranks:
                    os.kill(pids[rank], signal.SIGSTOP)
                time.sleep(10)
                for rank in ranks:
                    os.kill(pids[rank], signal.SIGCONT)
                out = self.assert_undisturbed(swarm, run)
                self.assertNotRegex(out, r"peer \d +kill")
                if 0 not in ranks:
                    self.assertRegex(out, r"peer [14] does not answer, and nobody can kill it")

    def stop(self, swarm, pids, ranks, most_s):
        """USR1 once these ranks cannot be killed: what was said when the run had ended.

        MPI_Finalize then waits for them for another 30 s.
        """
        time.sleep(0.1)  # some steps after the first checkpoint: there is something to save
        for rank in ranks:
            os.kill(pids[rank], signal.SIGSTOP)
        time.sleep(4)
        os.kill(children(swarm)[0], signal.SIGUSR1)
        return self.wait_for_words(swarm, "swarmpi: stopped; go on with --resume", most_s)

    def terms(self, run):
        return sorted(glob.glob(run + ".journal/term-*"))

    def test_a_stop_does_not_wait_for_a_host_that_is_stopped(self):
        """Nor do its ranks go on with the run when they wake up, though they hear each other."""
        swarm, pids, run = self.start_on_hosts("left", "swarm.suspect_after_s=1")
        begun = time.time()
        said = self.stop(swarm, pids, (1, 4), 10)  # a third of the time of a notice
        steps = self.checkpoints("left")
        newest = self.path("left", "RUN.checkpoints", f"step-{steps[-1]}", "manifest")
        self.assertGreater(os.path.getmtime(newest), begun, steps)
        terms = self.terms(run)
        for rank in (1, 4):
            os.kill(pids[rank], signal.SIGCONT)
        status, out, err = swarm.result(60)
        self.assertEqual(status, 3, out + said + err)
        self.assertNotIn("there is no checkpoint", said)
        self.assertRegex(said, r"peer 1 does not answer, nobody can kill it: it was left")
        self.assertEqual(self.checkpoints("left"), steps)
        self.assertEqual(self.terms(run), terms)
        self.assert_resumes("left")

    def test_a_stop_while_the_leaders_host_is_stopped_says_why_there_is_no_checkpoint(self):
        swarm, pids, _ = self.start_on_hosts("leaderless", "swarm.suspect_after_s=1")
        said = self.stop(swarm, pids, (0, 3), 20)
        for rank in (0, 3):
            os.kill(pids[rank], signal.SIGCONT)
        status, out, err = swarm.result(60)
        self.assertEqual(status, 3, out + said + err)
        self.assertRegex(
            said,
            r"SIGUSR1.*peer 0 does not answer, and cannot be killed.*"
            r"there is no checkpoint of step \d+, for nobody can lead without that peer; ",
        )
        self.assert_resumes("leaderless")

    def test_the_run_outlives_a_host_that_is_cut_off_for_a_while(self):
        """TCP heals connections one by one: a peer that speaks on one only may be killed."""
        for host in (1, 0):
            with self.subTest(host=host):
                name = f"healed-{host}"
                swarm, _, run = self.start_on_hosts(name, "swarm.suspect_after_s=1")
                self.hosts.cut(self.hosts.names[host])
                time.sleep(10)
                self.hosts.heal(self.hosts.names[host])
                self.assert_undisturbed(swarm, run)

    def test_a_leader_on_another_host_than_mpirun_has_processes_started(self):
        self.slow_down(overhead_s=2e-3)  # two processes have started before the end
        swarm, pids, run = self.start_on_hosts(
            "spawn", "swarm.spawn=true", "compute.fidelity=emulated"
        )
        for rank in (0, 3):
            os.kill(pids[rank], signal.SIGKILL)
        self.assert_replaced(self.assert_undisturbed(swarm, run), 2)

    def test_a_host_is_cut_off_for_good(self):
        """Nobody can kill those behind the link: all end, and nothing is lost.

        mpirun itself does not notice, and waits for the daemon of that host.
        """
        swarm, pids, _ = self.start_on_hosts(
            "cut", "swarm.suspect_after_s=1", "swarm.give_up_after_s=5"
        )
        self.hosts.cut(self.hosts.names[2])
        wait_until_gone(pids.values(), "all ranks", timeout_s=60)
        swarm.end()
        self.assert_resumes("cut")


if __name__ == "__main__":
    unittest.main()
