#!/usr/bin/env python3
"""Shows how each test ended that has failed in CTest's last run.

usage: what_failed.py BUILD [LINES]

Reads what CTest has left in BUILD/Testing/Temporary, and prints the last LINES (default 40) of what
each of them said: at the end of a long log they are found at once. Exit status: 0, whatever failed.
"""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness.what_did_not_run import HEAD, OUTPUT, read  # noqa: E402

FAILED = re.compile(r"^\d+:(.+)$", re.MULTILINE)


def last_words(log, failed, lines):
    """Pairs of a test's name and the last lines of its output, in the order of the log."""
    pieces = HEAD.split(log)[1:]
    for name, text in zip(map(str.strip, pieces[::2]), pieces[1::2]):
        if name not in failed:
            continue
        output = OUTPUT.search(text)
        said = output[1].rstrip().splitlines() if output else ["(it said nothing that was kept)"]
        yield name, said[-lines:]


def main():
    if len(sys.argv) not in (2, 3):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    left = Path(sys.argv[1]) / "Testing" / "Temporary"
    lines = int(sys.argv[2]) if len(sys.argv) == 3 else 40
    failed = FAILED.findall(read(left / "LastTestsFailed.log"))
    for name, said in last_words(read(left / "LastTest.log"), failed, lines):
        print(f"\n{name} failed; it ended with\n" + "\n".join(f"  {line}" for line in said))
    return 0


if __name__ == "__main__":
    sys.exit(main())
