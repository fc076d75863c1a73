"""What crosses the cuts between stages: coded, the bits depend on the cuts, and on nothing else."""

import os
import unittest

try:
    import h5py
except ImportError:
    h5py = None

from harness.processes import wait_for
from harness.swarm import MPIRUN, reports_deaths
from harness.test_case import SwarmpiTest

CODECS = ("fp16", "bf16", "uniform8", "blockwise8")


def coded(activations, gradients):
    return (
        f"swarm.compress_activations={activations}",
        f"swarm.compress_gradients={gradients}",
        "swarm.stages=3",
    )


class OnePeer(SwarmpiTest):
    def test_windows_and_recomputation_change_no_bit(self):
        settings = coded("blockwise8", "fp16")
        reference = self.train("reference", *settings)
        for name, setting in (
            ("always", "compute.recompute=always"),
            ("never", "compute.recompute=never"),
            ("window", "swarm.window=1"),
        ):
            self.assert_same_run(reference, self.train(name, *settings, setting))

    def test_cuts_and_codecs_change_bits(self):
        plain = self.train("plain")
        reference = self.train("reference", *coded("bf16", "bf16"))
        for name, settings in (
            ("cuts", (*coded("bf16", "bf16"), "swarm.cuts=[1, 2]")),
            ("stages", (*coded("bf16", "bf16"), "swarm.stages=2")),
            ("gradients", coded("bf16", "blockwise8")),
        ):
            run = self.train(name, *settings)
            for other in (plain, reference):
                status, out, _ = self.run_program("compare", run, other)
                self.assertEqual(status, 1, f"{name}: {out}")
                self.assertIn("swarm.", out)

    def test_one_stage_has_none(self):
        settings = coded("uniform8", "blockwise8")
        self.assert_same_run(
            self.train("plain"), self.train("coded", *settings, "swarm.stages=1")
        )

    def test_what_fp16_cannot_hold_names_its_scale(self):
        err = self.train("huge", *coded("fp16", "none"), "swarm.fp16_scale=1099511627776", expect=1)
        self.assertIn("3 steps in a row", err)
        self.assertIn("lower swarm.fp16_scale than 1099511627776", err)


@unittest.skipUnless(MPIRUN, "there is no mpirun")
class Swarms(SwarmpiTest):
    def test_every_codec_on_any_number_of_ranks(self):
        for codec in CODECS:
            settings = coded(codec, codec)
            reference = self.train(codec, *settings)
            for ranks in (3, 5):
                with self.subTest(codec=codec, ranks=ranks):
                    run = self.train(f"{codec}{ranks}", *settings, ranks=ranks)
                    self.assert_same_run(reference, run)

    def test_learned_boundaries_on_any_number_of_ranks(self):
        for boundary in ("bottleneck", "maxout"):
            for codec in ("none", "blockwise8"):
                settings = (*coded(codec, codec), f"swarm.boundary={boundary}")
                name = f"{boundary}-{codec}"
                reference = self.train(name, *settings)
                for ranks in (3, 5):
                    with self.subTest(boundary=boundary, codec=codec, ranks=ranks):
                        run = self.train(f"{name}{ranks}", *settings, ranks=ranks)
                        self.assert_same_run(reference, run)

    @unittest.skipUnless(reports_deaths(), "this MPI reports no deaths")
    def test_repairs_send_what_was_coded(self):
        settings = (
            *coded("blockwise8", "fp16"),
            "swarm.boundary=bottleneck",
            "train.updates=delayed",
        )
        reference = self.train("reference", *settings)
        for recovery in ("lineage", "redo"):
            for rank in (0, 3):
                with self.subTest(recovery=recovery, rank=rank):
                    run = self.train(
                        f"{recovery}{rank}",
                        *settings,
                        f"swarm.recovery={recovery}",
                        "swarm.wiring=fixed",  # each replica has a microbatch, however slow it is
                        "faults.mode=emulated",
                        f"faults.at=[{{step = 3, peer = {rank}, event = 'kill', "
                        "point = 'forward'}]",
                        ranks=6,
                    )
                    self.assert_same_run(reference, run)
                    out = self.run_program("info", run)[1]
                    self.assertRegex(out, r"\nlost +1 peer")

    @unittest.skipUnless(h5py, "there is no h5py")
    def test_eight_bits_send_a_quarter_of_the_bytes(self):
        sizes = ("model.context=64", "model.width=128", "train.microbatch_size=4")

        def bytes_sent(name, *settings):
            run = self.train(name, *sizes, "swarm.stages=2", *settings, ranks=2)
            with h5py.File(run, "r") as file:
                return int(file["peers/bytes_sent"][()].sum())

        plain = bytes_sent("plain", "train.steps=4")
        eight = bytes_sent(
            "coded",
            "train.steps=4",
            "swarm.compress_activations=blockwise8",
            "swarm.compress_gradients=blockwise8",
        )
        self.assertGreater(plain / eight, 3.9)


