"""Ranks that may take little memory: no plan gives them more, and what fits nowhere ends well.

The program under test is $SWARMPI, its launcher $SWARMPI_MPIRUN.
"""

import math
import os
import re
import signal
import unittest

from harness.swarm import MPIRUN, reports_deaths
from harness.test_case import DisturbedSwarmTest

# Layers outweigh what else a peer needs, so that two of them do not fit where one does.
MODEL = ("model.layers=6", "model.width=64", "model.vocab=128", "compute.kernels=reference")
EQUAL = ("swarm.stages=3", "swarm.cuts=[2, 4]")
# By cost two peers are dealt stages 0 and 1, and 2: neighbours, of which the first are the largest
# and another. Stages 0 and 2 are no larger together than stage 1.
UNEQUAL = ("swarm.stages=3", "swarm.cuts=[1, 5]")


@unittest.skipUnless(MPIRUN, "there is no mpirun")
class MemoryTest(DisturbedSwarmTest):
    """Budgets are found with `swarmpi check`, which plans as the ranks do."""

    settings = (
        *MODEL,
        "train.steps=150",
        "output.checkpoint_every=20",
        "output.validate_every=0",
    )

    def check(self, memory_bytes, peers, *settings):
        arguments = [f"compute.memory_gb={memory_bytes * 1e-9!r}", f"swarm.peers={peers}"]
        arguments += [*self.settings, *settings]
        sets = [word for setting in arguments for word in ("--set", setting)]
        status, out, err = self.run_program("check", self.deck, *sets)
        self.assertEqual(status, 0, err)
        return out

    def least_bytes(self, peers, *settings):
        """The least that each of so many peers must be allowed for the run to begin."""
        too_little, enough = 1e4, 1e9
        while enough - too_little > enough / 500:
            middle = math.sqrt(too_little * enough)
            if "cannot hold all stages" in self.check(middle, peers, *settings):
                too_little = middle
            else:
                enough = middle
        return enough

    def allowed(self, memory_bytes):
        return f"compute.memory_gb={memory_bytes * 1e-9!r}"


class Checked(MemoryTest):
    """What `swarmpi check` and a start say."""

    def test_check_says_what_fits_and_how_many_deaths(self):
        three = self.least_bytes(3, *EQUAL)
        out = self.check(three, 3, *EQUAL)
        self.assertRegex(out, r"can hold +1 stage at once")
        self.assertRegex(out, r"deaths +0 leave room for all stages; with fewer than 3 peers")
        two = self.least_bytes(2, *EQUAL)
        self.assertGreater(two, 1.3 * three)
        out = self.check(two, 3, *EQUAL)
        self.assertRegex(out, r"can hold +2 stages at once")
        self.assertRegex(out, r"deaths +1 leave room for all stages; with fewer than 2 peers")

    def test_a_run_that_fits_nowhere_does_not_start(self):
        memory = self.allowed(0.99 * self.least_bytes(3, *EQUAL))
        err = self.train("large", *self.settings, *EQUAL, memory, ranks=3, expect=2)
        self.assertRegex(err, r"memory_gb: too little memory: the ranks of this run cannot hold")
        self.assertRegex(err, r"one more peer that may take \S+ \w+ would be enough")
        self.assertEqual(os.listdir(self.path("large")), [], "nothing is written")
        err = self.train("alone", *self.settings, *EQUAL, memory, expect=2)
        self.assertIn("cannot hold all stages", err)


@unittest.skipUnless(reports_deaths(), "this MPI reports no deaths")
class Moved(MemoryTest):
    """Algorithm 2 moves a peer that has room for its new stage, but not for both."""

    def test_it_leaves_its_stage_drops_it_and_learns_the_other(self):
        self.slow_down()
        uneven = (*EQUAL, "swarm.pins=[0, 0, 1, 2]", "compute.fidelity=emulated")
        said = self.check(1e9, 4, *uneven)
        needed = re.search(r"learning +a stage takes (\S+) MiB, (\S+) MiB beside", said)
        self.assertTrue(needed, said)
        room = self.allowed((float(needed[1]) + float(needed[2])) / 2 * 2**20)
        rebalanced = ("swarm.rebalance=paper", "swarm.rebalance_period_s=0.1")
        arguments, run = self.training(
            "moved", *self.settings, *uneven, *rebalanced, room, quiet=False
        )
        out = self.assert_undisturbed(self.start_swarm(4, *arguments), run)
        self.assertRegex(out, r"moves from stage 0, which it leaves first: it has no room for both")
        self.assertRegex(out, r"end of a move: it has moved")


@unittest.skipUnless(reports_deaths(), "this MPI reports no deaths")
class Killed(MemoryTest):
    """A death leaves less memory than before."""

    def test_where_too_little_is_left_the_run_stops_and_goes_on_with_more_ranks(self):
        memory = self.allowed(1.02 * self.least_bytes(3, *EQUAL))
        swarm, pids, run = self.started("short", *EQUAL, memory, ranks=3)
        os.kill(pids[2], signal.SIGKILL)
        _, out, err = swarm.result(60)
        self.assertIn("too little memory: a stage was lost with its last replica", err)
        self.assertRegex(err, r"stage \d needs \S+ \w+.* peers? 0-?,?1 may take \S+ \w+")
        self.assertRegex(err, r"one more peer that may take \S+ \w+ would be enough")
        self.assertIn("--resume", err)
        self.assert_unfinished(run)
        resumed = self.train(
            "short",
            *self.settings,
            *EQUAL,
            memory,
            ranks=3,
            resume=self.path("short", "RUN.checkpoints"),
        )
        self.assert_same_run(self.reference, resumed)

    def test_where_another_deal_fits_it_is_found(self):
        memory = self.allowed(1.02 * self.least_bytes(2, *UNEQUAL))
        swarm, pids, run = self.started("swapped", *UNEQUAL, memory, ranks=3)
        os.kill(pids[1], signal.SIGKILL)
        out = self.assert_undisturbed(swarm, run)
        self.assertRegex(out, r"incarnation +a stage was lost")
        self.assertRegex(out, r"(?m)^ +0 +0,1 ", "peer 0 serves the largest after the other")
        self.assertRegex(out, r"(?m)^ +2 +0,2 ", "and leaves that one to peer 2")


if __name__ == "__main__":
    unittest.main()
