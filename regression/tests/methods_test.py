"""Every method on real ranks, SWARM and the static pipelines that it is compared with: the bits of
one rank, whoever dies and whenever.

Deaths are emulated, so no MPI that reports deaths is needed. The program under test is $SWARMPI,
its launcher $SWARMPI_MPIRUN.
"""

import itertools
import re
import unittest
from pathlib import Path

try:
    import h5py
except ImportError:
    h5py = None

from harness.swarm import MPIRUN
from harness.test_case import ReferenceTest

STATIC = ("gpipe", "1f1b", "data_parallel", "zero_offload")
METHODS = ("swarm", *STATIC)
OF_ONE_STAGE = ("data_parallel", "zero_offload")
CLIP = 0.05  # the norms are about 1
SETTINGS = (
    "train.steps=60",
    f"train.clip={CLIP}",
    "output.checkpoint_every=20",
    "output.validate_every=20",
)
BEFORE, AFTER = 5, 27  # the first checkpoint


def stages_of(method):
    return 1 if method in OF_ONE_STAGE else 2


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

    def trace(self, *events):
        """The settings that have these happen."""
        path = self.path("trace.csv")
        with open(path, "w", encoding="ascii") as file:
            file.write("".join(f"{event}\n" for event in events))
        return "faults.mode=emulated", f"faults.trace={path}"

    @unittest.skipUnless(h5py, "there is no h5py")
    def test_gradients_are_clipped(self):
        with h5py.File(self.reference, "r") as file:
            norms, factors = file["steps/grad_norm"][1:], file["steps/clip"][1:]
        clipped = sum(norm > CLIP and factor < 1 for norm, factor in zip(norms, factors))
        self.assertGreater(clipped, 0.9 * len(norms))

    def test_one_three_and_four_replicas(self):
        for method, replicas in itertools.product(METHODS, (1, 3, 4)):
            with self.subTest(method=method, replicas=replicas):
                ranks = replicas * stages_of(method)
                self.swarm(f"{method}-{replicas}", method, ranks=ranks)

    def test_deaths_of_worker_and_leader_before_and_after_the_first_checkpoint(self):
        for method, replicas in itertools.product(METHODS, (3, 4)):
            stages = stages_of(method)
            worker, ranks = 2 * stages - 1, replicas * stages
            for early, late in ((worker, 0), (0, worker)):
                with self.subTest(method=method, replicas=replicas, early=early, late=late):
                    self.die(method, {BEFORE: early, AFTER: late}, ranks)

    def test_the_same_where_spares_take_the_places_in_stages_of_one_replica(self):
        for method in METHODS:
            last = stages_of(method) - 1
            both = [{BEFORE: last, AFTER: 0}, {BEFORE: 0, AFTER: last}]
            for victims in both if last else [{BEFORE: 0}, {AFTER: 0}]:
                with self.subTest(method=method, victims=victims):
                    self.die(method, victims, last + 3, "swarm.spares=2", alone=True)

    def die(self, method, victims, ranks, *settings, alone=False):
        """These peers die in these steps; SWARM repairs that, where a stage is served by others."""
        # By SWARM a replica may be given no microbatch of a step, but it applies each. An owner
        # dies when a step is committed and its weights are nowhere else yet.
        working = "apply" if method in ("swarm", "zero_offload") else "backward"
        deaths = [
            (step, peer, "kill", working if peer else "reduce") for step, peer in victims.items()
        ]
        name = "-".join(map(str, (method, ranks, *victims.values(), *victims)))
        out, _ = self.swarm(name, method, *settings, *self.at(*deaths), ranks=ranks)
        self.assertRegex(out, rf"\nlost +{len(victims)} peer")
        if method == "swarm" and not alone:
            self.assertNotIn("incarnation", out)
            return
        for step in victims:
            self.assertIn(
                "from the start: there is no checkpoint"
                if step == BEFORE
                else "all continue from the checkpoint of step 20",
                out,
            )
        self.assertIn(f"{len(victims)} fallback", out)
        if method != "swarm":
            self.assertNotIn("migrate", out)

    def test_a_spare_dies_before_and_after_the_first_checkpoint(self):
        self.add_to_deck(self.slow_devices())
        for method in METHODS:
            with self.subTest(method=method):
                stages = stages_of(method)
                faults = self.trace(f"0.3,kill,{stages}", f"1.2,kill,{stages + 1}")
                settings = ("swarm.spares=3", "compute.fidelity=emulated", *faults)
                out, _ = self.swarm(f"{method}-idle", method, *settings, ranks=stages + 3)
                self.assertRegex(out, r"\nlost +2 peers")
                self.assertNotIn("incarnation", out)

    def test_both_loads_of_algorithm_2_under_deaths(self):
        self.add_to_deck(self.slow_devices())
        for load in ("sum", "mean"):
            with self.subTest(load=load):
                out, _ = self.swarm(
                    f"rebalanced-{load}",
                    "swarm",
                    *("compute.fidelity=emulated", "swarm.pins=[0,0,0,0,1]"),
                    *("swarm.rebalance=paper", "swarm.rebalance_period_s=0.1"),
                    f"swarm.rebalance_load={load}",
                    *self.at((BEFORE, 1, "kill", "backward"), (AFTER, 0, "kill", "commit")),
                    ranks=5,
                )
                self.assertRegex(out, r"migrate +moves from stage")
                self.assertRegex(out, r"\nlost +2 peers")

    @unittest.skipUnless(h5py, "there is no h5py")
    def test_owners_write_what_each_owns_and_others_go_on_from_it(self):
        """A checkpoint of three owners has three parts, of which two other owners, and one peer
        alone, make their state."""
        name = "owned"
        larger = (*SETTINGS, "model.width=64", "model.vocab=256", "swarm.stages=1")
        alone = self.train("owned-by-one", *larger)
        owned = (*larger, "swarm.method=zero_offload", "swarm.recovery=off")
        stop = self.at((45, 1, "kill", "any"))
        self.train(name, *owned, *stop, ranks=3, expect=3)
        folder = Path(self.path(name, "RUN.checkpoints", "step-40"))
        parts = sorted(folder.glob("stage-0.*.h5"))
        self.assertEqual(len(parts), 3)
        elements, pieces = [], 0
        for part in parts:
            with h5py.File(part, "r") as file:
                arrays = [tensor["moment1"] for tensor in file["tensors"].values()]
                elements.append(sum(array.size for array in arrays))
                pieces += sum(array.ndim == 1 for array in arrays)
        self.assertLess(max(elements) - min(elements), 2 * 4096)
        self.assertGreater(pieces, 0, "a tensor lies in two parts")
        for ranks in (2, 1):
            resumed = self.train(f"{name}-{ranks}", *owned, ranks=ranks, resume=str(folder))
            self.assert_same_run(alone, resumed)

    def test_a_static_pipeline_of_coded_and_learned_boundaries(self):
        what = (
            *("swarm.compress_activations=blockwise8", "swarm.compress_gradients=blockwise8"),
            *("swarm.boundary=bottleneck", "swarm.stages=2"),
        )
        alone = self.train("coded", *SETTINGS, *what)
        faults = self.at((BEFORE, 3, "kill", "backward"), (AFTER, 0, "kill", "reduce"))
        run = self.train(
            "coded-gpipe", *SETTINGS, *what, "swarm.method=gpipe", *faults, ranks=6
        )
        self.assert_same_run(alone, run)
        self.assertRegex(self.run_program("info", run)[1], r"\nlost +2 peers")

    @unittest.skipUnless(h5py, "there is no h5py")
    def test_who_joins_a_static_pipeline_is_a_spare_until_all_go_back(self):
        self.add_to_deck(self.slow_devices())
        out, run = self.swarm(
            "joined",
            "gpipe",
            *("compute.fidelity=emulated", "swarm.spares=1"),
            *self.trace("0.2,kill,1", "0.3,join,3", "0.8,kill,2"),
            ranks=3,
        )
        self.assertRegex(out, r"peer 3 +join")
        self.assertNotIn("migrate", out)
        with h5py.File(run, "r") as file:
            incarnations = dict(zip(file["steps/step"][()], file["steps/incarnation"][()]))
            peers = zip(file["peers/step"][()], file["peers/peer"][()])
            served = {incarnations[step] for step, peer in peers if peer == 3}
        self.assertEqual(served, {max(incarnations.values())})

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
        for method, step in (
            *(("gpipe", 25), ("zero_offload", 30), ("data_parallel", 35)),
            *(("swarm", 45), ("zero_offload", 50), ("1f1b", None)),
        ):
            arguments = (
                *SETTINGS,
                f"swarm.method={method}",
                f"swarm.stages={stages_of(method)}",
                "swarm.recovery=off",
                *(self.at((step, 1, "kill", "any")) if step else ()),
            )
            expect = 3 if step else 0
            resume = previous and self.path(name, "RUN.checkpoints")
            said = self.train(name, *arguments, ranks=4, resume=resume, expect=expect)
            previous = method
        self.assert_same_run(self.reference, said)


if __name__ == "__main__":
    unittest.main()
