"""postprocess/hf_import.py: a GPT-2 of Hugging Face becomes the same model, or is refused by name.

What was exported comes back byte for byte. Of a made-up GPT-2, and of an exported checkpoint,
transformers' logits are stored in hf_logits.json, for it is not installed here: what was imported
must have them. `hf_import_test.py LOGITS.json` makes them anew where torch and transformers are.
"""

import json
import math
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import h5py
    import numpy as np
except ImportError:
    h5py = None

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).resolve().parents[1]))
from harness.program import ROOT
from harness.swarm import MPIRUN
from harness.test_case import SwarmpiTest

SCRIPTS = ROOT / "postprocess"
OLD_CHECKPOINTS = ROOT / "regression" / "old_runs" / "commit_7987a0e" / "checkpoints"
STORED = Path(__file__).with_name("hf_logits.json")
LARGEST_ERROR = 1e-5  # of logits, beside the largest: transformers computes in fp32
if h5py:
    sys.path.append(str(SCRIPTS))
    import checkpoint
    import gpt2
    from harness import gpt2_in_numpy
CONFIG = {
    "model_type": "gpt2",
    "vocab_size": 37,
    "n_positions": 12,
    "n_embd": 8,
    "n_layer": 2,
    "n_head": 2,
    "n_inner": None,
    "activation_function": "gelu_new",
    "layer_norm_epsilon": 1e-5,
    "tie_word_embeddings": True,
}
TOKENS = [3, 36, 0, 17, 17, 5, 21, 8, 30, 1, 12, 29]
LAYER = {  # ours, theirs, shape there
    "norm1.weight": ("ln_1.weight", (8,)),
    "norm1.bias": ("ln_1.bias", (8,)),
    "qkv.weight": ("attn.c_attn.weight", (8, 24)),
    "qkv.bias": ("attn.c_attn.bias", (24,)),
    "projection.weight": ("attn.c_proj.weight", (8, 8)),
    "projection.bias": ("attn.c_proj.bias", (8,)),
    "norm2.weight": ("ln_2.weight", (8,)),
    "norm2.bias": ("ln_2.bias", (8,)),
    "up.weight": ("mlp.c_fc.weight", (8, 32)),
    "up.bias": ("mlp.c_fc.bias", (32,)),
    "down.weight": ("mlp.c_proj.weight", (32, 8)),
    "down.bias": ("mlp.c_proj.bias", (8,)),
}
OUTER = {
    "embedding.tokens": ("wte.weight", (37, 8)),
    "embedding.positions": ("wpe.weight", (12, 8)),
    "final_norm.weight": ("ln_f.weight", (8,)),
    "final_norm.bias": ("ln_f.bias", (8,)),
}
TYPES = {"F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8"}


def made_up_tensors():
    """GPT-2's tensors by the names that its own file has; the same numbers everywhere."""
    shapes = dict(OUTER.values())
    for layer in range(CONFIG["n_layer"]):
        shapes |= {f"h.{layer}.{name}": shape for name, shape in LAYER.values()}
    tensors, place = {}, 0
    for name, shape in shapes.items():
        count = math.prod(shape)
        steps = (np.arange(place, place + count) * 7919 % 1009) / 1009 - 0.5
        around = 1.0 if name.endswith("weight") and ".ln_" in "." + name else 0.0
        tensors[name] = (around + steps).astype(np.float32).reshape(shape)
        place += count
    return tensors


