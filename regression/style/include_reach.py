"""How many sources a change of a message rebuilds: those whose includes reach its header.

A header of src/protocol/messages/ that lists the fields of a struct is about one subject. Sources
that only store messages, or pass them on, include message.hpp or a header of names instead.
"""

import re

FOLDER = "src/protocol/messages/"
LIMIT = 40  # sources, tests included
# Jobs and ports that reached more when the limit was set. These numbers may only fall.
LARGER = {"pass_jobs.hpp": 43, "record_port.hpp": 55, "storage_port.hpp": 44, "update_jobs.hpp": 41}
ENVELOPE = FOLDER + "message.hpp"
INCLUDE = re.compile(r'^\s*#include\s+"([^"]+)"', re.MULTILINE)


def included_by(codes):
    """For each file the files of the tree that it includes itself."""
    included = {}
    for path, code in codes.items():
        names = INCLUDE.findall(code)
        included[path] = [p for name in names for p in (name, "src/" + name) if p in codes]
    return included


def reached_from(source, included):
    """All files that a source includes, through others too."""
    reached = set()
    waiting = [source]
    while waiting:
        for path in included[waiting.pop()]:
            if path not in reached:
                reached.add(path)
                waiting.append(path)
    return reached


def check(codes, error):
    """`codes`: the C++ files of the tree, by path, without comments."""
    included = included_by(codes)
    counts = {
        path: 0
        for path, code in codes.items()
        if path.startswith(FOLDER) and path.endswith(".hpp") and "SWARMPI_FIELDS(" in code
    }
    counts.pop(ENVELOPE, None)
    for source in codes:
        if source.endswith(".cpp"):
            for path in reached_from(source, included):
                if path in counts:
                    counts[path] += 1
    for path, count in counts.items():
        limit = LARGER.get(path.removeprefix(FOLDER), LIMIT)
        if count > limit:
            error(path, 1, "reach", f"{count} sources include it, at most {limit}")
