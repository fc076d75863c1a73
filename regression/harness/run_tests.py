#!/usr/bin/env python3
"""Runs one module of end-to-end tests and says which of its tests did not run, and why.

usage: run_tests.py MODULE [CLASS[.TEST]]...      e.g. run_tests.py death_test Killed.test_one_rank
       run_tests.py MODULE SHARE/SHARES           e.g. run_tests.py hang_test 1/3

MODULE is a module of regression/tests. With 1/3 the first, fourth, seventh ... of its tests run,
with 2/3 the second, fifth, eighth ...: three processes share the module. For each test that was
skipped a line `not run: TEST: WHY` is printed at the end; what_did_not_run.py gathers these lines
from CTest's log.
Exit status: 0 all that ran passed; 1 a test failed; 77 all tests were skipped, which CTest shows as
skipped; 2 there is no such test.
"""

import re
import sys
import unittest
from pathlib import Path

REGRESSION = Path(__file__).resolve().parents[1]
SKIPPED = 77


class Result(unittest.TextTestResult):
    """Also knows how many tests have run: unittest counts those that were skipped among them."""

    ran = 0

    def startTest(self, test):
        super().startTest(test)
        self.stream.flush()  # so that a test which hangs is named

    def addSuccess(self, test):
        super().addSuccess(test)
        self.ran += 1


def flat(suite):
    """The tests of a suite, in the order in which they run."""
    for test in suite:
        yield from flat(test) if isinstance(test, unittest.TestSuite) else [test]


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    sys.path[:0] = [str(REGRESSION), str(REGRESSION / "tests")]
    module, *names = sys.argv[1:]
    loader = unittest.TestLoader()
    share = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", names[0]) if len(names) == 1 else None
    wanted = [] if share else [f"{module}.{name}" for name in names]
    tests = loader.loadTestsFromNames(wanted or [module])
    if share:
        tests = unittest.TestSuite(list(flat(tests))[int(share[1]) - 1 :: int(share[2])])
    if loader.errors:
        print("\n".join(loader.errors), file=sys.stderr)
        return 2
    result = unittest.TextTestRunner(verbosity=2, resultclass=Result).run(tests)
    sys.stderr.flush()
    for test, why in result.skipped:
        print(f"not run: {test.id()}: {why}")
    if not result.wasSuccessful():
        return 1
    if result.ran:
        return 0
    return SKIPPED if result.skipped else 2


if __name__ == "__main__":
    sys.exit(main())
