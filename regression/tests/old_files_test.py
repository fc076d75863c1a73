"""What earlier commits have written goes on bit for bit, or is refused by name.

Each folder in regression/old_runs has what one commit left behind; store.py there has made it.
"""

import os
import shutil
import subprocess
import sys
import unittest

from harness.program import ROOT
from harness.test_case import SwarmpiTest

OLD_RUNS = [folder for folder in (ROOT / "regression" / "old_runs").iterdir() if folder.is_dir()]
CHECKPOINT = "step-12"


class OldFiles(SwarmpiTest):
    """Copies of an old run, which was killed, and the reference that its commit has made."""

    def setUp(self):
        super().setUp()
        make_data = ROOT / "regression" / "cases" / "make_data.py"
        subprocess.run([sys.executable, make_data, self.folder], check=True)

    def each_old_run(self):
        self.assertTrue(OLD_RUNS)
        for folder in OLD_RUNS:
            with self.subTest(folder=folder.name):
                copy = self.path(folder.name)
                shutil.copytree(folder, copy)
                os.rename(os.path.join(copy, "killed.h5.journal"), copy + "/RUN.h5.journal")
                yield copy

    def resume(self, old, into="", expect=0):
        """Trains into the run file of the killed run; with `into`, into a new one."""
        return self.train(
            os.path.basename(old) + into,
            deck=os.path.join(old, "deck.toml"),
            resume=os.path.join(old, "checkpoints"),
            expect=expect,
            cwd=self.folder,
        )

    def replace(self, path, old, new):
        with open(path, "r+b") as file:
            content = file.read()
            self.assertTrue(content.startswith(old), content[:40])
            file.seek(0)
            file.write(new + content[len(old) :])

    def assert_names_version_9(self, refusal, path):
        for words in (path, "in version 9 of its format", "reads version", "or a newer one"):
            self.assertIn(words, refusal)

    def test_a_checkpoint_goes_on_into_a_new_run_file(self):
        for old in self.each_old_run():
            run = self.resume(old, "-new")
            self.assert_complete(run)
            self.assert_same_run(os.path.join(old, "reference.h5"), run)

    def test_the_journal_of_a_killed_run_goes_on(self):
        for old in self.each_old_run():
            run = self.resume(old)
            self.assertTrue(os.path.exists(run + ".journal/term-2"), "the old term stays")
            self.assert_complete(run)
            self.assert_same_run(os.path.join(old, "reference.h5"), run)

    def test_a_checkpoint_of_a_later_version_is_refused_by_name(self):
        for old in self.each_old_run():
            manifest = os.path.join(old, "checkpoints", CHECKPOINT, "manifest")
            self.replace(manifest, b"swarmpi checkpoint 1\n", b"swarmpi checkpoint 9\n")
            self.assert_names_version_9(self.resume(old, "-new", expect=2), manifest)

    def test_a_journal_of_a_later_version_is_refused_by_name(self):
        for old in self.each_old_run():
            term = os.path.join(old, "RUN.h5.journal", "term-1")
            self.replace(term, b"SWJ2", b"SWJ9")
            self.assert_names_version_9(self.resume(old, expect=2), term)


if __name__ == "__main__":
    unittest.main()
