#!/usr/bin/env python3
"""Keeps the generated blocks of the documentation equal to what they are made from.

usage: generated_docs.py [--check | --write]

A page marks a generated block with a line `<!-- generated: NAME -->` before it and a line
`<!-- /generated -->` after it; generated_blocks.py makes what stands between them. --check, the
default, names the blocks that differ; --write rewrites them. Both also compare the versions in
CITATION.cff and CMakeLists.txt.
Exit status: 0 all is as it should be; 1 a page is stale, or a source is incomplete; 2 wrong usage.
"""

import re
import sys
from pathlib import Path

from generated_blocks import BLOCKS, Trouble, read
from whole_file import write_text

ROOT = Path(__file__).resolve().parents[2]
RENEW = "regression/style/generated_docs.py --write"
OPEN = re.compile(r"^<!-- generated: (.+?) -->$")
CLOSE = "<!-- /generated -->"


def blocks_in(page, text):
    """Names and first and last lines, markers left out, of the generated blocks of a page."""
    found, name, first, fenced = {}, None, 0, False
    for number, line in enumerate(text.splitlines()):
        opening = OPEN.match(line)
        fenced ^= name is None and line.startswith("```")
        if fenced:
            continue
        if opening:
            if name is not None:
                raise Trouble(f"{page}:{number + 1}: block `{name}` is not closed by {CLOSE}")
            name, first = opening.group(1), number + 1
            if name in found:
                raise Trouble(f"{page}:{number + 1}: block `{name}` is there twice")
        elif line == CLOSE:
            if name is None:
                raise Trouble(f"{page}:{number + 1}: {CLOSE} without a block")
            found[name] = (first, number)
            name = None
    if name is not None:
        raise Trouble(f"{page}: block `{name}` is not closed by {CLOSE}")
    return found


def first_difference(old, new):
    """A line of the block, counted from 1, and what it is and should be."""
    for number in range(max(len(old), len(new))):
        is_now = old[number] if number < len(old) else "(nothing)"
        should_be = new[number] if number < len(new) else "(nothing)"
        if is_now != should_be:
            return number + 1, is_now, should_be
    return None


def renewed(page, text, blocks, root, write):
    """The page with its blocks made anew, and what is wrong with it."""
    wrong = []
    try:
        found = blocks_in(page, text)
    except Trouble as trouble:
        return text, [str(trouble)]
    lines = text.splitlines()
    for name in set(found) - set(blocks):
        wrong.append(f"{page}: no block `{name}` belongs on this page: see BLOCKS")
    for name in blocks:
        if name not in found:
            wrong.append(f"{page}: block `{name}` is missing: add <!-- generated: {name} -->")
    for name in sorted(set(found) & set(blocks), key=found.get, reverse=True):
        first, last = found[name]
        try:
            new = ["", *blocks[name](root).rstrip("\n").splitlines(), ""]
        except Trouble as trouble:
            wrong.append(f"{page}: block `{name}`: {trouble}")
            continue
        difference = first_difference(lines[first:last], new)
        if difference and not write:
            number, is_now, should_be = difference
            wrong.append(
                f"{page}:{first + number}: block `{name}` is stale; renew it: {RENEW}\n"
                f"  is:        {is_now}\n  should be: {should_be}"
            )
        lines[first:last] = new
    return "\n".join(lines) + "\n", wrong


def check_version(root):
    """What is wrong with the version of CITATION.cff; a list."""
    project = re.search(r"project\(\s*\w+\s+VERSION\s+([\d.]+)", read(root, "CMakeLists.txt"))
    if not project:
        return ["CMakeLists.txt: project() names no VERSION"]
    if not (root / "CITATION.cff").exists():
        print("CITATION.cff: there is none; its version was not compared")
        return []
    cited = re.search(r"^version:\s*[\"']?([^\s\"']+)", read(root, "CITATION.cff"), re.MULTILINE)
    if not cited:
        return ["CITATION.cff: no line `version: ...`"]
    if cited.group(1) != project.group(1):
        return [f"CITATION.cff: version {cited.group(1)}; CMakeLists.txt has {project.group(1)}"]
    return []


def renew(root, write, blocks=None):
    """Compares or rewrites all pages; what is wrong, as lines for people."""
    blocks = BLOCKS if blocks is None else blocks
    expected = {}
    for name, (page, make) in blocks.items():
        expected.setdefault(page, {})[name] = make
    for path in sorted((root / "docs").glob("*.md")):
        expected.setdefault(path.relative_to(root).as_posix(), {})
    wrong = []
    for page, makers in expected.items():
        try:
            text = read(root, page)
        except Trouble as trouble:
            wrong.append(str(trouble))
            continue
        new, troubles = renewed(page, text, makers, root, write)
        wrong += troubles
        if write and new != text:
            write_text(root / page, new)
            print(f"{page}: rewritten")
    return wrong + check_version(root)


def main():
    if sys.argv[1:] not in ([], ["--check"], ["--write"]):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    wrong = renew(ROOT, write="--write" in sys.argv)
    for line in wrong:
        print(line)
    print(f"generated_docs: {len(BLOCKS)} blocks, {len(wrong)} complaints")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