class Resume(SwarmpiTest):
    SETTINGS = (
        "swarm.boundary=maxout",
        "swarm.compress_activations=uniform8",
        "swarm.compress_gradients=bf16",
        "swarm.stages=2",
        "train.schedule=constant",
    )

    def setUp(self):
        super().setUp()
        self.train("half", *self.SETTINGS, "swarm.cuts=[1]", "train.steps=6")
        self.checkpoints = self.path("half", "RUN.checkpoints")

    def test_the_checkpoints_cuts_are_kept_where_the_deck_names_none(self):
        whole = self.train("whole", *self.SETTINGS, "swarm.cuts=[1]")
        self.assert_same_run(whole, self.train("half", *self.SETTINGS, resume=self.checkpoints))
        dealt = self.train("dealt", *self.SETTINGS)
        self.assertEqual(self.run_program("compare", whole, dealt)[0], 1)

    @unittest.skipUnless(MPIRUN, "there is no mpirun")
    def test_on_other_ranks(self):
        whole = self.train("whole", *self.SETTINGS, "swarm.cuts=[1]")
        run = self.train("half", *self.SETTINGS, resume=self.checkpoints, ranks=3)
        self.assert_same_run(whole, run)

    def test_other_cuts_or_codecs_are_refused(self):
        for setting in (
            "swarm.cuts=[2]",
            "swarm.stages=3",
            "swarm.compress_gradients=none",
            "swarm.fp16_scale=2",
            "swarm.boundary=bottleneck",
            "swarm.boundary_factor=4",
        ):
            with self.subTest(setting=setting):
                err = self.train(
                    "half", *self.SETTINGS, setting, resume=self.checkpoints, expect=2
                )
                self.assertIn(setting.split("=")[0] + " = ", err)
                self.assertIn("a resumed run must keep it", err)

    def test_samples_cross_the_cuts_of_the_checkpoint(self):
        def sample(folder):
            status, out, err = self.run_program(
                "sample", self.path(folder, "RUN.checkpoints"), "--prompt", "the ", "-n", "60"
            )
            self.assertEqual(status, 0, err)
            return out

        self.train("resumed", *self.SETTINGS, resume=self.checkpoints, ranks=2 if MPIRUN else None)
        self.train("whole", *self.SETTINGS, "swarm.cuts=[1]")
        self.train("dealt", *self.SETTINGS)
        self.assertEqual(sample("resumed"), sample("whole"))
        self.assertNotEqual(sample("dealt"), sample("whole"))

    def test_another_model_is_refused_before_it_is_cut(self):
        err = self.train(
            "half", *self.SETTINGS, "model.layers=2", resume=self.checkpoints, expect=2
        )
        self.assertIn("model.layers = 4, this deck says 2", err)

    def test_a_plain_checkpoint_is_refused_for_its_codecs(self):
        self.train("plain", "swarm.stages=2", "train.schedule=constant", "train.steps=6")
        err = self.train(
            "plain", *self.SETTINGS, resume=self.path("plain", "RUN.checkpoints"), expect=2
        )
        self.assertIn("swarm.compress_activations", err)
        self.assertNotIn("swarm.cuts", err)

    def test_without_a_checkpoint_the_model_is_cut_anew(self):
        settings = (*self.SETTINGS, "swarm.cuts=[1]", "train.steps=99999")
        arguments, run = self.training("begun", *settings)
        process = self.start(*arguments)
        wait_for(lambda: os.path.exists(run + ".journal/term-1"), "the journal")
        process.kill()
        process.communicate()
        self.train("begun", *self.SETTINGS, resume=self.path("begun", "RUN.checkpoints"))
        self.assert_same_run(self.train("dealt", *self.SETTINGS), run)


if __name__ == "__main__":
    unittest.main()
