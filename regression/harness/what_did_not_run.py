#!/usr/bin/env python3
"""Lists the tests that CTest's last run has skipped, wholly or in part, each with the reason.

usage: what_did_not_run.py BUILD

Reads what CTest has left in BUILD/Testing/Temporary. A reason is a line `not run: WHY` that a test
has printed (run_tests.py prints one for each test of a module that was skipped), or what stands
after GoogleTest's `Skipped`.
"""

import re
import sys
from pathlib import Path

HEAD = re.compile(r"^\d+/\d+ Testing: (.*)$", re.MULTILINE)
OUTPUT = re.compile(r"^Output:\n-+\n(.*?)^<end of output>$", re.MULTILINE | re.DOTALL)
OF_GOOGLE = re.compile(r"^\S+:\d+: Skipped\n(?!\[)(.+)$", re.MULTILINE)
OURS = re.compile(r"^not run: (.+)$", re.MULTILINE)
UNKNOWN = "its output does not say why"


def skipped(log, wholly):
    """Pairs of a test's name and a reason; `wholly` are the tests that CTest calls skipped."""
    pieces = HEAD.split(log)[1:]
    for name, text in zip(map(str.strip, pieces[::2]), pieces[1::2]):
        output = OUTPUT.search(text)
        said = output[1] if output else ""
        reasons = OURS.findall(said) or (OF_GOOGLE.findall(said) if name in wholly else [])
        for reason in reasons or [UNKNOWN] * (name in wholly):
            # Of a module "TEST: WHY"; the test's name begins with the module's.
            test, colon, why = reason.partition(": ")
            yield (test, why) if colon and test.startswith(name + ".") else (name, reason)


def read(path):
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    folder = Path(sys.argv[1]) / "Testing" / "Temporary"
    log = read(folder / "LastTest.log")
    if not log:  # CTest was asked for a list, or for help
        return 0
    disabled = read(folder / "LastTestsDisabled.log").splitlines()  # NUMBER:NAME
    wholly = {line.partition(":")[2] for line in disabled}
    by_reason = {}
    for name, reason in skipped(log, wholly):
        by_reason.setdefault(reason.strip(), []).append(name)
    count = sum(map(len, by_reason.values()))
    print(f"\nNot run, and why: {count} tests" if count else "\nNot run: none, all tests ran")
    for reason, names in by_reason.items():
        print(f"  {reason}:")
        for name in names:
            print(f"    {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
