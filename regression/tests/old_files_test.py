"""What earlier commits have written goes on bit for bit, or is refused by name.

Each folder in regression/old_runs has what one commit left behind; store.py there has made it. One
with a file `refused`, which says why, was made by other rules: it can be read, but not be resumed.
"""

import os
import shutil
import subprocess
import sys
import unittest

from harness.program import ROOT
from harness.test_case import SwarmpiTest

OLD_RUNS = [folder for folder in (ROOT / "regression" / "old_runs").iterdir() if folder.is_dir()]
OF_OTHER_RULES = [folder for folder in OLD_RUNS if (folder / "refused").exists()]
OF_THESE_RULES = [folder for folder in OLD_RUNS if folder not in OF_OTHER_RULES]
CHECKPOINT = "step-12"


class OldFiles(SwarmpiTest):
    """Copies of an old run, which was killed, and the reference that its commit has made."""

    def setUp(self):
        super().setUp()
        make_data = ROOT / "regression" / "cases" / "make_data.py"
        subprocess.run([sys.executable, make_data, self.folder], check=True)

    def each_of(self, folders):
        self.assertTrue(folders)
        for folder in folders:
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

    def make_version_9(self, path, name):
        """Of a file that begins with the name of its format and one digit, its version."""
        with open(path, "r+b") as file:
            self.assertRegex(file.read(len(name) + 1), name + rb"\d$")
            file.seek(len(name))
            file.write(b"9")

    def assert_names_version_9(self, refusal, path):
        for words in (path, "in version 9 of its format", "reads version", "or a newer one"):
            self.assertIn(words, refusal)

    def test_a_checkpoint_goes_on_into_a_new_run_file(self):
        for old in self.each_of(OF_THESE_RULES):
            run = self.resume(old, "-new")
            self.assert_complete(run)
            self.assert_same_run(os.path.join(old, "reference.h5"), run)

    def test_the_journal_of_a_killed_run_goes_on(self):
        for old in self.each_of(OF_THESE_RULES):
            run = self.resume(old)
            self.assertTrue(os.path.exists(run + ".journal/term-2"), "the old term stays")
            self.assert_complete(run)
            self.assert_same_run(os.path.join(old, "reference.h5"), run)

    def test_what_other_rules_have_made_is_read_and_not_gone_on_from(self):
        for old in self.each_of(OF_OTHER_RULES):
            for made in ("reference.h5", "RUN.h5.journal"):
                status, text, err = self.run_program("info", os.path.join(old, made))
                self.assertEqual(status, 0, err)
                self.assertRegex(text, r"steps +\d+")
            refusal = self.resume(old, "-new", expect=2)
            for words in ("fingerprint mismatch", CHECKPOINT, "by version 0.", "the same rules"):
                self.assertIn(words, refusal)

    def test_a_checkpoint_of_a_later_version_is_refused_by_name(self):
        for old in self.each_of(OF_THESE_RULES):
            manifest = os.path.join(old, "checkpoints", CHECKPOINT, "manifest")
            self.make_version_9(manifest, b"swarmpi checkpoint ")
            self.assert_names_version_9(self.resume(old, "-new", expect=2), manifest)

    def test_a_journal_of_a_later_version_is_refused_by_name(self):
        for old in self.each_of(OF_THESE_RULES):
            term = os.path.join(old, "RUN.h5.journal", "term-1")
            self.make_version_9(term, b"SWJ")
            self.assert_names_version_9(self.resume(old, expect=2), term)


if __name__ == "__main__":
    unittest.main()
