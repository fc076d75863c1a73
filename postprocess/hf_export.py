#!/usr/bin/env python3
"""Writes the weights of a checkpoint as a GPT-2 of Hugging Face: model.safetensors, config.json.

usage: hf_export.py CHECKPOINT FOLDER [--model-type gpt2]

CHECKPOINT is a folder step-N, or a folder of them: then the newest that is complete. FOLDER is made
where it is missing; what it has of such files is never written over. `transformers` reads it with
GPT2LMHeadModel.from_pretrained(FOLDER). Needs h5py and numpy alone. Exit status 0, or 2 with one
line that says what is wrong.
"""

import argparse
import json
import math
import struct
import sys
from pathlib import Path

import numpy as np

from checkpoint import Checkpoint, Trouble
from whole_file import write_whole

MODEL_KEYS = {"layers", "width", "heads", "ffn", "context", "vocab", "shared_groups", "precision"}
OUTER = {  # our names and GPT-2's
    "embedding.tokens": "transformer.wte.weight",
    "embedding.positions": "transformer.wpe.weight",
    "final_norm.weight": "transformer.ln_f.weight",
    "final_norm.bias": "transformer.ln_f.bias",
    "head.weight": "lm_head.weight",
}
PARTS = {  # of a layer, the same
    "norm1": "ln_1",
    "qkv": "attn.c_attn",
    "projection": "attn.c_proj",
    "norm2": "ln_2",
    "up": "mlp.c_fc",
    "down": "mlp.c_proj",
}


class Model:
    """The sizes of a model by its deck, and its tensors."""

    def __init__(self, deck):
        model = deck["model"]
        self.layers, self.width, self.heads = model["layers"], model["width"], model["heads"]
        self.context, self.vocab = model["context"], model["vocab"]
        self.hidden = model.get("ffn", 0) or 4 * self.width
        self.groups = model.get("shared_groups", 0) or self.layers

    def layer_shapes(self):
        """(rows, columns) of each tensor of a layer: of matrices (outputs, inputs)."""
        width, hidden = self.width, self.hidden
        matrices = {
            "qkv": (3 * width, width),
            "projection": (width, width),
            "up": (hidden, width),
            "down": (width, hidden),
        }
        shapes = {}
        for part in PARTS:
            shapes[f"{part}.weight"] = matrices.get(part, (1, width))
            shapes[f"{part}.bias"] = (1, matrices[part][0] if part in matrices else width)
        return shapes

    def shapes(self):
        """(rows, columns) of all tensors, in the order of the model."""
        table, vector = (self.vocab, self.width), (1, self.width)
        shapes = {"embedding.tokens": table, "embedding.positions": (self.context, self.width)}
        for group in range(self.groups):
            for name, shape in self.layer_shapes().items():
                shapes[f"layer.{group}.{name}"] = shape
        last = {"final_norm.weight": vector, "final_norm.bias": vector, "head.weight": table}
        return shapes | last

    def exported(self):
        """GPT-2's name, its shape there, our name, and whether it is transposed, of each tensor.

        Our matrices are (outputs, inputs), those of GPT-2's layers (inputs, outputs). Layers that
        share their weights have a copy each.
        """
        for ours, shape in self.shapes().items():
            if ours in OUTER:
                yield OUTER[ours], shape[ours.startswith("final_norm") :], ours, False
        for layer in range(self.layers):
            group = layer // (self.layers // self.groups)
            for name, shape in self.layer_shapes().items():
                part, kind = name.split(".")
                is_matrix = kind == "weight" and not part.startswith("norm")
                theirs = f"transformer.h.{layer}.{PARTS[part]}.{kind}"
                shape = shape[::-1] if is_matrix else shape[1:]
                yield theirs, shape, f"layer.{group}.{name}", is_matrix

    def config(self):
        """What config.json says; there was no dropout, and what tokens mean is not known."""
        return {
            "architectures": ["GPT2LMHeadModel"],
            "model_type": "gpt2",
            "vocab_size": self.vocab,
            "n_positions": self.context,
            "n_embd": self.width,
            "n_layer": self.layers,
            "n_head": self.heads,
            "n_inner": self.hidden,
            "activation_function": "gelu_new",
            "layer_norm_epsilon": 1e-05,
            "tie_word_embeddings": False,
            "embd_pdrop": 0.0,
            "attn_pdrop": 0.0,
            "resid_pdrop": 0.0,
            "bos_token_id": None,
            "eos_token_id": None,
            "torch_dtype": "float32",
        }