def save(folder, config, tensors, kind="F32"):
    """Writes both files; `tensors` are arrays whose bytes are elements of type `kind`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, values in tensors.items():
        content = np.ascontiguousarray(values.astype(TYPES[kind], copy=False)).tobytes()
        ends = [len(data), len(data) + len(content)]
        header[name] = {"dtype": kind, "shape": list(values.shape), "data_offsets": ends}
        data += content
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


def run(script, *arguments):
    command = [sys.executable, "-W", "error", SCRIPTS / script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def read_weights(path):
    """The attributes of a file of weights, those of its group, and its tensors."""
    with h5py.File(path, "r") as file:
        group = file["weights"]
        return dict(file.attrs), dict(group.attrs), {name: group[name][()] for name in group}


def of_gpt2(sizes, weights):
    """What was imported by GPT-2's names again, in double precision, beside a config."""
    tensors = {"lm_head.weight": weights["head.weight"]}
    for ours, (theirs, _) in OUTER.items():
        tensors["transformer." + theirs] = weights[ours]
    for layer in range(sizes["layers"]):
        for ours, (theirs, _) in LAYER.items():
            tensors[f"transformer.h.{layer}.{theirs}"] = weights[f"layer.{layer}.{ours}"].T
    for name, values in tensors.items():
        is_vector = name.endswith(".bias") or ".ln_" in name
        tensors[name] = values.astype(np.float64).reshape(-1) if is_vector else values.astype(float)
    config = CONFIG | {"n_layer": sizes["layers"], "n_head": sizes["heads"]}
    return config | {"tie_word_embeddings": False}, tensors


def logits(sizes, weights, tokens):
    return gpt2_in_numpy.gpt2_logits(*of_gpt2(sizes, weights), np.array(tokens))


