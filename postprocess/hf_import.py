#!/usr/bin/env python3
"""Makes a GPT-2 of Hugging Face the weights that a run begins with: the file of `model.initial`.

usage: hf_import.py FOLDER WEIGHTS.h5 [--pad-vocab N]

FOLDER has config.json and model.safetensors. WEIGHTS.h5 must not exist yet. Printed is the section
[model] of a deck that goes with it. Needs h5py and numpy alone. Exit status 0, or 2 with one line
that says what is wrong: a model that SwarMPI would not compute as GPT-2 does is refused by name.
"""

import python_version  # noqa: F401  (before what needs it)

import argparse
import hashlib
import json
import re
import sys
from pathlib import Path

import numpy as np

from checkpoint import hash_sum
from gpt2 import EPSILON, OUTER, Model
from hdf5 import h5py
from safetensors_file import tensors_of
from trouble import Trouble, exit_status
from whole_file import whole_file

FORMAT = "swarmpi weights 1"
TABLE, HEAD = OUTER["embedding.tokens"], OUTER["head.weight"]
# Masks of attention, which old files have beside the weights.
BUFFERS = re.compile(r"transformer\.h\.\d+\.attn\.(bias|masked_bias)")
# Keys of config.json that change what a model computes: what they are where they are not given, and
# the values with which it computes as SwarMPI does.
SAME = {
    "activation_function": ("gelu_new", ["gelu_new", "gelu_pytorch_tanh"]),
    "layer_norm_epsilon": (EPSILON, [EPSILON]),
    "scale_attn_weights": (True, [True]),
    "scale_attn_by_inverse_layer_idx": (False, [False]),
    "add_cross_attention": (False, [False]),
    "quantization_config": (None, [None]),
}
SIZES = {  # of ours GPT-2's, and what they are where they are not given
    "layers": ("n_layer", 12),
    "width": ("n_embd", 768),
    "heads": ("n_head", 12),
    "context": ("n_positions", 1024),
    "vocab": ("vocab_size", 50257),
}
DROPOUT = ("embd_pdrop", "attn_pdrop", "resid_pdrop")  # 0.1 where they are not given


def read_config(folder):
    path = folder / "config.json"
    if not path.is_file():
        raise Trouble(
            f"{folder} has no config.json: name a folder that `save_pretrained` has written, or "
            "a downloaded one"
        )
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise Trouble(f"{path} is no JSON: {error}") from error
    if not isinstance(config, dict):
        raise Trouble(f"{path} is no table of keys")
    return config


def check_same(path, config):
    """Whether SwarMPI computes what this model does."""
    kind = config.get("model_type")
    if kind != "gpt2":
        raise Trouble(
            f'{path}: model_type is "{kind}", but only gpt2 can be read: the layers of SwarMPI are '
            "those of GPT-2 (learned positions, LayerNorm, GELU)"
        )
    for key, (default, known) in SAME.items():
        value = config.get(key, default)
        if value not in known:
            right = " or ".join(map(json.dumps, known))
            raise Trouble(
                f"{path}: {key} is {json.dumps(value)}, but SwarMPI computes with {right}: this "
                "model would be another one"
            )


def model_of(path, config):
    sizes = {ours: config.get(theirs, default) for ours, (theirs, default) in SIZES.items()}
    sizes["ffn"] = config.get("n_inner") or 0
    for ours, size in sizes.items():
        if type(size) is not int or size < (ours != "ffn"):
            name = SIZES.get(ours, ("n_inner",))[0]
            raise Trouble(f"{path}: {name} is {json.dumps(size)}, not a number above 0")
    if sizes["width"] % sizes["heads"]:
        raise Trouble(f"{path}: n_head does not divide n_embd")
    return Model(sizes)


def read_tensors(folder):
    """The tensors by their full names; some files leave `transformer.` out."""
    path = folder / "model.safetensors"
    if not path.is_file():
        raise Trouble(
            f"{folder} has no model.safetensors: one file is read, no several and no pickles; "
            "`model.save_pretrained(FOLDER)` of transformers writes it"
        )
    tensors = {}
    for name, tensor in tensors_of(path).items():
        full = name if name.startswith("transformer.") or name == HEAD else "transformer." + name
        if not BUFFERS.fullmatch(full):
            tensors[full] = tensor
    return path, tensors


def check_tensors(path, tensors, model, is_tied):
    """Whether the file has all tensors of the model in their shapes, and no others."""
    shapes = {name: shape for name, shape, *_ in model.in_gpt2()}
    if is_tied and HEAD not in tensors:
        shapes.pop(HEAD)
    if missing := set(shapes) - set(tensors):
        why = ", though config.json says that the head has its own weights"
        first = min(missing)
        raise Trouble(f"{path} has no tensor {first}{why if first == HEAD else ''}")
    if others := set(tensors) - set(shapes):
        raise Trouble(f"{path} has a tensor {min(others)}, for which SwarMPI's model has no place")
    for name, shape in shapes.items():
        if tensors[name].shape != tuple(shape):
            raise Trouble(
                f"{path}: {name} has shape {list(tensors[name].shape)}, but by config.json it is "
                f"{list(shape)}"
            )
    if is_tied and HEAD in tensors and np.any(tensors[HEAD].read() != tensors[TABLE].read()):
        raise Trouble(
            f"{path}: config.json ties the head to the table of tokens, but {HEAD} is another one: "
            "set tie_word_embeddings to the one that is meant"
        )


