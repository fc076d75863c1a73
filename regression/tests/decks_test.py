"""The decks of inputs/: each is valid, and the commands in its comments work as they are written.

The program under test is $SWARMPI, its launcher $SWARMPI_MPIRUN.
"""

import os
import shlex
import subprocess
import unittest

from harness.processes import end_tree
from harness.program import BINARY, DEADLINE_S, ROOT, words
from harness.swarm import MPIRUN, launch_environment, reports_deaths
from harness.test_case import SwarmpiTest

DECKS = sorted((ROOT / "inputs").glob("*.toml"))
# A death in step 30 is in; a step takes some hundredths of a second, on emulated devices as well.
SHORTER = ("train.steps=36", "train.warmup_steps=3", "model.context=8", "output.validate_every=18")


def commands_of(deck):
    """What the deck's first lines say to type: indented by three blanks, one line or several."""
    indented = [line[4:] for line in deck.read_text().splitlines() if line.startswith("#   ")]
    return "\n".join(indented).replace("\\\n", " ").splitlines()


class Decks(SwarmpiTest):
    def setUp(self):
        """A working directory with the decks, and with other data of the quick start's name."""
        super().setUp()
        os.symlink(ROOT / "inputs", self.path("inputs"))
        os.makedirs(self.path("build", "data"))
        with open(self.path("build", "data", "quickstart.bin"), "w", encoding="ascii") as file:
            file.write(words(1, 1500))

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
        self.program(
            "swarmpi",
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

    @unittest.skipUnless(reports_deaths(), "this MPI reports no deaths")
    def test_the_commands_of_all_decks_work_one_after_the_other(self):
        environment = self.environment()
        for deck in DECKS:
            with self.subTest(deck=deck.name):
                commands = [c for c in commands_of(deck) if not c.startswith("jobscripts/")]
                self.assertIn("swarmpi train", "\n".join(commands))
                said = self.typed(commands, environment)
                if "killed" in deck.read_text():
                    self.assertIn("all continue from the checkpoint of step", said)
                    self.assertIn("equal bit for bit", said)
        runs = os.listdir(self.path("runs"))
        self.assertGreater(len(runs), len(DECKS))
        for run in runs:
            self.assert_complete(self.path("runs", run, "RUN.h5"), run)


if __name__ == "__main__":
    unittest.main()
