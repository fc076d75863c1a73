#!/usr/bin/env python3
"""What coded and learned boundaries cost in learning: the loss on text that was held out.

A model of shape (a) of docs/performance.md, cut into three stages, learns the sources of Python's
standard library for a thousand steps (two million tokens), once for each kind of boundary and each
of three seeds. Data, rate, schedule and held-out sequences are the same for all, and were fixed
before the first run. Stated is the ratio of the last held-out loss to that of plain boundaries with
the same seed.

usage: boundary_convergence.py [--seeds N] [--steps N] [--only NAME...] [--folder FOLDER]
                               [--record FILE.json]
The program is $SWARMPI. Runs that are complete in FOLDER are not made again. Needs h5py.
"""

import argparse
import hashlib
import statistics
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where harness/ is

from harness import record
from harness.program import BINARY, train_arguments
from hdf5 import h5py

DECK = """
[model]
layers = 4
width = 128
heads = 4
context = 128
vocab = 256
[data]
paths = ["{data}"]
validation_fraction = 0.02
[train]
steps = {steps}
microbatches = 2
microbatch_size = 8
lr = 3e-3
min_lr = 3e-4
warmup_steps = 100
[swarm]
stages = 3
[output]
validate_every = {steps}
keep = 1
"""


def coded(codec, *more):
    return (f"swarm.compress_activations={codec}", f"swarm.compress_gradients={codec}", *more)


BOUNDARIES = {
    "plain": (),
    "fp16": coded("fp16"),
    "bf16": coded("bf16"),
    "uniform8": coded("uniform8"),
    "blockwise8": coded("blockwise8"),
    "bottleneck 2": ("swarm.boundary=bottleneck", "swarm.boundary_factor=2"),
    "maxout 2": ("swarm.boundary=maxout", "swarm.boundary_factor=2"),
    "bottleneck 2, blockwise8": coded(
        "blockwise8", "swarm.boundary=bottleneck", "swarm.boundary_factor=2"
    ),
    "maxout 2, blockwise8": coded(
        "blockwise8", "swarm.boundary=maxout", "swarm.boundary_factor=2"
    ),
}


def write_data(path):
    """The modules of the standard library, by name; returns a hash of them."""
    sources = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    text = b"".join(source.read_bytes() for source in sources)
    path.write_bytes(text)
    return hashlib.sha256(text).hexdigest()


def last_held_out_loss(folder, name, seed, options):
    run = folder / f"{name}-{seed}".replace(" ", "_").replace(",", "")
    file = run / "RUN.h5"
    if not Path(f"{file}.journal/complete").exists():
        run.mkdir(parents=True, exist_ok=True)
        for left in run.iterdir():
            if left.is_file():
                left.unlink()
        deck = run / "deck.toml"
        deck.write_text(DECK.format(data=folder / "data.bin", steps=options.steps), "ascii")
        settings = (f"train.seed={seed}", *BOUNDARIES[name])
        subprocess.run([BINARY, *train_arguments(str(deck), str(file), *settings)], check=True)
    with h5py.File(file, "r") as content:
        return float(content["validation/loss"][-1]), content.attrs["fingerprint"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--only", nargs="+", choices=BOUNDARIES, default=list(BOUNDARIES))
    parser.add_argument("--folder", type=Path)
    record.add_option(parser)
    options = parser.parse_args()
    kept = options.folder or Path(tempfile.mkdtemp(prefix="swarmpi-convergence-"))
    kept.mkdir(parents=True, exist_ok=True)
    data_hash = write_data(kept / "data.bin")
    figures, samples = {}, []
    plain = {}
    for name in ["plain", *(n for n in options.only if n != "plain")]:
        ratios = []
        for seed in range(1, options.seeds + 1):
            loss, fingerprint = last_held_out_loss(kept.resolve(), name, seed, options)
            plain.setdefault(seed, loss)
            ratios.append(loss / plain[seed])
            samples.append({"boundary": name, "seed": seed, "loss": loss, "data": data_hash[:16]})
            print(f"{name:26} seed {seed}: {loss:.5f}, {ratios[-1]:.5f} of plain", flush=True)
        figures[f"{name}: mean ratio to plain"] = statistics.mean(ratios)
        figures[f"{name}: least ratio"] = min(ratios)
        figures[f"{name}: largest ratio"] = max(ratios)
    record.write(
        options.record,
        "The last held-out loss with each kind of boundary, relative to plain ones of the same "
        "seed.",
        figures,
        samples,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
