"""A swarm on three emulated hosts, whose ranks are killed or stopped.

The program under test is $SWARMPI, its launcher $SWARMPI_MPIRUN.
"""

import os
import signal
import subprocess
import unittest

import emulated_hosts
from death_test import DeathTest, hears_of_deaths
from harness import BINARY, launch, lives, wait_for

RANKS_OF_A_HOST = 2


@unittest.skipIf(emulated_hosts.missing(), emulated_hosts.missing())
@unittest.skipUnless(hears_of_deaths(), "this MPI reports no deaths")
class OnHosts(DeathTest):
    """Ranks 0 and 3 are on the first host, 1 and 4 on the second, 2 and 5 on the third."""

    slow_links = {}

    def setUp(self):
        super().setUp()
        self.hosts = emulated_hosts.EmulatedHosts(self.folder, 3, self.slow_links)
        self.addCleanup(self.hosts.remove)

    def start_on_hosts(self, name, *settings):
        """The swarm, its ranks' process numbers, and the run file."""
        arguments, run = self.training(name, *self.settings, "swarm.stages=2", *settings)
        arguments.remove("--quiet")
        mark = f"SWARMPI_TEST={self.folder}/{name}"
        ranks = RANKS_OF_A_HOST * len(self.hosts.names)
        command = [*launch(ranks, bind=False), "-x", "SWARMPI_TEST", "--host"]
        command.append(",".join(f"{host}:{RANKS_OF_A_HOST}" for host in self.hosts.names))
        process = subprocess.Popen(
            self.hosts.launch([*command, os.path.abspath(BINARY), *arguments]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env={**self.hosts.environment, **dict([mark.split("=")])},
        )
        self.addCleanup(self.end_all, process, mark)
        manifest = self.path(name, "checkpoints", "step-20", "manifest")
        wait_for(lambda: process.poll() is not None or os.path.exists(manifest))
        pids = self.marked(mark)
        self.assertEqual(set(pids), set(range(ranks)), "the swarm has ended too early")
        return process, pids, run

    def marked(self, mark):
        """The process number of each rank; the daemons of other hosts are nobody's children."""
        ranks = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    variables = file.read().decode(errors="replace").split("\0")
                if not os.path.samefile(os.readlink(f"/proc/{pid}/exe"), BINARY):
                    continue
            except OSError:
                continue
            named = dict(v.split("=", 1) for v in variables if "=" in v)
            if mark in variables and "OMPI_COMM_WORLD_RANK" in named:
                ranks[int(named["OMPI_COMM_WORLD_RANK"])] = int(pid)
        return ranks

    def end_all(self, process, mark):
        for pid in self.marked(mark).values():
            os.kill(pid, signal.SIGKILL)
        self.end_swarm(process)


class Hosts(OnHosts):
    """Near to each other."""

    def test_ranks_of_each_host_are_killed(self):
        process, pids, run = self.start_on_hosts("each")
        for rank in (3, 4, 5):
            os.kill(pids[rank], signal.SIGKILL)
        self.assert_undisturbed(process, run)

    def test_all_ranks_of_a_host_are_killed_and_then_those_of_the_leaders(self):
        process, pids, run = self.start_on_hosts("host")
        for rank in (1, 4):
            os.kill(pids[rank], signal.SIGKILL)
        wait_for(lambda: os.path.exists(self.path("host", "checkpoints", "step-100", "manifest")))
        for rank in (0, 3):
            os.kill(pids[rank], signal.SIGKILL)
        out = self.assert_undisturbed(process, run)
        self.assertRegex(out, r"peer 2 +leader")

    def test_a_stopped_rank_is_killed_by_its_neighbour(self):
        process, pids, run = self.start_on_hosts("stopped", "swarm.suspect_after_s=1")
        os.kill(pids[4], signal.SIGSTOP)
        out = self.assert_undisturbed(process, run)
        self.assertRegex(out, r"peer 4 +kill")

    def test_a_host_is_cut_off_for_good(self):
        """Nobody can kill those behind the link: all end, and nothing is lost.

        mpirun itself does not notice, and waits for the daemon of that host.
        """
        process, pids, _ = self.start_on_hosts("cut", "swarm.suspect_after_s=1")
        self.hosts.cut(self.hosts.names[2])
        wait_for(lambda: not any(map(lives, pids.values())), timeout_s=60)
        self.end_swarm(process)
        self.assert_resumes("cut")


if __name__ == "__main__":
    unittest.main()
