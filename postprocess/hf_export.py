#!/usr/bin/env python3
"""Writes the weights of a checkpoint as a GPT-2 of Hugging Face: model.safetensors, config.json.

usage: hf_export.py CHECKPOINT FOLDER [--model-type gpt2]

CHECKPOINT is a folder step-N, or a folder of them: then the newest that is complete; or a run's
folder, or RUN.h5: then those that are in it, or beside it. FOLDER is made where it is missing; what
it has of such files is never written over. `transformers` reads it with
GPT2LMHeadModel.from_pretrained(FOLDER). Needs h5py and numpy alone. Exit status 0, or 2 with one
line that says what is wrong.
"""

import python_version  # noqa: F401  (before what needs it)

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from checkpoint import Checkpoint
from gpt2 import Model
from safetensors_file import header_of
from trouble import Trouble, exit_status
from whole_file import write_text, write_whole

MODEL_KEYS = {"layers", "width", "heads", "ffn", "context", "vocab", "shared_groups", "precision"}
MODEL_KEYS |= {"initial", "initial_hash"}  # what the run began with


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
        model = Model(deck["model"])
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


def write_weights(file, checkpoint, model):
    shapes = model.shapes()
    file.write(header_of([(name, shape) for name, shape, *_ in model.in_gpt2()]))
    for _, _, name, transposed in model.in_gpt2():
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
    write_text(config, json.dumps(model.config(), indent=2) + "\n")
    lines = [f"{checkpoint.folder}: the weights after step {checkpoint.step}", *map(str, paths)]
    for key in notes(checkpoint.deck):
        lines.append(f"note: {key} is left out: losses differ a little from those of the run")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", type=Path, help="a folder step-N, or of them, or a run")
    parser.add_argument("folder", type=Path, help="where to write")
    parser.add_argument("--model-type", default="gpt2", help="only gpt2 (the default)")
    arguments = parser.parse_args()
    if arguments.model_type != "gpt2":
        raise Trouble(
            f"--model-type {arguments.model_type}: the layers of a model of SwarMPI are those "
            "of GPT-2 (learned positions, LayerNorm, GELU): only gpt2 can be written"
        )
    print("\n".join(export(arguments.checkpoint, arguments.folder)))


if __name__ == "__main__":
    sys.exit(exit_status(main))