class Weights:
    """The tensors of a folder as SwarMPI has them."""

    def __init__(self, folder, padded_vocab):
        self.config, path = read_config(folder), folder / "config.json"
        check_same(path, self.config)
        self.model = model_of(path, self.config)
        self.is_tied = self.config.get("tie_word_embeddings", True)
        self.path, self.tensors = read_tensors(folder)
        check_tensors(self.path, self.tensors, self.model, self.is_tied)
        self.padding = padded_vocab - self.model.vocab if padded_vocab else 0
        if self.padding < 0:
            raise Trouble(
                f"--pad-vocab {padded_vocab}: {path} has a vocabulary of {self.model.vocab} already"
            )
        self.vocab = self.model.vocab + self.padding

    def __iter__(self):
        """(name, array of its shape) of each tensor, in the order of the model."""
        shapes, theirs = self.model.shapes(), {}
        for name, _, ours, transposed in self.model.in_gpt2():
            theirs[ours] = (TABLE if self.is_tied and name == HEAD else name, transposed)
        for ours, shape in shapes.items():
            name, transposed = theirs[ours]
            values = self.tensors[name].read()
            if not np.isfinite(values).all():
                raise Trouble(f"{self.path}: {name} has elements that are not finite")
            values = (values.T if transposed else values).reshape(shape)
            yield ours, self.padded(ours, values) if self.padding else values

    def padded(self, name, values):
        """The table and the head with rows for tokens that no data has.

        Rows of zeros in the head would be logits of 0, far above GPT-2's own, which are about -30
        and less. The mean of all rows has the mean of all logits: each such token is then at most
        as probable as the others are on average.
        """
        if name == "embedding.tokens":
            more = np.zeros((self.padding, values.shape[1]), np.float32)
        elif name == "head.weight":
            mean = values.mean(axis=0, dtype=np.float64).astype(np.float32)
            more = np.tile(mean, (self.padding, 1))
        else:
            return values
        return np.concatenate([values, more])

    def sizes(self):
        """The keys of a deck's section [model]."""
        model = self.model
        sizes = {key: getattr(model, key) for key in ("layers", "width", "heads", "context")}
        return sizes | {"vocab": self.vocab, "ffn": model.hidden}


def write(path, weights):
    """The same bytes wherever the folder lies: a deck has the hash of this file."""
    with open(weights.path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    with whole_file(path) as whole, h5py.File(whole, "w") as file:
        file.attrs["format"] = FORMAT
        file.attrs["source"] = f"gpt2 of Hugging Face, SHA-256 {digest}"
        group = file.create_group("weights")
        for key, size in weights.sizes().items():
            group.attrs[key] = size
        place, names, hashes = 0, [], []
        for name, values in weights:
            group.create_dataset(name, data=values, dtype="<f4")
            names.append(name)
            hashes.append(hash_sum(place, values.ravel()) % 2**64)
            place += values.size
        file.create_dataset("tensors/name", data=names, dtype=h5py.string_dtype())
        file.create_dataset("tensors/hash", data=np.array(hashes, "<u8"))


def deck_section(weights, path):
    """The section [model] of a deck, with what is to be known about it."""
    lines = ["[model]"]
    for key, size in weights.sizes().items():
        if key != "ffn" or size != 4 * weights.model.width:
            lines.append(f"{key} = {size}")
    lines.append(f"initial = {json.dumps(str(path), ensure_ascii=False)}")
    if weights.is_tied:
        lines.append("# the head begins as a copy of the table of tokens, and goes its own way")
    if weights.padding:
        lines.append(
            f"# vocab: {weights.model.vocab} and {weights.padding} more: rows of zeros in the table"
            ", the mean of the others in the head"
        )
    dropped = [key for key in DROPOUT if weights.config.get(key, 0.1)]
    if dropped:
        lines.append(f"# SwarMPI trains without dropout: {', '.join(dropped)} are left out")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="with config.json and model.safetensors")
    parser.add_argument("weights", type=Path, help="the file to write, e.g. gpt2.h5")
    parser.add_argument(
        "--pad-vocab",
        type=int,
        metavar="N",
        help="a vocabulary of N tokens, as llm.c makes 50304 of GPT-2's 50257",
    )
    arguments = parser.parse_args()
    path = arguments.weights
    if path.exists():
        raise Trouble(f"{path} is there already: name another file, or remove it")
    weights = Weights(arguments.folder, arguments.pad_vocab)
    write(path, weights)
    print("\n".join(deck_section(weights, path)))


if __name__ == "__main__":
    sys.exit(exit_status(main))
