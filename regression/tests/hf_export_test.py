"""postprocess/hf_export.py: what it writes is the model of the checkpoint, or it refuses by name.

A GPT-2 of a few lines, in double precision and from the exported files alone, must find the
held-out loss that the program has stored. Whatever it reads otherwise than the program computes
shows in that loss: that is tested as well.
"""

import contextlib
import fcntl
import json
import os
import random
import re
import shutil
import subprocess
import sys
import types
import unittest
from pathlib import Path

try:
    import h5py
    import numpy as np
except ImportError:
    h5py = None

from harness.program import ROOT
from harness.swarm import MPIRUN
from harness.test_case import SwarmpiTest

SCRIPT = ROOT / "postprocess" / "hf_export.py"
if h5py:
    sys.path.append(str(SCRIPT.parent))
    import checkpoint
    import hf_export
    import trouble
    from harness import gpt2_in_numpy
CONTEXT = 32
LARGEST_ERROR = 1e-6  # of the loss, relative; fp32 alone makes about 1e-7 of it
CHECKPOINT = "step-25"
SETTINGS = (
    "model.layers=4",
    "model.width=32",
    "model.heads=4",
    "model.ffn=96",
    "swarm.stages=2",
    "train.steps=25",  # more of them, and the loss is too near to zero
    "train.lr=3e-2",
    "output.validate_every=25",
    "compute.kernels=reference",
)


