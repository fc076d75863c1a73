"""harness/run_tests.py: one module, a part of it, or a share of it."""

import re
import subprocess
import sys
import unittest

from harness.program import ROOT

MODULE = "break_rules_test"


class RunTests(unittest.TestCase):
    def run_module(self, *names):
        """The status and the names of the tests that ran."""
        command = [sys.executable, ROOT / "regression/harness/run_tests.py", MODULE, *names]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, re.findall(rf"\(({MODULE}\S+)\)", done.stderr)

    def test_shares_run_each_test_once(self):
        _, whole = self.run_module()
        self.assertGreater(len(whole), 4)
        shares = [self.run_module(f"{share}/3") for share in (1, 2, 3)]
        self.assertEqual([status for status, _ in shares], [0, 0, 0])
        dealt = [name for _, names in shares for name in names]
        self.assertEqual(sorted(dealt), sorted(whole))

    def test_fails_when_a_share_is_empty(self):
        self.assertEqual(self.run_module("99/99"), (2, []))


if __name__ == "__main__":
    unittest.main()
