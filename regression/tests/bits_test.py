"""The promise for one peer: the loss trajectory is a function of deck and seed alone."""

import os
import shutil
import subprocess
import unittest

try:
    import h5py
except ImportError:
    h5py = None

from harness.program import BINARY, DEADLINE_S
from harness.test_case import SwarmpiTest


class Bits(SwarmpiTest):
    def setUp(self):
        super().setUp()
        self.reference = self.train("plain")

    def test_the_same_deck_twice(self):
        self.assert_same_run(self.reference, self.train("again"))

    def test_any_number_of_stages(self):
        for stages in (2, 4):
            with self.subTest(stages=stages):
                self.assert_same_run(
                    self.reference, self.train(f"stages{stages}", f"swarm.stages={stages}")
                )

    def test_every_recompute_with_every_number_of_stages(self):
        for recompute in ("auto", "always", "never"):
            for stages in (1, 2, 4):
                with self.subTest(recompute=recompute, stages=stages):
                    run = self.train(
                        f"{recompute}{stages}",
                        f"compute.recompute={recompute}",
                        f"swarm.stages={stages}",
                    )
                    self.assert_same_run(self.reference, run)

    def test_every_window(self):
        for window in (1, 3, 50):
            with self.subTest(window=window):
                run = self.train(f"window{window}", f"swarm.window={window}", "swarm.stages=2")
                self.assert_same_run(self.reference, run)

    @unittest.skipUnless(h5py, "there is no h5py")
    def test_all_held_out_sequences_are_read_whatever_fills_a_microbatch(self):
        losses = []
        for size in (1, 2, 7, 100):
            run = self.train(f"size{size}", f"train.microbatch_size={size}", "train.steps=3")
            with h5py.File(run) as file:
                losses.append(file["validation/loss"][0])  # of the initial weights
        for loss in losses[1:]:
            self.assertAlmostEqual(loss, losses[0], delta=1e-6)

    def test_another_seed_is_another_run(self):
        other = self.train("seed", "train.seed=8")
        status, out, _ = self.run_program("compare", self.reference, other)
        self.assertEqual(status, 1, out)
        self.assertIn("loss", out)


class Variants(SwarmpiTest):
    """Each variant of model and optimizer is as independent of stages as the plain one."""

    def check(self, *settings, stages=(1, 2)):
        runs = [self.train(f"s{n}", f"swarm.stages={n}", *settings) for n in stages]
        for other in runs[1:]:
            self.assert_same_run(runs[0], other)

    def test_bf16(self):
        self.check("model.precision=bf16")

    def test_delayed_updates(self):
        self.check("train.updates=delayed", stages=(1, 2, 4))

    def test_delayed_updates_with_and_without_checkpoints(self):
        settings = ("train.updates=delayed", "train.steps=30", "train.microbatches=1")
        plain = self.train("without", *settings)
        for stages in (1, 2):
            run = self.train(
                f"with{stages}", *settings, "output.checkpoint_every=2", f"swarm.stages={stages}"
            )
            self.assert_same_run(plain, run)
        for window in (1, 2, 50):
            run = self.train(f"window{window}", *settings, f"swarm.window={window}")
            self.assert_same_run(plain, run)

    def test_shared_layers(self):
        self.check("model.shared_groups=2")

    def test_lamb(self):
        self.check("train.optimizer=lamb")

    def test_reference_kernels(self):
        self.check("compute.kernels=reference", "train.steps=4")


class ReferenceAnywhere(SwarmpiTest):
    """kernels = "reference" gives the same bits whatever the processor offers."""

    SETTINGS = ("compute.kernels=reference", "train.steps=4")

    def test_without_newer_instructions(self):
        # glibc picks its own variants of functions by CPU; oneDNN picks its kernels.
        masked = dict(
            os.environ,
            GLIBC_TUNABLES="glibc.cpu.hwcaps=-AVX512F,-AVX2,-FMA,-AVX,-SSE4_2",
            ONEDNN_MAX_CPU_ISA="SSE41",
        )
        full = self.train("full", *self.SETTINGS)
        self.assert_same_run(full, self.train("masked", *self.SETTINGS, env=masked))

    def test_on_an_emulated_processor_without_avx(self):
        if shutil.which("qemu-x86_64") is None:
            self.skipTest("not installed: qemu-x86_64")
        full = self.train("here", *self.SETTINGS)
        os.makedirs(self.path("there"))
        run = self.path("there", "RUN.h5")
        arguments = [a for s in self.SETTINGS for a in ("--set", s)]
        emulated = subprocess.run(
            [
                "qemu-x86_64",
                "-cpu",
                "Nehalem",
                BINARY,
                "train",
                self.deck,
                "--out",
                run,
                *arguments,
            ],
            capture_output=True,
            timeout=DEADLINE_S,
            check=False,
        )
        self.assertEqual(emulated.returncode, 0, emulated.stderr)
        self.assert_same_run(full, run)


if __name__ == "__main__":
    unittest.main()
