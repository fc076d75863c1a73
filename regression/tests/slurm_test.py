"""The job scripts under a real Slurm: preempted, queued again, gone on, complete, bitwise equal.

The program under test is $SWARMPI, its launcher $SWARMPI_MPIRUN.
"""

import glob
import os
import unittest

from harness import slurm_cluster
from harness.program import BINARY, ROOT
from harness.swarm import MPIRUN, reports_deaths
from harness.test_case import SwarmpiTest

# The same bits take half a minute on any machine, or as many times as long.
SLOW = """
[devices.slow]
gflops = 1000
overhead_s = {overhead_s}
[[peers]]
peers = [0, 1, 2, 3]
device = "slow"
"""
SETTINGS = ("train.steps=3000", "output.validate_every=0", "output.checkpoint_every=100000")
RUN_S = 200


@unittest.skipIf(slurm_cluster.missing(), slurm_cluster.missing())
@unittest.skipUnless(reports_deaths(), "there is no MPI that reports deaths")
class Slurm(SwarmpiTest):
    """Each has a cluster of its own."""

    def start_cluster(self, nodes, signals, slower=1):
        self.nodes = nodes
        self.add_to_deck(SLOW.format(overhead_s=1e-3 * slower))
        self.cluster = slurm_cluster.SlurmCluster(self.path("slurm"), nodes, signals)
        self.addCleanup(self.cluster.stop)
        self.reference = self.train("reference", *SETTINGS)
        with open(self.path("env.sh"), "w", encoding="utf-8") as file:
            binaries = f"{os.path.dirname(os.path.abspath(BINARY))}"
            file.write(f'export PATH="{binaries}:{os.path.dirname(MPIRUN)}:$PATH"\n')
            file.write("export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1\n")

    def submit(self, script, *options):
        return self.cluster.submit(
            ROOT,
            f"--nodes={self.nodes}",
            f"--ntasks-per-node={4 // self.nodes}",
            f"--output={self.path('job.out')}",
            *options,
            os.path.join(ROOT, "jobscripts", script),
            DECK=self.deck,
            RUN_DIR=self.path("run"),
            SWARMPI_ENV=self.path("env.sh"),
            SET=" ".join((*SETTINGS, "swarm.stages=2", "compute.fidelity=emulated")),
        )

    def said(self):
        with open(self.path("job.out"), encoding="utf-8", errors="replace") as file:
            return file.read()[-3000:]

    def wait_until_it_trains(self, job):
        self.cluster.wait_until(
            lambda: glob.glob(self.path("run", "RUN.h5.journal", "term-*"))
            and self.cluster.state_of(job) == "RUNNING",
            "the training",
        )

    def assert_completes(self, job):
        try:
            self.cluster.wait_until_completed(job, RUN_S)
        except (RuntimeError, TimeoutError) as error:
            self.fail(f"{error}\nIt said:\n{self.said()}\nSlurm said:\n{self.cluster.log()}")
        run = self.path("run", "RUN.h5")
        self.assert_complete(run, self.said())
        self.assert_same_run(self.reference, run)

    def preempt(self, nodes, signals):
        self.start_cluster(nodes, signals)
        if nodes > 1 and not signals and self.cluster.track != "cgroup":
            self.skipTest(
                "without tracking by cgroups Slurm ends the daemons of other nodes itself"
            )
        job = self.submit("preemptible.slurm")
        self.wait_until_it_trains(job)
        other = self.cluster.submit(
            "/",
            *("--partition=high", f"--nodes={nodes}", "--ntasks-per-node=8"),
            *("--output=/dev/null", "--wrap=sleep 1"),
        )
        # It made room of its own accord, with a checkpoint, long before the grace was over.
        self.cluster.wait_until(lambda: self.cluster.state_of(job) == "PENDING", "room")
        self.assertTrue(glob.glob(self.path("run", "checkpoints", "step-*")), self.said())
        self.assert_unfinished(self.path("run", "RUN.h5"))
        self.cluster.wait_until(lambda: self.cluster.state_of(other) == "COMPLETED", "the other")
        self.assert_completes(job)

    def test_preempted_on_one_node(self):
        self.preempt(1, signals=True)

    def test_preempted_on_two_nodes(self):
        self.preempt(2, signals=True)

    def test_preempted_on_one_node_of_a_plain_site(self):
        self.preempt(1, signals=False)

    def test_preempted_on_two_nodes_of_a_plain_site(self):
        self.preempt(2, signals=False)

    def test_a_time_limit_comes(self):
        self.start_cluster(1, signals=True, slower=3)
        job = self.submit("train.slurm", "--time=1", "--signal=B:USR1@20")
        self.wait_until_it_trains(job)
        self.cluster.wait_until(
            lambda: self.cluster.state_of(job) == "PENDING", "its signal and its end", RUN_S
        )
        self.assert_unfinished(self.path("run", "RUN.h5"))
        self.assert_completes(job)

    def test_asked_for_a_checkpoint_it_goes_on(self):
        self.start_cluster(1, signals=True)
        job = self.submit("train.slurm")
        self.wait_until_it_trains(job)
        self.cluster.run("scancel", "-b", "-s", "USR1", job)
        self.cluster.wait_until(lambda: self.cluster.state_of(job) == "PENDING", "its checkpoint")
        self.assert_completes(job)


if __name__ == "__main__":
    unittest.main()
