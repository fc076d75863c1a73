#!/usr/bin/env python3
"""Stores what a build leaves behind, so that later builds can be tested to go on from it.

usage: store.py SWARMPI FOLDER      SWARMPI: the program, built from the commit that FOLDER names

FOLDER/deck.toml is trained twice: undisturbed, which makes reference.h5; and once more until it is
killed some steps behind its first checkpoint, which leaves checkpoints/ and killed.h5.journal/.
"""

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CASES = Path(__file__).resolve().parents[1] / "cases"


def start(program, deck, run):
    """Begins to train RUN in a folder of its own."""
    shutil.rmtree(run.parent, ignore_errors=True)
    run.parent.mkdir()
    subprocess.run([sys.executable, CASES / "make_data.py", run.parent], check=True)
    arguments = [program, "train", deck, "--out", run, "--quiet"]
    return subprocess.Popen(arguments, cwd=run.parent)


def killed(program, deck, run):
    """Trains some steps beyond a checkpoint; False if the run was killed too late for that."""
    with start(program, deck, run) as process:
        while process.poll() is None and not any(run.parent.glob("checkpoints/*/manifest")):
            time.sleep(0.0002)
        time.sleep(0.01)
        process.kill()
    checkpoints = list((run.parent / "checkpoints").iterdir())
    return process.returncode == -signal.SIGKILL and len(checkpoints) == 1


def main():
    program, folder = (Path(word).resolve() for word in sys.argv[1:3])
    deck = folder / "deck.toml"
    with tempfile.TemporaryDirectory() as work:
        whole, part = Path(work, "whole", "reference.h5"), Path(work, "part", "killed.h5")
        if start(program, deck, whole).wait() != 0:
            sys.exit(1)
        while not killed(program, deck, part):
            pass
        shutil.copyfile(whole, folder / whole.name)
        for made in ("checkpoints", "killed.h5.journal"):
            shutil.rmtree(folder / made, ignore_errors=True)
            shutil.copytree(part.parent / made, folder / made)


main()
