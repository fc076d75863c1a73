#!/usr/bin/env python3
"""Names text files that a Debian machine has anyway: licences, and the copyright files of packages.

usage: quickstart_text.py            one path a line, for `swarmpi prepare`

Each content once, no more of a kind than its bound. Files are taken in the order of their contents'
hashes, so that the choice depends on what is installed alone and is no alphabetical corner of it.
"""

import glob
import hashlib
import os

# Where, how many bytes in all. English prose that repeats itself: small models get far in minutes.
KINDS = (
    ("/usr/share/common-licenses/*", 1_000_000),
    ("/usr/share/doc/*/copyright", 1_500_000),
)
LARGEST_FILE_BYTES = 65_536


def text_files(pattern):
    """Yields (hash, size, path) of plain files with UTF-8 text."""
    for path in glob.iglob(pattern):
        if os.path.islink(path) or not os.path.isfile(path):
            continue
        try:
            with open(path, "rb") as file:
                content = file.read(LARGEST_FILE_BYTES + 1)
            content.decode()
        except (OSError, UnicodeDecodeError):
            continue
        if 0 < len(content) <= LARGEST_FILE_BYTES and b"\0" not in content:
            yield hashlib.sha256(content).digest(), len(content), path


def main():
    seen = set()
    for pattern, bound in KINDS:
        total = 0
        for digest, size, path in sorted(text_files(pattern)):
            if digest not in seen and total + size <= bound:
                seen.add(digest)
                total += size
                print(path)


main()
