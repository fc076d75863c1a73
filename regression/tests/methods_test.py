"""The methods that SWARM is compared with, as static pipelines of real ranks: the bits of one rank.

Deaths are emulated, so no MPI that reports deaths is needed. The program under test is $SWARMPI,
its launcher $SWARMPI_MPIRUN.
"""

import re
import unittest

from harness.swarm import MPIRUN
from harness.test_case import ReferenceTest

METHODS = ("gpipe", "1f1b", "data_parallel")
SETTINGS = (
    "train.steps=60",
    "train.clip=0.05",  # the norms are about 1
    "output.checkpoint_every=20",
    "output.validate_every=20",
)


def stages_of(method):
    return 1 if method == "data_parallel" else 2


@unittest.skipUnless(MPIRUN, "there is no mpirun")
class Methods(ReferenceTest):
    """Each run is compared bitwise with that of one process by SWARM."""

    settings = SETTINGS

    def swarm(self, name, method, *settings, ranks, status=0):
        """What a run by this method said, and its run file."""
        by = (f"swarm.method={method}", f"swarm.stages={stages_of(method)}")
        arguments, run = self.training(name, *SETTINGS, *by, *settings, quiet=False)
        ended, out, err = self.start_swarm(ranks, *arguments).result(100)
        if status == 0:
            self.assert_complete(run, out + err)
            self.assert_same_run(self.reference, run)
        else:
            self.assertEqual(ended, status, out + err)
            self.assert_unfinished(run)
        return out, run

    @staticmethod
    def at(*faults):
        """The setting that has these (step, peer, event, point) happen."""
        rows = ", ".join(
            f'{{step = {step}, peer = {peer}, event = "{event}", point = "{point}"}}'
            for step, peer, event, point in faults
        )
        return "faults.mode=emulated", f"faults.at=[{rows}]"

    def test_one_three_and_four_pipelines(self):
        for method in METHODS:
            for pipelines in (1, 3, 4):
                with self.subTest(method=method, pipelines=pipelines):
                    ranks = pipelines * stages_of(method)
                    self.swarm(f"{method}-{pipelines}", method, ranks=ranks)

    def test_a_worker_dies_before_the_first_checkpoint_and_the_leader_after_it(self):
        for method in METHODS:
            with self.subTest(method=method):
                stages = stages_of(method)
                faults = self.at((5, stages, "kill", "backward"), (25, 0, "kill", "reduce"))
                out, _ = self.swarm(f"{method}-deaths", method, *faults, ranks=3 * stages)
                self.assertRegex(out, r"incarnation +peer \d of a pipeline was lost: all continue")
                self.assertIn("from the start: there is no checkpoint", out)
                self.assertIn("all continue from the checkpoint of step 20", out)
                self.assertIn("2 fallbacks", out)
                self.assertNotIn("migrate", out)

    def test_a_spare_takes_the_place_in_the_only_pipeline(self):
        for method in METHODS:
            with self.subTest(method=method):
                stages = stages_of(method)
                faults = self.at((5, 0, "kill", "commit"), (25, stages - 1, "kill", "apply"))
                faults = faults if stages > 1 else self.at((25, 0, "kill", "apply"))
                name, ranks = f"{method}-spares", stages + 2
                out, _ = self.swarm(name, method, "swarm.spares=2", *faults, ranks=ranks)
                self.assertIn("all continue from the checkpoint of step 20", out)

    def test_who_is_asked_to_leave_costs_nothing(self):
        for peer in (0, 3):
            with self.subTest(peer=peer):
                faults = self.at((10, peer, "notice", "any"))
                slow = ("output.checkpoint_every=0", "compute.fidelity=emulated")
                self.add_to_deck(self.slow_devices() if peer == 0 else "")
                out, run = self.swarm(f"left{peer}", "1f1b", *slow, *faults, ranks=5)
                self.assertRegex(out, rf"peer {peer} +leave")
                went_back = re.search(r"step (\d+) +incarnation a peer leaves its pipeline", out)
                self.assertIsNotNone(went_back, out)
                self.assertNotIn("kill ", out)
                self.assertEqual(out.count("incarnation"), 1, out)

    @staticmethod
    def slow_devices():
        """A step takes about 30 ms: the second in which notices wait for others is half the run."""
        return (
            "[devices.slow]\ngflops = 1000\noverhead_s = 5e-3\n"
            '[[peers]]\npeers = [0, 1, 2, 3, 4]\ndevice = "slow"\n'
        )

    def test_the_interval_between_checkpoints_follows_from_how_often_peers_die(self):
        settings = ("output.checkpoint_every=0", "faults.mode=emulated", "faults.mtbf_s=1e6")
        out, _ = self.swarm("interval", "gpipe", *settings, ranks=4)
        self.assertRegex(
            out,
            r"step 1 +peer 0 +checkpoint +one in \d+ steps from now on \(Young, Daly\): "
            r"a checkpoint took [\d.e-]+ s, a step takes [\d.e-]+ s, a death comes each 2.5e\+05 s",
        )

    def test_any_method_goes_on_from_anothers_checkpoint(self):
        name, previous = "handed-on", None
        for method, step in (("gpipe", 25), ("swarm", 45), ("1f1b", None)):
            stages = 2
            arguments = (
                *SETTINGS,
                f"swarm.method={method}",
                f"swarm.stages={stages}",
                "swarm.recovery=off",
                *(self.at((step, 1, "kill", "any")) if step else ()),
            )
            expect = 3 if step else 0
            resume = previous and self.path(name, "checkpoints")
            said = self.train(name, *arguments, ranks=4, resume=resume, expect=expect)
            previous = method
        self.assert_same_run(self.reference, said)
