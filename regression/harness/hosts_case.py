"""A swarm on three emulated hosts, two ranks on each: what the tests on hosts derive from."""

import os
import signal

from harness import emulated_hosts
from harness.processes import environment_of, runs
from harness.program import BINARY
from harness.swarm import rank_in
from harness.test_case import DisturbedSwarmTest

RANKS_OF_A_HOST = 2


class OnHosts(DisturbedSwarmTest):
    """Ranks 0 and 3 are on the first host, 1 and 4 on the second, 2 and 5 on the third."""

    slow_links = {}

    def setUp(self):
        super().setUp()
        self.hosts = emulated_hosts.EmulatedHosts(self.folder, 3, self.slow_links)
        self.addCleanup(self.hosts.remove)

    def start_on_hosts(self, name, *settings):
        """The swarm, its ranks' process numbers, and the run file."""
        arguments, run = self.training(
            name, *self.settings, "swarm.stages=2", *settings, quiet=False
        )
        mark = f"{self.folder}/{name}"
        ranks = RANKS_OF_A_HOST * len(self.hosts.names)
        places = ",".join(f"{host}:{RANKS_OF_A_HOST}" for host in self.hosts.names)
        swarm = self.start_swarm(
            ranks,
            *arguments,
            bind=False,
            options=("-x", "SWARMPI_TEST", "--host", places),
            within=self.hosts.launch,
            env={**self.hosts.environment, "SWARMPI_TEST": mark},
        )
        self.addCleanup(self.end_marked, mark)  # before the swarm: cleanups go backwards
        self.wait_for_checkpoint(name, 20, swarm)
        pids = self.marked(mark)
        self.assertEqual(set(pids), set(range(ranks)), "the swarm has ended too early")
        return swarm, pids, run

    def marked(self, mark):
        """The process number of each rank, by a variable that only this test's ranks have.

        The daemons of the other hosts, whose children those ranks are, do not stem from mpirun.
        """
        ranks = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            variables = environment_of(pid)
            if variables.get("SWARMPI_TEST") == mark and runs(pid, BINARY):
                ranks[rank_in(variables)] = int(pid)
        ranks.pop(None, None)
        return ranks

    def end_marked(self, mark):
        for pid in self.marked(mark).values():
            os.kill(pid, signal.SIGKILL)
