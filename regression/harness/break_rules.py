#!/usr/bin/env python3
"""Makes a copy of the protocol core in which each of its rules can be broken.

usage: break_rules.py RULES CORE FOLDER

RULES is regression/tests/rules.txt, and says how it is written. The folder CORE is copied into
FOLDER, its tests left out, with all edits of RULES. broken_rules.hpp, with the switch that these
ask, goes there too. A file that is as it should be is not written again.
Exit status: 0 all is written; 1 an edit does not fit the core, or RULES is not as it must be.
"""

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

HEADER = """\
// Written by break_rules.py: which rule of the protocol is broken.
#pragma once

#include <array>
#include <optional>

namespace swarmpi {{

enum class Rule {{ {names} }};

inline constexpr std::array kRuleNames{{{strings}}};

inline std::optional<Rule> broken_rule;

inline bool broken(Rule rule) {{ return broken_rule == rule; }}

}}  // namespace swarmpi
"""


class Trouble(Exception):
    """What is wrong with the rules; one argument for each fault."""


@dataclass
class Edit:
    line: int
    old: str = ""
    new: str = ""


@dataclass
class Rule:
    name: str
    sentence: str
    line: int
    edits: list = field(default_factory=list)


def rules_of(text):
    """The rules as lists of (group, [Rule...])."""
    groups = [("", [])]
    for number, line in enumerate(text.splitlines(), 1):
        rules = groups[-1][1]
        edits = rules[-1].edits if rules else []
        if not line or line.startswith("#"):
            continue
        if group := re.fullmatch(r"\[(.+)\]", line):
            groups.append((group[1], []))
        elif rule := re.fullmatch(r"(\w+): *(.*)", line):
            rules.append(Rule(rule[1], rule[2], number))
        elif rules and line.startswith("- "):
            if not edits or edits[-1].new:
                edits.append(Edit(number))
            edits[-1].old += line[1:]
        elif edits and line.startswith("+ "):
            edits[-1].new += line[1:]
        elif rules and not edits and line.startswith("  "):
            rules[-1].sentence += " " + line.strip()
        else:
            raise Trouble(f"line {number}: neither group, rule nor edit: {line}")
    return [(group, rules) for group, rules in groups if rules]


def faults_in(rules):
    """What a rule lacks, whatever the core is like."""
    for rule in rules:
        if not rule.edits:
            yield f"line {rule.line}: rule {rule.name}: no edit breaks it"
        for edit in rule.edits:
            if not re.search(r"\bbroken\b", edit.new) or re.search(r"\bbroken\b", edit.old):
                yield (
                    f"line {edit.line}: rule {rule.name}: what stands behind `+`, and nothing "
                    "else, asks whether the rule is `broken`"
                )


def pattern_of(text):
    """Finds a text however its tokens are spaced and wrapped."""
    tokens = re.findall(r"\w+|\S", text)
    pattern = re.escape(tokens[0])
    for before, token in zip(tokens, tokens[1:]):
        words = re.match(r"\w", before) and re.match(r"\w", token)
        pattern += (r"\s+" if words else r"\s*") + re.escape(token)
    begin = r"\b" if re.match(r"\w", tokens[0]) else ""
    end = r"\b" if re.match(r"\w", tokens[-1]) else ""
    return re.compile(begin + pattern + end)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def places_of(rule, edit, files):
    """Pairs of path and match: what the edit replaces."""
    pattern = pattern_of(edit.old)
    found = [(path, match) for path, text in files.items() for match in pattern.finditer(text)]
    if len(found) == 1:
        return found[0]
    where = ", ".join(f"{path}:{line_of(files[path], match.start())}" for path, match in found)
    raise Trouble(
        f"line {edit.line}: rule {rule.name}: this text must stand in the core exactly once, and "
        + (f"stands in {where}" if found else "is not there")
        + f"; write the edit anew for what the core says now:\n   {edit.old}"
    )


def broken_core(rules, files):
    """The files, a dictionary from path to text, with all edits, each at its line."""
    faults = list(faults_in(rules))
    edits = {path: [] for path in files}
    for rule in rules:
        for edit in rule.edits:
            try:
                path, match = places_of(rule, edit, files)
            except Trouble as trouble:
                faults += trouble.args
                continue
            asks = f"swarmpi::broken(swarmpi::Rule::{rule.name})"
            new = re.sub(r"\bbroken\b", asks, edit.new.strip()) + "\n" * match[0].count("\n")
            edits[path].append((match.start(), match.end(), new, rule.name))
    for path, changes in edits.items():
        changes.sort(reverse=True)
        for (begin, *_, later), (_, end, _, earlier) in zip(changes, changes[1:]):
            if end > begin:
                faults.append(f"rules {earlier} and {later} edit the same text of {path}")
    if faults:
        raise Trouble(*faults)
    return {path: edited(path, text, edits[path]) for path, text in files.items()}


def edited(path, text, changes):
    """A file with its changes, the last first; the compiler names lines of the original."""
    if not changes:
        return text
    for begin, end, new, _ in changes:
        text = text[:begin] + new + text[end:]
    return f'#include "broken_rules.hpp"\n#line 1 "{path}"\n{text}'


def write(path, text):
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main():
    if len(sys.argv) != 4:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    source, core, folder = map(Path, sys.argv[1:])
    files = {
        path.relative_to(core.parent).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(core.rglob("*.[ch]pp"))
        if "_test." not in path.name
    }
    try:
        groups = rules_of(source.read_text(encoding="utf-8"))
        rules = [rule for _, of_group in groups for rule in of_group]
        for path, text in broken_core(rules, files).items():
            write(folder / path, text)
    except Trouble as trouble:
        print("\n".join(f"{source}: {fault}" for fault in trouble.args), file=sys.stderr)
        return 1
    names = [rule.name for rule in rules]
    strings = ", ".join(f'"{name}"' for name in names)
    write(folder / "broken_rules.hpp", HEADER.format(names=", ".join(names), strings=strings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