@unittest.skipUnless(h5py, "there is no h5py")
class Import(unittest.TestCase):
    """In a folder of its own, with a made-up GPT-2 in FOLDER/gpt2."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="swarmpi-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.tensors = made_up_tensors()
        self.gpt2, self.weights = self.folder / "gpt2", self.folder / "gpt2.h5"
        save(self.gpt2, CONFIG, self.tensors)

    def imported(self, *options, folder=None):
        """What is printed, and what is in the file."""
        self.weights.unlink(missing_ok=True)
        done = run("hf_import.py", folder or self.gpt2, self.weights, *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout, *read_weights(self.weights)

    def refused(self, *options):
        """The one line of a refusal, after which nothing was written."""
        done = run("hf_import.py", self.gpt2, self.weights, *options)
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), done.stderr)
        self.assertEqual(list(self.folder.iterdir()), [self.gpt2])
        return done.stderr

    def exported(self, path):
        done = run("hf_export.py", path, self.folder / "exported")
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.folder / "exported"

    def assert_logits(self, name, sizes, weights):
        stored = json.loads(STORED.read_text(encoding="utf-8"))[name]
        error = np.abs(logits(sizes, weights, stored["tokens"]) - stored["logits"]).max()
        self.assertLess(error / np.abs(stored["logits"]).max(), LARGEST_ERROR)

    def test_what_was_exported_comes_back_byte_for_byte(self):
        stored = checkpoint.Checkpoint(OLD_CHECKPOINTS)
        _, _, sizes, weights = self.imported(folder=self.exported(OLD_CHECKPOINTS))
        model = gpt2.Model(stored.deck["model"])
        self.assertEqual(set(weights), set(stored.pieces))
        for name, shape in model.shapes().items():
            self.assertEqual((weights[name].shape, weights[name].dtype), (shape, np.float32))
            self.assertEqual(weights[name].tobytes(), stored.read(name, shape).tobytes(), name)
        self.assertEqual((sizes["layers"], sizes["vocab"]), (model.layers, model.vocab))

    def test_the_logits_are_those_of_transformers(self):
        _, _, sizes, weights = self.imported()
        self.assert_logits("made_up", sizes, weights)
        _, _, sizes, weights = self.imported(folder=self.exported(OLD_CHECKPOINTS))
        self.assert_logits("exported", sizes, weights)

    def test_the_file_says_what_it_is(self):
        printed, attributes, sizes, weights = self.imported()
        self.assertEqual(attributes["format"], "swarmpi weights 1")
        self.assertRegex(attributes["source"], "gpt2 of Hugging Face, SHA-256 [0-9a-f]{64}")
        expected = {"layers": 2, "width": 8, "heads": 2, "ffn": 32, "context": 12, "vocab": 37}
        self.assertEqual({key: int(size) for key, size in sizes.items()}, expected)
        self.assertTrue(printed.startswith("[model]\nlayers = 2\nwidth = 8\nheads = 2\ncontext"))
        self.assertIn(f'initial = "{self.weights}"\n', printed)
        self.assertIn("# SwarMPI trains without dropout: embd_pdrop", printed)
        self.assertNotIn("ffn", printed)
        self.assertEqual(weights["head.weight"].tobytes(), self.tensors["wte.weight"].tobytes())
        first = self.weights.read_bytes()
        self.imported()
        self.assertEqual(self.weights.read_bytes(), first, "its hash is a part of decks")

    def test_names_with_and_without_their_first_word(self):
        *_, short = self.imported()
        whole = {f"transformer.{name}": values for name, values in self.tensors.items()}
        head = self.tensors["wte.weight"][::-1]
        save(self.gpt2, CONFIG | {"tie_word_embeddings": False}, whole | {"lm_head.weight": head})
        printed, *_, untied = self.imported()
        self.assertEqual(untied.pop("head.weight").tobytes(), head.tobytes())
        self.assertNotIn("copy of the table", printed)
        for name, values in untied.items():
            self.assertEqual(values.tobytes(), short[name].tobytes(), name)

    def test_masks_of_old_files_are_passed_over(self):
        *_, plain = self.imported()
        masks = {f"h.{i}.attn.{name}": np.ones((1, 1)) for i in (0, 1) for name in ("bias",)}
        save(self.gpt2, CONFIG, self.tensors | masks)
        *_, masked = self.imported()
        self.assertEqual(set(plain), set(masked))

    def test_16_bits_are_widened_exactly(self):
        halves = {name: values.astype("<f2") for name, values in self.tensors.items()}
        save(self.gpt2, CONFIG, halves, "F16")
        *_, weights = self.imported()
        self.assertTrue(np.array_equal(weights["embedding.tokens"], halves["wte.weight"]))
        bits = np.arange(37 * 8, dtype="<u2").reshape(37, 8) * 109  # subnormal ones, and up to 2e-4
        upper = {name: values.view("<u4") >> 16 for name, values in self.tensors.items()}
        save(self.gpt2, CONFIG, upper | {"wte.weight": bits}, "BF16")
        *_, weights = self.imported()
        widened = [struct.unpack("<f", struct.pack("<HH", 0, x))[0] for x in bits.reshape(-1)]
        self.assertEqual(weights["embedding.tokens"].reshape(-1).tolist(), widened)

    def test_a_padded_vocabulary_takes_no_probability(self):
        """Of logits far below 0, as GPT-2 has them; padding with logits of 0 would be all."""
        self.tensors["ln_f.weight"] *= 0.01
        self.tensors["wte.weight"] -= 60 * self.tensors["ln_f.bias"]
        save(self.gpt2, CONFIG, self.tensors)
        _, _, sizes, plain = self.imported()
        self.assertLess(logits(sizes, plain, TOKENS).max(), -10)
        printed, _, larger, padded = self.imported("--pad-vocab", "64")
        self.assertIn("vocab = 64\n", printed)
        self.assertIn("27 more", printed)
        self.assertEqual(larger["vocab"], 64)
        self.assertFalse(padded["embedding.tokens"][37:].any())
        for name in ("embedding.tokens", "head.weight"):
            self.assertEqual(padded[name][:37].tobytes(), plain[name].tobytes())
        tokens = np.array(TOKENS)
        losses = [gpt2_in_numpy.loss(*of_gpt2(sizes, of), tokens) for of in (plain, padded)]
        self.assertLess(losses[1] - losses[0], math.log(64 / 37) + 1e-6)
        self.weights.unlink()
        self.assertIn("a vocabulary of 37 already", self.refused("--pad-vocab", "36"))

    def test_another_model_is_refused_by_name(self):
        for key, value, why in (
            ("model_type", "llama", 'model_type is "llama"'),
            ("model_type", None, "model_type is"),
            ("activation_function", "gelu", 'activation_function is "gelu"'),
            ("layer_norm_epsilon", 1e-6, "layer_norm_epsilon is 1e-06"),
            ("scale_attn_weights", False, "scale_attn_weights is false"),
            ("scale_attn_by_inverse_layer_idx", True, "scale_attn_by_inverse_layer_idx is true"),
            ("add_cross_attention", True, "add_cross_attention is true"),
            ("quantization_config", {"bits": 4}, "quantization_config is"),
            ("n_head", 3, "n_head does not divide n_embd"),
            ("n_layer", "2", 'n_layer is "2"'),
            ("n_layer", 3, "has no tensor transformer.h.2"),
            ("n_layer", 1, "has a tensor transformer.h.1"),
            ("n_inner", 16, "c_fc.weight has shape [8, 32], but by config.json it is [8, 16]"),
            ("tie_word_embeddings", False, "has no tensor lm_head.weight, though config.json"),
        ):
            with self.subTest(key=key, value=value):
                save(self.gpt2, CONFIG | {key: value}, self.tensors)
                self.assertIn(why, self.refused())

    def test_other_tensors_are_refused_by_name(self):
        table = self.tensors["wte.weight"]
        infinite = self.tensors | {"ln_f.bias": np.full(8, np.inf, np.float32)}
        for tensors, why in (
            (self.tensors | {"score.weight": table}, "has a tensor transformer.score.weight"),
            (self.tensors | {"lm_head.weight": table + 1}, "lm_head.weight is another one"),
            (infinite, "ln_f.bias has elements that are not finite"),
        ):
            save(self.gpt2, CONFIG, tensors)
            self.assertIn(why, self.refused())
        save(self.gpt2, CONFIG, self.tensors, "I64")
        self.assertIn("of type I64, not F32, F16, BF16", self.refused())

    def test_files_that_are_no_such_files_are_refused(self):
        weights, config = self.gpt2 / "model.safetensors", self.gpt2 / "config.json"
        whole = weights.read_bytes()
        for content, why in (
            (whole[:-1], "does not hold what its header says"),
            (whole[:100], "is no file of safetensors, or is cut off"),
            (b"", "is no file of safetensors"),
            (b"\x04" + bytes(7) + b"[{]}", "its header is no JSON"),
            (b"\x02" + bytes(7) + b"[]", "its header is no table"),
            (b"\x08" + bytes(7) + b'{"a":{}}', "does not describe a"),
        ):
            weights.write_bytes(content)
            self.assertIn(why, self.refused())
        weights.unlink()
        self.assertIn("has no model.safetensors", self.refused())
        for content in ("{", "[]"):
            config.write_text(content, encoding="utf-8")
            self.assertIn("config.json is no", self.refused())
        config.unlink()
        self.assertIn("has no config.json", self.refused())

    def test_what_is_there_already_stays(self):
        self.weights.write_text("mine", encoding="ascii")
        done = run("hf_import.py", self.gpt2, self.weights)
        self.assertEqual(done.returncode, 2)
        self.assertIn("is there already", done.stderr)
        self.assertEqual(self.weights.read_text(encoding="ascii"), "mine")
        done = run("hf_import.py", self.gpt2, self.folder / "nowhere" / "gpt2.h5")
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), done.stderr)


class Train(SwarmpiTest):
    """The program begins with what was imported."""

    # So small a step changes no weight: the first checkpoint has the initial ones.
    STILL = ("train.steps=1", "train.warmup_steps=0", "train.lr=1e-30", "train.weight_decay=0")

    def setUp(self):
        super().setUp()
        config = CONFIG | {"vocab_size": 128, "n_positions": 32}
        shapes = {"wte.weight": (128, 8), "wpe.weight": (32, 8)}
        rng = np.random.default_rng(5)
        larger = {name: rng.normal(0, 0.2, shape) for name, shape in shapes.items()}
        save(Path(self.path("gpt2")), config, made_up_tensors() | larger)
        self.weights = Path(self.path("gpt2.h5"))
        done = run("hf_import.py", self.path("gpt2"), self.weights)
        self.assertEqual(done.returncode, 0, done.stderr)
        sizes = ("layers=2", "width=8", "heads=2")
        self.settings = [f"model.{size}" for size in sizes] + [f"model.initial={self.weights}"]

    def test_the_first_weights_are_those_of_the_file(self):
        self.train("still", *self.settings, *self.STILL, "swarm.stages=2")
        stored = checkpoint.Checkpoint(Path(self.path("still", "RUN.checkpoints")))
        for name, values in read_weights(self.weights)[2].items():
            self.assertEqual(stored.read(name, values.shape).tobytes(), values.tobytes(), name)
        self.assertRegex(stored.deck["model"]["initial_hash"], "^[0-9a-f]{16}$")

    @unittest.skipUnless(MPIRUN, "there is no mpirun")
    def test_who_learns_or_goes_back_reads_them_too(self):
        alone = self.train("alone", *self.settings)
        swarm = self.train(
            "swarm",
            *self.settings,
            "swarm.stages=2",
            "swarm.spares=1",
            "faults.mode=emulated",
            "faults.at=[{step=1, peer=1, event='kill', point='backward'}]",
            ranks=4,
        )
        self.assert_same_run(alone, swarm)
        pipelines = self.train(
            "pipelines",
            *self.settings,
            "swarm.stages=2",
            "swarm.method=gpipe",
            "faults.mode=emulated",
            "faults.at=[{step=1, peer=1, event='kill', point='backward'}]",
            ranks=5,
        )
        self.assert_same_run(alone, pipelines)

    def test_a_run_with_coded_boundaries_is_resumed(self):
        """Its cuts are those of the checkpoint, whose deck must be this one."""
        coded = [*self.settings, "swarm.stages=2", "swarm.compress_activations=fp16"]
        coded.append("train.schedule_steps=12")
        whole = self.train("whole", *coded)
        self.train("half", *coded, "train.steps=6")
        half = self.train("half", *coded, resume=self.path("half", "RUN.checkpoints"))
        self.assert_same_run(whole, half)

    def test_a_hash_alone_is_no_file(self):
        hashed = [s for s in self.settings if not s.startswith("model.initial")]
        err = self.train("alone", *hashed, "model.initial_hash=0123456789abcdef", expect=2)
        self.assertIn("name it with model.initial", err)

    def test_other_weights_are_refused(self):
        err = self.train("other", *self.settings, "model.initial_hash=0123456789abcdef", expect=2)
        self.assertIn("model.initial_hash", err)
        err = self.train("deeper", *self.settings, "model.layers=3", expect=2)
        self.assertIn("has no tensor layer.2", err)
        with h5py.File(self.weights, "r+") as file:
            file["weights/head.weight"][3, 3] += 1
        err = self.train("damaged", *self.settings, expect=2)
        self.assertIn("tensor head.weight has hash", err)


def transformers_logits(folder, tokens):
    import torch
    from transformers import GPT2LMHeadModel

    with torch.no_grad():
        logits_of = GPT2LMHeadModel.from_pretrained(folder).eval()(torch.tensor([tokens])).logits
    rows = [[float(f"{logit:.7g}") for logit in row] for row in logits_of[0].tolist()]
    return {"tokens": tokens, "logits": rows}


def store(path):
    """What transformers finds for both models of test_the_logits_are_those_of_transformers."""
    with tempfile.TemporaryDirectory() as name:
        folders = {"made_up": Path(name, "gpt2"), "exported": Path(name, "exported")}
        save(folders["made_up"], CONFIG, made_up_tensors())
        run("hf_export.py", OLD_CHECKPOINTS, folders["exported"]).check_returncode()
        tokens = {"made_up": TOKENS, "exported": [7, 122, 0, 64]}
        found = {model: transformers_logits(folders[model], tokens[model]) for model in folders}
    lines = json.dumps(found).replace(" ", "").replace("[[", "[\n[").replace("],", "],\n")
    path.write_text(re.sub(r"(.{80,90},)", r"\1\n", lines) + "\n", encoding="ascii")


if __name__ == "__main__":
    store(Path(sys.argv[1]))
