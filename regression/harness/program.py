"""The program under test, and the small decks and texts that tests and tools give to it.

$SWARMPI names the program; without it the one in this checkout's build/ is taken.
"""

import os
import random
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "postprocess"))  # tools write files by its whole_file.py
BINARY = os.environ.get("SWARMPI") or str(ROOT / "build" / "swarmpi")
if os.sep in BINARY:  # tests run it in other working directories
    BINARY = os.path.abspath(BINARY)
DEADLINE_S = 120

DECK = """
[model]
layers = 4
width = 32
heads = 2
context = 32
vocab = 128
[data]
paths = ["{data}"]
validation_fraction = 0.05
[train]
steps = 12
microbatches = 4
microbatch_size = 2
lr = 3e-3
warmup_steps = 3
seed = 7
[output]
validate_every = 5
"""


def built(name, variable):
    """The path of a test program: $variable, or where the build of this checkout puts it."""
    return os.environ.get(variable) or str(ROOT / "build" / "regression" / name)


def words(seed, count):
    """Text that a tiny model can learn a little of; ASCII, the same on every machine."""
    rng = random.Random(seed)
    nouns = "peer stage step view term seal leader ledger source wiring table spare".split()
    verbs = "sends holds counts seals commits forgets repeats learns serves leads".split()
    return "".join(
        f"the {rng.choice(nouns)} {rng.choice(verbs)} the {rng.choice(nouns)}.\n"
        for _ in range(count)
    )


def write_data(folder, lines):
    """Writes FOLDER/data.bin with as many lines of text; returns its path."""
    path = os.path.join(folder, "data.bin")
    with open(path, "w", encoding="ascii") as file:
        file.write(words(1, lines))
    return path


def write_deck(folder, more="", lines=600):
    """Writes the tiny deck, followed by `more`, and its data into a folder.

    Returns the paths of the deck and of the data.
    """
    data, deck = write_data(folder, lines), os.path.join(folder, "deck.toml")
    with open(deck, "w", encoding="ascii") as file:
        file.write(DECK.format(data=data) + more)
    return deck, data


def slow_devices(overhead_s, peers):
    """Lines of a deck by which, with compute.fidelity = "emulated", a pass takes so long."""
    return (
        f"[devices.slow]\ngflops = 1000\noverhead_s = {overhead_s}\n"
        f'[[peers]]\npeers = {list(range(peers))}\ndevice = "slow"\n'
    )


def with_settings(arguments, settings):
    """The arguments, followed by --set for each of the settings."""
    return [*arguments, *(word for setting in settings for word in ("--set", setting))]


def train_arguments(deck, run, *settings, quiet=True):
    """The arguments with which the program trains a deck into a run file."""
    quietly = ["--quiet"] if quiet else []
    return with_settings(["train", deck, "--out", run, *quietly], settings)


def run(*arguments, check=True, timeout_s=DEADLINE_S):
    """Runs the program as one process without mpirun, until it ends.

    Returns what subprocess.run does, with stdout and stderr as text. Raises CalledProcessError if
    the status is not 0 and `check` is set, TimeoutExpired if the program has not ended in time.
    """
    return subprocess.run(
        [BINARY, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout_s,
        check=check,
    )
