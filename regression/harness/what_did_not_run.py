#!/usr/bin/env python3
"""Lists the tests that CTest's last run has skipped, wholly or in part, each with the reason.

usage: what_did_not_run.py BUILD

Reads what CTest has left in BUILD/Testing/Temporary. A reason is a line `not run: WHY` that a test
has printed (run_tests.py prints one for each test of a module that was skipped), or what GoogleTest
prints after `Skipped`. The other tests of that module or suite may have run.
Exit status: 0 every reason is known (skip_reasons.py) and holds on this machine; 1 one is not
known, or this machine could have run the test; 2 wrong arguments.
"""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness import skip_reasons  # noqa: E402

HEAD = re.compile(r"^\d+/\d+ Testing: (.*)$", re.MULTILINE)
OUTPUT = re.compile(r"^Output:\n-+\n(.*?)^<end of output>$", re.MULTILINE | re.DOTALL)
OF_GOOGLE = re.compile(r"\[  SKIPPED \] (\S+) \(\d+ ms\)")
OURS = re.compile(r"^not run: (.+)$", re.MULTILINE)
UNKNOWN = "its output does not say why"


def of_google(said):
    """Pairs of a GoogleTest test that was skipped and its reason."""
    for match in OF_GOOGLE.finditer(said):
        begin = said.rfind(f"[ RUN      ] {match[1]}\n", 0, match.start())
        why = re.search(r": Skipped\n(.+)\n", said[begin : match.start()])
        yield match[1], why[1] if why else UNKNOWN


def skipped(log, wholly):
    """Pairs of a test's name and a reason; `wholly` are the tests that CTest calls skipped.

    CTest starts no command for a test that is switched off, which is one of them.
    """
    pieces = HEAD.split(log)[1:]
    names = [name.strip() for name in pieces[::2]]
    yield from ((name, UNKNOWN) for name in sorted(set(wholly) - set(names)))
    for name, text in zip(names, pieces[1::2]):
        if name in wholly and '\nCommand: ""\n' in text:
            yield name, skip_reasons.why_switched_off(name)
            continue
        output = OUTPUT.search(text)
        said = output[1] if output else ""
        found = list(of_google(said))
        module = name.partition(".")[0] + "."  # several tests of CTest may share a module
        for reason in OURS.findall(said):
            # A module says "TEST: WHY"; the test's name begins with the module's.
            test, colon, why = reason.partition(": ")
            found.append((test, why) if colon and test.startswith(module) else (name, reason))
        yield from found or [(name, UNKNOWN)] * (name in wholly)


def read(path):
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def report(pairs, build, reasons=None):
    """Prints the tests by reason. Returns whether every one of them was skipped rightly."""
    by_reason = {}
    for name, reason in pairs:
        by_reason.setdefault(reason.strip(), []).append(name)
    count = sum(map(len, by_reason.values()))
    print(f"\nNot run, and why: {count} tests" if count else "\nNot run: none, all tests ran")
    faults = 0
    for reason, names in by_reason.items():
        fault = skip_reasons.fault_of(reason, build, reasons)
        faults += len(names) if fault else 0
        print(f"  {reason}{f' -- WRONG: {fault}' if fault else ''}:")
        for name in names:
            print(f"    {name}")
    if faults:
        print(f"{faults} tests were skipped that should have run, or do not say why", flush=True)
    return faults == 0


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    build = Path(sys.argv[1])
    folder = build / "Testing" / "Temporary"
    log = read(folder / "LastTest.log")
    if not log:  # CTest was asked for a list, or for help
        return 0
    disabled = read(folder / "LastTestsDisabled.log").splitlines()  # NUMBER:NAME
    wholly = {line.partition(":")[2] for line in disabled}
    return 0 if report(skipped(log, wholly), build) else 1


if __name__ == "__main__":
    sys.exit(main())
