"""A swarm on three emulated hosts, two ranks on each: what the tests on hosts derive from."""

import re

from harness import emulated_hosts
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
        swarm = self.swarm_on_hosts(name, arguments)
        ranks = RANKS_OF_A_HOST * len(self.hosts.names)
        self.wait_for_checkpoint(name, 20, swarm)
        pids = emulated_hosts.marked(f"{self.folder}/{name}")
        self.assertEqual(set(pids), set(range(ranks)), "the swarm has ended too early")
        return swarm, pids, run

    def swarm_on_hosts(self, name, arguments):
        """Starts the program on all hosts."""
        mark = f"{self.folder}/{name}"
        ranks = RANKS_OF_A_HOST * len(self.hosts.names)
        swarm = self.start_swarm(ranks, *arguments, **self.hosts.options(RANKS_OF_A_HOST, mark))
        # Before the swarm: cleanups go backwards.
        self.addCleanup(emulated_hosts.end_marked, mark)
        return swarm

    def assert_replaced(self, out, count):
        """So many processes were started in the place of dead ones, each at the first attempt."""
        for event in ("spawn", "join"):
            self.assertEqual(len(re.findall(rf"peer \d+ +{event}\b", out)), count, out)
        self.assertNotIn("swarm.spawn", out)
