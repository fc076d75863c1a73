"""cmake/AddSuites.cmake: CTest runs each suite of a GoogleTest program as one test."""

import json
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from harness.program import ROOT

CTEST = os.environ.get("CTEST", "ctest")
LISTED = """Running main() from gtest_main.cc
Tide.
  Rises
  Falls
Tide/Twice.  # TypeParam = std::vector<int; 4>
  Falls
All/Moon/0.  # TypeParam = char [3]
  IsRound/0  # GetParam() = "a; \\n b"
  DISABLED_IsFull/0  # GetParam() = 1
DISABLED_Night.
  IsDark
"""
SKIPPED = "[  SKIPPED ] 1 test, listed below:\n[  SKIPPED ] Tide.Rises\n"
FAILED = "[  FAILED  ] 1 test, listed below:\n[  FAILED  ] Tide.Falls\n"


def passed(count):
    return f"[==========] 2 tests from 1 test suite ran. (0 ms total)\n[  PASSED  ] {count}\n"


class Suites(unittest.TestCase):
    """CTest in a folder of its own, with a script that stands for a GoogleTest program."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.program = self.folder / "night_test"
        script = ROOT / "cmake" / "AddSuites.cmake"
        (self.folder / "CTestTestfile.cmake").write_text(
            f"include([==[{script}]==])\nadd_suites(night [==[{self.program}]==])\n"
        )

    def write_program(self, says, status, listed=LISTED, list_status=0):
        (self.folder / "listed").write_text(listed)
        (self.folder / "says").write_text(says)
        self.program.write_text(
            f'#!/bin/sh\ncd "{self.folder}"\n'
            f"[ $1 != --gtest_list_tests ] || {{ cat listed; exit {list_status}; }}\n"
            f"cat says\nexit {status}\n"
        )
        self.program.chmod(0o755)

    def ctest(self, *options):
        done = subprocess.run(
            [CTEST, *options], cwd=self.folder, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout

    def added(self):
        """The tests by name: the filter for GoogleTest, and whether the test is disabled."""
        _, listed = self.ctest("--show-only=json-v1")
        return {
            test["name"]: (
                test["command"][1].removeprefix("--gtest_filter="),
                {"name": "DISABLED", "value": True} in test["properties"],
            )
            for test in json.loads(listed)["tests"]
        }

    def state_of_a_suite(self):
        """CTest's word for one suite, and the exit status of CTest."""
        status, said = self.ctest("-R", r"^night\.Tide$")
        return re.search(r"night\.Tide \.*\s*(\**\w+)", said)[1], status

    def test_finds_each_suite_when_some_have_parameters(self):
        self.write_program("", 0)
        self.assertEqual(
            self.added(),
            {
                "All/Moon/0.IsFull/0": ("All/Moon/0.DISABLED_IsFull/0", True),
                "Night.IsDark": ("DISABLED_Night.IsDark", True),
                "night.Tide": ("Tide.*", False),
                "night.Tide/Twice": ("Tide/Twice.*", False),
                "night.All/Moon/0": ("All/Moon/0.*", False),
            },
        )

    def test_fails_when_the_program_does_not_exist(self):
        status, said = self.ctest()
        self.assertNotEqual(status, 0, said)
        self.assertIn("night.lists_its_suites", said)

    def test_fails_when_the_program_lists_nothing(self):
        for listed, list_status in ((LISTED, 1), ("", 0)):
            with self.subTest(list_status=list_status):
                self.write_program("", 0, listed, list_status)
                self.assertNotEqual(self.ctest()[0], 0)

    def test_suite_is_skipped_only_when_all_its_tests_are(self):
        disabled = "\n  YOU HAVE 1 DISABLED TEST\n\n"
        for says, program_status, state in (
            (passed("2 tests."), 0, "Passed"),
            (passed("1 test.") + SKIPPED, 0, "Passed"),
            (passed("0 tests.") + SKIPPED, 0, "***Skipped"),
            (passed("0 tests.") + SKIPPED + disabled, 0, "***Skipped"),
            (passed("0 tests.") + SKIPPED + FAILED + "\n 1 FAILED TEST\n", 1, "***Failed"),
            (passed("1 test.") + SKIPPED + FAILED + "\n 1 FAILED TEST\n", 1, "***Failed"),
            (passed("1 test.") + FAILED + "\n 1 FAILED TEST\n" + disabled, 1, "***Failed"),
        ):
            with self.subTest(says=says):
                self.write_program(says, program_status)
                found, status = self.state_of_a_suite()
                self.assertEqual(found, state)
                self.assertEqual(status != 0, state == "***Failed")


if __name__ == "__main__":
    unittest.main()
