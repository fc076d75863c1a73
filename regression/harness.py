"""Runs the real program for the end-to-end tests.

Tiny decks, every process under a deadline, nothing left behind.
"""

import os
import random
import shutil
import signal
import subprocess
import tempfile
import unittest

BINARY = os.environ.get("SWARMPI", "build/swarmpi")
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


def words(seed, count):
    """Text that a tiny model can learn a little of; ASCII, the same everywhere."""
    rng = random.Random(seed)
    nouns = "peer stage step view term seal leader ledger source wiring table spare".split()
    verbs = "sends holds counts seals commits forgets repeats learns serves leads".split()
    return "".join(
        f"the {rng.choice(nouns)} {rng.choice(verbs)} the {rng.choice(nouns)}.\n"
        for _ in range(count)
    )


class SwarmpiTest(unittest.TestCase):
    """A folder of its own, a data file, a deck; and the program."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="swarmpi-test-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.data = self.path("data.bin")
        with open(self.data, "w", encoding="ascii") as file:
            file.write(words(1, 600))
        self.deck = self.path("deck.toml")
        with open(self.deck, "w", encoding="ascii") as file:
            file.write(DECK.format(data=self.data))

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def start(self, *arguments, **options):
        return subprocess.Popen(
            [BINARY, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            **options,
        )

    def run_program(self, *arguments, **options):
        """Returns (status, stdout, stderr); fails the test when the program hangs."""
        process = self.start(*arguments, **options)
        try:
            out, err = process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            self.fail(f"no end after {DEADLINE_S} s: {arguments}")
        return process.returncode, out, err

    def train(self, name, *settings, resume=None, expect=0, deck=None, options=(), **popen):
        """Trains into FOLDER/NAME/RUN.h5; returns that path, or stderr where it must fail."""
        os.makedirs(self.path(name), exist_ok=True)
        run = self.path(name, "RUN.h5")
        arguments = ["train", deck or self.deck, "--out", run, "--quiet", *options]
        for setting in settings:
            arguments += ["--set", setting]
        if resume is not None:
            arguments += ["--resume", resume]
        status, out, err = self.run_program(*arguments, **popen)
        self.assertEqual(status, expect, f"{arguments}\n{out}\n{err}")
        return run if expect == 0 else err

    def assert_same_run(self, a, b):
        status, out, err = self.run_program("compare", a, b)
        self.assertEqual(status, 0, out + err)

    def stop(self, process, how=signal.SIGKILL):
        process.send_signal(how)
        try:
            return process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return self.fail(f"no end {DEADLINE_S} s after signal {how}")