def model_of(checkpoint):
    """The model, unless GPT-2 would not compute the same."""
    deck, folder = checkpoint.deck, checkpoint.folder
    boundary = deck.get("swarm", {}).get("boundary", "plain")
    if boundary != "plain":
        raise Trouble(
            f'{folder}: swarm.boundary = "{boundary}" puts layers between the stages that GPT-2 '
            "does not have: only models with plain boundaries can be exported"
        )
    unknown = sorted(set(deck.get("model", {})) - MODEL_KEYS)
    if unknown:
        raise Trouble(
            f"{folder}: its deck has model.{unknown[0]}, which this script does not know: use the "
            "one of the SwarMPI that wrote the checkpoint"
        )
    try:
        model = Model(deck)
    except KeyError as error:
        raise Trouble(f"{folder}: its deck lacks {error}") from error
    shapes = model.shapes()
    if missing := set(shapes) - set(checkpoint.pieces):
        raise Trouble(
            f"{folder}: no file that its manifest names has tensor {min(missing)}: name another "
            "checkpoint"
        )
    if others := set(checkpoint.pieces) - set(shapes):
        raise Trouble(f"{folder}: GPT-2 has no place for tensor {min(others)}")
    return model


def safetensors_header(shapes):
    """The length of the header and the header, which is padded to whole words of 8 bytes."""
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in shapes:
        first, end = end, end + 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [first, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def write_weights(file, checkpoint, model):
    shapes = model.shapes()
    file.write(safetensors_header([(name, shape) for name, shape, *_ in model.exported()]))
    for _, _, name, transposed in model.exported():
        values = checkpoint.read(name, shapes[name])
        if transposed:
            values = np.ascontiguousarray(values.reshape(shapes[name]).T)
        file.write(values.astype("<f4", copy=False).data)


def notes(deck):
    """Where the run rounds and the exported model does not."""
    swarm, precision = deck.get("swarm", {}), deck["model"].get("precision", "fp32")
    codec = swarm.get("compress_activations", "none")
    if codec != "none" and swarm["stages"] > 1:
        yield f'swarm.compress_activations = "{codec}"'
    if precision != "fp32":
        yield f'model.precision = "{precision}"'


def export(path, folder):
    """Writes both files; returns lines for people."""
    paths = weights, config = folder / "model.safetensors", folder / "config.json"
    for there in paths:
        if there.exists():
            raise Trouble(f"{there} is there already: name another folder, or remove it")
    checkpoint = Checkpoint(path)
    model = model_of(checkpoint)
    checkpoint.check_state(model.shapes())
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(weights, lambda file: write_weights(file, checkpoint, model))
    text = json.dumps(model.config(), indent=2) + "\n"
    write_whole(config, lambda file: file.write(text.encode()))
    lines = [f"{checkpoint.folder}: the weights after step {checkpoint.step}", *map(str, paths)]
    for key in notes(checkpoint.deck):
        lines.append(f"note: {key} is left out: losses differ a little from those of the run")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", type=Path, help="a folder step-N, or a folder of them")
    parser.add_argument("folder", type=Path, help="where to write")
    parser.add_argument("--model-type", default="gpt2", help="only gpt2 (the default)")
    arguments = parser.parse_args()
    try:
        if arguments.model_type != "gpt2":
            raise Trouble(
                f"--model-type {arguments.model_type}: the layers of a model of SwarMPI are those "
                "of GPT-2 (learned positions, LayerNorm, GELU): only gpt2 can be written"
            )
        lines = export(arguments.checkpoint, arguments.folder)
    except Trouble as trouble:
        print(f"hf_export.py: {trouble}", file=sys.stderr)
        return 2
    except OSError as error:
        print(
            f"hf_export.py: {error.filename or arguments.folder}: {error.strerror}", file=sys.stderr
        )
        return 2
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