def read_wrongly(config, tensors):
    """(what is wrong, config, tensors) with one fault each."""
    yield "another epsilon", config | {"layer_norm_epsilon": 1e-6}, tensors
    yield "the exact GELU", config | {"activation_function": "gelu"}, tensors
    yield "a tied head", config | {"tie_word_embeddings": True}, tensors
    yield "fewer heads", config | {"n_head": config["n_head"] // 2}, tensors
    square = [name for name in tensors if name.endswith("attn.c_proj.weight")]
    turned = {name: tensors[name].T for name in square}
    yield "a matrix that is not transposed", config, tensors | turned
    order = np.split(np.arange(3 * config["n_embd"]), 3)
    for places in ((1, 0, 2), (0, 2, 1)):
        moved = np.concatenate([order[place] for place in places])
        names = [name for name in tensors if ".c_attn." in name]
        yield f"q, k, v as {places}", config, tensors | {n: tensors[n][..., moved] for n in names}
    for name in tensors:
        if name.endswith(".bias") or "ln_" in name:
            neutral = np.zeros_like(tensors[name]) + (not name.endswith(".bias"))
            yield f"no {name}", config, tensors | {name: neutral}


def change(path, how):
    path.write_bytes(how(path.read_bytes()))


@unittest.skipUnless(h5py, "there is no h5py")
class Export(SwarmpiTest):
    """All sequences of the data are the same one, so it is known which are held out."""

    def setUp(self):
        super().setUp()
        rng = random.Random(3)
        period = [rng.randrange(128) for _ in range(CONTEXT)]
        self.tokens = np.array([*period, period[0]])
        Path(self.data).write_bytes(bytes(period) * 300)

    def export(self, folder, into, *options, expect=0):
        command = [sys.executable, "-W", "error", SCRIPT, folder, self.path(into), *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done.stdout if expect == 0 else done.stderr

    def trained(self, name, *settings, **options):
        """The checkpoint of a run, and the held-out loss of its weights."""
        run = self.train(name, *SETTINGS, *settings, **options)
        with h5py.File(run, "r") as file:
            return self.path(name, "RUN.checkpoints"), file["validation/loss"][-1]

    def exported(self, folder, into, *options):
        self.export(folder, into, *options)
        made = Path(self.path(into))
        names = sorted(path.name for path in made.iterdir())
        self.assertEqual(names, ["config.json", "model.safetensors"])
        config = json.loads((made / "config.json").read_text(encoding="utf-8"))
        return config, gpt2_in_numpy.read_safetensors(made / "model.safetensors")

    def refused(self, folder, *options):
        """The one line of a refusal, after which nothing is there."""
        refusal = self.export(folder, "refused", *options, expect=2)
        self.assertEqual(len(refusal.splitlines()), 1, refusal)
        self.assertFalse(os.path.exists(self.path("refused")))
        return refusal

    def error(self, config, tensors, of_the_run):
        return abs(gpt2_in_numpy.loss(config, tensors, self.tokens) / of_the_run - 1)

    def test_the_held_out_loss_is_that_of_the_run(self):
        for name, settings in (
            ("plain", ()),
            ("shared", ("model.shared_groups=2",)),
            ("delayed", ("train.updates=delayed",)),
        ):
            with self.subTest(name):
                folder, of_the_run = self.trained(name, *settings)
                config, tensors = self.exported(folder, name + "-hf")
                self.assertEqual(len(tensors), 5 + 12 * config["n_layer"])
                self.assertLess(self.error(config, tensors, of_the_run), LARGEST_ERROR)

    def test_reads_files_when_they_cannot_be_locked(self):
        folder, _ = self.trained("plain")
        with contextlib.ExitStack() as files:
            for path in Path(self.path("plain")).rglob("*"):
                if path.is_file():
                    fcntl.flock(files.enter_context(open(path, "rb")), fcntl.LOCK_EX)
            self.exported(self.path("plain", "RUN.h5"), "of-run")
            self.exported(folder, "of-folder")

    def test_config_has_the_context_under_its_old_name_too(self):
        config, _ = self.exported(self.trained("plain")[0], "hf")
        self.assertEqual((config["n_ctx"], config["n_positions"]), (CONTEXT, CONTEXT))

    def test_whatever_is_read_wrongly_shows(self):
        folder, of_the_run = self.trained("plain")
        for what, config, tensors in read_wrongly(*self.exported(folder, "hf")):
            with self.subTest(what):
                self.assertGreater(self.error(config, tensors, of_the_run), 2 * LARGEST_ERROR)

    @unittest.skipUnless(MPIRUN, "there is no mpirun")
    def test_pieces_of_several_owners_are_put_together(self):
        larger = ("model.width=64", "model.vocab=256", "swarm.stages=1")
        alone, _ = self.trained("alone", *larger)
        owned, _ = self.trained("owned", *larger, "swarm.method=zero_offload", ranks=3)
        for folder in (alone, owned):
            self.export(folder, folder + "-hf")
        files = [Path(folder + "-hf", "model.safetensors") for folder in (alone, owned)]
        self.assertEqual(files[0].read_bytes(), files[1].read_bytes())
        manifest = Path(owned, CHECKPOINT, "manifest")
        parts = re.findall(r"stage .*\n", manifest.read_text(encoding="ascii"))
        self.assertEqual(len(parts), 3)
        change(manifest, lambda old: old.replace(parts[1].encode(), b""))
        self.assertIn("no file that its manifest names has tensor", self.refused(owned))

    @unittest.skipUnless(MPIRUN, "there is no mpirun")
    def test_each_element_must_be_there_once(self):
        larger = ("model.width=64", "swarm.stages=1", "swarm.method=zero_offload")
        self.trained("owned", *larger, ranks=3)
        opened = checkpoint.Checkpoint(Path(self.path("owned", "RUN.checkpoints")))
        cut = [name for name, pieces in opened.pieces.items() if len(pieces) > 1]
        self.assertTrue(cut)
        for name in cut:
            pieces = sorted(opened.pieces[name])
            shape = (1, sum(count for _, count, _ in pieces))
            self.assertEqual(len(opened.read(name, shape)), shape[1])
            for wrong in (pieces[1:], pieces[:-1], pieces + pieces[:1], pieces[:1] * 2):
                opened.pieces[name] = wrong
                with self.assertRaisesRegex(trouble.Trouble, f"{name} once"):
                    opened.read(name, shape)

    def test_the_newest_complete_one_is_taken(self):
        checkpoints, _ = self.trained("run", "output.checkpoint_every=20", "output.keep=2")
        os.mkdir(os.path.join(checkpoints, "step-99"))
        self.assertIn(f"{CHECKPOINT}: the weights", self.export(checkpoints, "newest"))
        one = os.path.join(checkpoints, "step-20")
        self.assertIn("after step 20\n", self.export(one, "one"))
        self.assertIn("is no checkpoint", self.export(checkpoints + "/step-99", "none", expect=2))

    def test_a_run_stands_for_its_checkpoints(self):
        checkpoints, _ = self.trained("run")
        for named in (self.path("run"), self.path("run", "RUN.h5")):
            said = self.export(named, Path(named).name + "-hf")
            self.assertIn(f"{checkpoints}/{CHECKPOINT}: the weights", said)

    def test_a_run_whose_checkpoints_are_elsewhere(self):
        elsewhere = self.path("elsewhere")
        self.train("run", *SETTINGS, f"output.checkpoint={elsewhere}")
        run = self.path("run", "RUN.h5")
        self.assertIn(f"{elsewhere}/{CHECKPOINT}", self.export(run, "by the deck"))
        os.rename(elsewhere, self.path("run", "checkpoints"))
        self.assertIn(f"/run/checkpoints/{CHECKPOINT}", self.export(run, "beside"))
        os.rename(self.path("run", "checkpoints"), self.path("gone"))
        self.assertIn(f"no checkpoints in {run[:-3]}.checkpoints, nor", self.refused(run))

    def test_a_run_file_of_a_later_version_is_refused(self):
        self.trained("run")
        run = self.path("run", "RUN.h5")
        with h5py.File(run, "r+") as file:
            file.attrs["format"] = "swarmpi run 9"
        self.assertIn("RUN.h5 (`swarmpi run 9`) is in version 9", self.refused(run))

    def test_one_of_several_runs_must_be_named(self):
        checkpoints, _ = self.trained("run")
        other = self.path("run", "OTHER.checkpoints")
        shutil.copytree(checkpoints, other)
        refusal = self.refused(self.path("run"))
        self.assertIn(f"several runs: name one of {other}, {checkpoints}", refusal)

    def test_checkpoints_of_earlier_commits_are_read(self):
        for old in (ROOT / "regression" / "old_runs").glob("commit_*/checkpoints"):
            config, tensors = self.exported(old, old.parent.name)
            self.assertEqual(tensors["lm_head.weight"].shape, (123, 4), config)

    def test_rounding_of_the_run_is_noted(self):
        folder, _ = self.trained("coded", "swarm.compress_activations=uniform8")
        self.assertRegex(self.export(folder, "hf"), r'note: .*activations = "uniform8" is left')

    def test_another_model_is_refused(self):
        folder, _ = self.trained("narrow", "swarm.boundary=bottleneck")
        refusal = self.refused(folder)
        self.assertIn('swarm.boundary = "bottleneck"', refusal)
        self.assertIn("only gpt2", self.refused(folder, "--model-type", "llama"))

    def test_a_key_of_a_later_version_is_refused(self):
        deck = {"model": {"layers": 2, "activation": "swiglu"}}
        of_later = types.SimpleNamespace(folder="step-1", deck=deck, pieces={})
        with self.assertRaisesRegex(trouble.Trouble, "model.activation, which this script does"):
            hf_export.model_of(of_later)

    def test_what_is_there_already_is_refused(self):
        folder, _ = self.trained("run")
        self.export(folder, "hf")
        self.assertIn("is there already", self.export(folder, "hf", expect=2))
        Path(self.path("file")).touch()
        self.assertIn("file", self.export(folder, "file", expect=2))

    def test_what_is_no_whole_checkpoint_is_refused(self):
        self.trained("run")
        whole = Path(self.path("run", "RUN.checkpoints", CHECKPOINT))
        damaged = Path(self.path("copy"))
        self.assertIn("is neither a folder nor a file", self.refused(damaged))
        self.assertIn("is no checkpoint", self.refused(self.folder))
        manifest = damaged / "manifest"
        stage = damaged / next(whole.glob("stage-1.*")).name
        with h5py.File(whole / stage.name, "r") as file:
            place = file["tensors/head.weight/weights_0"].id.get_offset()

        for damage, why in (
            (lambda: manifest.rename(damaged / "manifest.damaged"), "set aside as damaged"),
            (lambda: change(manifest, lambda old: b"a file\n"), "is not the manifest"),
            (lambda: change(manifest, lambda old: old[: old.index(b"end ")]), "is cut off"),
            (
                lambda: change(manifest, lambda old: old.replace(b"checkpoint 3", b"checkpoint 9")),
                f"{manifest} is in version 9 of its format",
            ),
            (stage.unlink, f"{stage} is missing"),
            (lambda: change(stage, lambda old: old[:-1]), f"{stage} is damaged"),
            (lambda: change(stage, lambda old: bytes(len(old))), f"{stage} is damaged"),
            (
                lambda: change(stage, lambda old: old[:place] + b"hello" + old[place + 5 :]),
                "do not have the state hash",
            ),
        ):
            shutil.copytree(whole, damaged)
            damage()
            self.assertIn(why, self.refused(damaged))
            shutil.rmtree(damaged)


if __name__ == "__main__":
    unittest.main()
