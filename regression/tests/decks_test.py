"""The decks of inputs/: each is valid, and the commands in its comments work as they are written.

The program under test is $SWARMPI, its launcher $SWARMPI_MPIRUN.
"""

import glob
import os
import re
import shlex
import subprocess
import unittest

from harness.processes import end_tree
from harness.program import BINARY, DEADLINE_S, ROOT, words
from harness.swarm import MPIRUN, launch_environment, reports_deaths
from harness.test_case import SwarmpiTest

DECKS = sorted((ROOT / "inputs").glob("*.toml"))
PAPER = ROOT / "inputs" / "paper"
# A death in step 30 is in; a step takes some hundredths of a second, on emulated devices as well.
SHORTER = ("train.steps=36", "train.warmup_steps=3", "model.context=8", "output.validate_every=18")
# These models are made smaller: a multiple of their heads wide.
NARROWER = {"gpt2_124m": 24, "cluster": 16, "own_text": 16}
# Not for a test: what needs a Slurm, or numpy, and what installs.
NOT_TYPED = re.compile(r"jobscripts/|python3 ")


def commands_of(deck):
    """What the deck's first lines say to type: indented by three blanks, one line or several."""
    indented = [line[4:] for line in deck.read_text().splitlines() if line.startswith("#   ")]
    return "\n".join(indented).replace("\\\n", " ").splitlines()


class Decks(SwarmpiTest):
    def setUp(self):
        """A working directory with the decks, and with other data of the quick start's name."""
        super().setUp()
        os.symlink(ROOT / "inputs", self.path("inputs"))
        self.write("build/data/quickstart.bin", words(1, 1500))
        self.write("my_texts/a text.txt", words(2, 6000))
        # Two bytes a token, and so many that a small share of the sequences is not none.
        self.write("runs/gpt2/tokens_u16.bin", words(3, 1000)[:20000] * 800)
        for name in ("mine", "cluster"):
            self.write(f"runs/{name}/text.bin", words(2, 6000))  # as `prepare` makes it

    def write(self, name, text):
        path = self.path(*name.split("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)

    def program(self, name, lines):
        """A shell script that is found by this name."""
        path = self.path("bin", name)
        with open(path, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\n" + lines)
        os.chmod(path, 0o755)

    def environment(self):
        """Programs by their names, where `swarmpi train` trains less than the deck says."""
        for folder in ("bin", "sessions"):  # the latter are of mpirun: see Swarm
            os.makedirs(self.path(folder))
        shorter = " ".join(f"--set {shlex.quote(setting)}" for setting in SHORTER)
        narrower = "".join(
            f'train*/{deck}.toml*) set -- "$@" --set model.width={width} ;;\n'
            for deck, width in NARROWER.items()
        )
        self.program(
            "swarmpi",
            f'case "$*" in\n{narrower}esac\n'
            f'[ "$1" != train ] || set -- "$@" {shorter}\nexec {shlex.quote(BINARY)} "$@"\n',
        )
        self.program("mpirun", f'exec {shlex.quote(MPIRUN)} "$@"\n')
        path = self.path("bin") + os.pathsep + os.environ["PATH"]
        return {**launch_environment(), "PATH": path, "TMPDIR": self.path("sessions")}

    def typed(self, lines, environment):
        """What a shell says to these lines, which must all end with status 0."""
        shell = subprocess.Popen(
            ["timeout", "-k", "5", str(DEADLINE_S), "bash", "-e", "-x", "-c", "\n".join(lines)],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self.addCleanup(end_tree, shell)
        said = shell.communicate()[0]
        self.assertEqual(shell.returncode, 0, said)
        return said

    def test_each_deck_is_valid(self):
        for deck in DECKS:
            with self.subTest(deck=deck.name):
                status, out, err = self.run_program(
                    "check", os.path.join("inputs", deck.name), cwd=self.folder
                )
                self.assertEqual(status, 0, out + err)

    def test_decks_that_are_simulated_are_checked_without_data(self):
        for deck in (*(ROOT / "inputs" / "simulate").glob("*.toml"), *PAPER.glob("*.toml")):
            with self.subTest(deck=deck.name):
                place = os.path.relpath(deck, ROOT)
                status, out, err = self.run_program("check", place, cwd=self.folder)
                self.assertEqual(status, 0, out + err)
                self.assertIn("held up by", out)

    def test_a_deck_may_have_the_classes_of_hardware(self):
        folder = ROOT / "inputs" / "hardware"
        names = {
            table: re.findall(rf"^\[{table}\.(\w+)\]", (folder / file).read_text(), re.MULTILINE)
            for table, file in (("devices", "devices.toml"), ("links", "networks.toml"))
        }
        self.assertEqual(names["devices"], ["t4", "v100", "a100", "h100"])
        self.assertEqual(names["links"], ["region", "far", "home"])
        peers = "".join(
            f'[[peers]]\npeers = [{peer}]\ndevice = "{names["devices"][peer]}"\n'
            f'link = "{link}"\nsite = "europe"\n'
            for peer, link in enumerate(names["links"])
        )
        self.write(
            "mine.toml",
            'include = ["inputs/hardware/devices.toml", "inputs/hardware/networks.toml"]\n'
            '[data]\npaths = ["build/data/quickstart.bin"]\n'
            '[swarm]\npeers = 3\n[compute]\nfidelity = "emulated"\n' + peers,
        )
        status, out, err = self.run_program("check", "mine.toml", cwd=self.folder)
        self.assertEqual(status, 0, out + err)
        for words_ in ("t4, region, europe", "v100, far, europe", "a100, home, europe"):
            self.assertIn(words_, out)
        self.assertIn("held up by", out)

    @unittest.skipUnless(reports_deaths(), "this MPI reports no deaths")
    def test_the_commands_of_all_decks_work_one_after_the_other(self):
        environment = self.environment()
        for deck in DECKS:
            with self.subTest(deck=deck.name):
                commands = [c for c in commands_of(deck) if not NOT_TYPED.search(c)]
                self.assertIn("swarmpi train", "\n".join(commands))
                said = self.typed(commands, environment)
                if "killed" in deck.read_text():
                    is_swarm = "method = " not in deck.read_text()
                    goes_on = " repair " if is_swarm else "all continue from the checkpoint of step"
                    self.assertIn(goes_on, said)
                    self.assertIn("equal bit for bit", said)
        runs = glob.glob(self.path("runs", "*", "RUN.h5"))
        self.assertGreater(len(runs), len(DECKS))
        for run in runs:
            self.assert_complete(run, run)

    def test_each_deck_says_what_it_needs_and_how_long_it_takes(self):
        for deck in DECKS:
            with self.subTest(deck=deck.name):
                head = deck.read_text().split("\n[", 1)[0]
                self.assertRegex(head, r"\b(take|takes|about) [\w ]*(\d+ s|minutes?|hours|days)\b")
                self.assertRegex(head, r"It\s(#\s)?needs|data are those of the quick start")


if __name__ == "__main__":
    unittest.main()
