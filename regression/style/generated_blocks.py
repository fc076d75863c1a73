"""What stands in the generated blocks of the documentation: see generated_docs.py.

BLOCKS names for each block its page and the function that makes it from its source: what `swarmpi
check --reference` prints ($SWARMPI, or build/swarmpi), regression/tests/rules.txt,
regression/tests/mutations.txt, and the records of regression/records.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import textwrap
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import break_rules
from harness.markdown import cell, table
from measure import hang_times

RULES = "regression/tests/rules.txt"
KNOWN = "regression/tests/mutations.txt"
RECORDS = "regression/records"
DEADLINE_S = 30
README_COLUMNS = 120
SECTIONS = (
    "Speed and memory of one peer",
    "The same bits, whatever happens",
    "What a death costs",
    "What being a swarm costs",
)


class Trouble(Exception):
    """A source or a page is not as it must be; says which, and what to do."""


def read(root, name):
    try:
        return (root / name).read_text(encoding="utf-8")
    except OSError as error:
        raise Trouble(f"{name}: {error.strerror}") from error


# ==== The deck reference


KEY = re.compile(r"^  (\w+)(?: = (.*?))?\s{2,}(\S.*)$")
SECTION = re.compile(r"^(\[\[?[\w.]+\]\]?)(?:\s+(\S.*))?$")
ONLY = re.compile(r" ?\[this version: only (.*?)\]")
REQUIRED = "; must be given"


def printed_reference(root):
    """What the program prints about all keys of a deck."""
    program = os.environ.get("SWARMPI") or str(root / "build" / "swarmpi")
    command = [program, "check", "--reference"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=DEADLINE_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Trouble(f"{' '.join(command)}: {error}: build it, or name it in $SWARMPI") from error
    return done.stdout


def parsed_key(head, meaning):
    """A key of the reference from its two lines, as a dictionary."""
    name, default, takes = head.groups()
    required = takes.endswith(REQUIRED)
    only = ONLY.search(meaning)
    resumes = meaning.endswith(" [*]")
    meaning = ONLY.sub("", meaning.removesuffix(" [*]")).strip()
    values = re.findall(r'"[^"]*"', only.group(1)) if only else []
    return {
        "name": name,
        "takes": takes.removesuffix(REQUIRED),
        "default": None if required else default,
        "meaning": meaning,
        "resumes": resumes,
        "values": values,  # that this version takes; empty: all
        "later": only is not None and len(values) < 2,  # this version takes the default only
    }


def parsed_reference(printed):
    """The reference as a list of sections: each a header, its help and its keys.

    Trouble if a line is not understood.
    """
    sections = []
    lines = iter(printed.partition("\n\n")[2].splitlines())
    for line in lines:
        header, key = SECTION.match(line), KEY.match(line)
        if not line:
            continue
        if header:
            sections.append((header.group(1), header.group(2) or "", []))
        elif key and sections:
            meaning = next(lines, "")
            if not meaning.startswith("      "):
                raise Trouble(f"check --reference: no line explains the key {key.group(1)}")
            sections[-1][2].append(parsed_key(key, meaning.strip()))
        else:
            raise Trouble(f"check --reference: generated_docs.py does not understand: {line}")
    if not sections:
        raise Trouble("check --reference prints no section")
    return sections


def shown_values(text):
    """Values in quotes as code."""
    return cell(re.sub(r'"[^"]*"', lambda value: f"`{value.group()}`", text))


def key_row(key, section=""):
    meaning = cell(key["meaning"])
    if key["values"] and not key["later"]:
        values = ", ".join(f"`{value}`" for value in key["values"])
        meaning += f". This version takes only {values}"
    return (
        f"`{section}{key['name']}`" + (" \\*" if key["resumes"] else ""),
        shown_values(re.sub(r"^an? ", "", key["takes"])),
        "must be given" if key["default"] is None else f"`{key['default']}`",
        meaning,
    )


def deck_reference(root):
    sections = parsed_reference(printed_reference(root))
    heads = ["key", "type and range", "default", "meaning"]
    parts = [
        "Keys with \\* may differ from the checkpoint's deck when a run is resumed. An integer\n"
        "may be written as `1e3`.\n"
    ]
    refused = []
    for header, text, keys in sections:
        prefix = header.strip("[]") + "."
        parts.append(f"### `{header}`\n")
        if text:
            parts.append(textwrap.fill(text[0].upper() + text[1:] + ".", 100) + "\n")
        rows = [key_row(key) for key in keys if not key["later"]]
        parts.append(table(heads, rows))
        refused += [key_row(key, prefix) for key in keys if key["later"]]
    if refused:
        parts.append("### Not available in this version\n")
        parts.append(
            "The schema knows these keys. A deck that gives one of them another value than its\n"
            "default is refused.\n"
        )
        parts.append(table(heads, refused))
    return "\n".join(parts)


# ==== Rules that are broken on purpose


def known_of(text):
    """For each rule the seed of the schedule, or the name of the test, that notices it."""
    lines = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return {words[0]: words[1] for words in lines if len(words) > 1}


def rules_of(source):
    try:
        return break_rules.rules_of(source)
    except break_rules.Trouble as trouble:
        raise Trouble(f"{RULES}: {trouble}") from trouble


def rule_row(rule, record, known):
    name = rule.name
    if not rule.sentence:
        raise Trouble(f"{RULES}: rule {name} has no sentence")
    if name not in known:
        raise Trouble(f"{KNOWN}: no schedule or test for rule {name}")
    if name not in record:
        raise Trouble(f"{RECORDS}/mutations.json: no record of rule {name}")
    schedules = record[name].get("schedules")
    if (schedules is not None) != known[name].isdigit():
        raise Trouble(
            f"rule {name}: {KNOWN} has {known[name]}, but {RECORDS}/mutations.json says that "
            + (f"schedule {schedules} noticed it" if schedules else "no schedule noticed it")
        )
    shown = f"{cell(rule.sentence).rstrip('.')} (`{name}`)"
    if schedules is None:
        return (shown, "-", f"test `{known[name]}`")
    return (shown, f"{schedules:,}", cell(record[name]["failure"]))


def mutations(root):
    groups = rules_of(read(root, RULES))
    known = known_of(read(root, KNOWN))
    measured = json.loads(read(root, f"{RECORDS}/mutations.json"))
    record = measured["figures"]["rules"]
    names = [rule.name for _, rules in groups for rule in rules]
    for source, found in ((KNOWN, known), (f"{RECORDS}/mutations.json", record)):
        for name in sorted(set(found) - set(names)):
            raise Trouble(f"{source}: {name} is no rule of {RULES}")
    rows = []
    for group, rules in groups:
        if group:
            rows.append((f"**{group}**", "", ""))
        rows += [rule_row(rule, record, known) for rule in rules]
    one_a_line = "`;\n`".join(measured["tool"].split("; "))
    seen = [record[name]["schedules"] for name in names if record[name].get("schedules")]
    return (
        f"Of {len(names)} rules torture notices {len(seen)} when they are broken, "
        f"{sum(count <= 4000 for count in seen)} of them within\n4,000 schedules. For each of the "
        f"other {len(names) - len(seen)} a unit test fails.\n"
        f"Measured with\n`{one_a_line}`:\n{origin(measured)}.\n\n"
        + table(["rule that is broken", "schedules", "first failure, or test"], rows)
    )


# ==== Figures


def origin(record):
    """When, with which program and where a record was measured."""
    cores = record.get("cores", record.get("cpus"))
    commit = record.get("commit") or re.search(r"\w+(?=\))", record["swarmpi_version"]).group()
    where = "" if record["cpu"] == "unknown" else f" on {record['cpu']}"
    transcribed = "; transcribed by hand" if record.get("transcribed") else ""
    return f"{record['date'][:10]}, commit {commit}{where}, {cores} cores{transcribed}"


def records_of(root):
    """All records, by the name of their file."""
    records = {}
    for path in sorted((root / RECORDS).glob("*.json")):
        try:
            records[path.name] = json.loads(path.read_text(encoding="utf-8"))
        except json.JSONDecodeError as error:
            raise Trouble(f"{RECORDS}/{path.name}: {error}") from error
    return records


def figures_of(record):
    """The figures of a record by name.

    Of pytorch_speed.py also what its samples are good for: the price of exact sums, and the larger
    of two ratios of memory.
    """
    figures = dict(record.get("figures", {}))
    samples = record.get("samples", record)
    for row in samples.get("rows", ()) if isinstance(samples, dict) else ():
        if "summary" not in row:
            continue
        shape = row["shape"]["name"]
        tokens = row["shape"]["sequences"] * row["shape"]["context"]
        for name, value in row["summary"].items():
            figures[f"{shape}_{row['precision']}_{name}"] = value
        figures[f"{shape}_{row['precision']}_exact_sums"] = statistics.median(
            run["exact_sums_s_per_step"] * run["tokens_per_s_median"] / tokens
            for run in row["swarmpi"]
        )
        ratio = row["summary"]["memory_ratio"]
        figures[f"{shape}_memory_ratio"] = max(ratio, figures.get(f"{shape}_memory_ratio", 0))
    return figures


def rows_of(records):
    """All rows that shall be shown, with the figures filled in, in the order of the sections."""
    rows = []
    for file, record in records.items():
        for row in record.get("rows", ()):
            if "what" not in row:
                continue
            source = row.get("record", file)
            if source not in records:
                raise Trouble(f"{RECORDS}/{file}: there is no record {source}")
            figures = figures_of(records[source])
            try:
                shown = {**row, "figure": row["figure"].format(**figures), "source": source}
                brief = row.get("brief", {})
                shown["brief"] = {key: text.format(**figures) for key, text in brief.items()}
            except (KeyError, IndexError, ValueError) as error:
                raise Trouble(
                    f"{RECORDS}/{file}: row `{row['what']}`: {source} has no figure {error}"
                ) from error
            if row.get("section") not in SECTIONS:
                raise Trouble(f"{RECORDS}/{file}: row `{row['what']}`: section is not in SECTIONS")
            rows.append(shown)
    return sorted(rows, key=lambda row: SECTIONS.index(row["section"]))


def shown_command(row):
    needs = f" ({cell(row['needs'])})" if "needs" in row else ""
    return f"`{cell(row['command'])}`{needs}"


def link(file):
    return f"[{file.removesuffix('.json')}](../{RECORDS}/{file})"


def all_figures(root):
    records = records_of(root)
    rows = rows_of(records)
    parts = []
    for section in SECTIONS:
        chosen = [row for row in rows if row["section"] == section]
        if chosen:
            parts.append(f"### {section}\n")
            parts.append(
                table(
                    ["what", "figure", "command", "record"],
                    [
                        (
                            cell(row["what"]),
                            cell(row["figure"]),
                            shown_command(row),
                            link(row["source"]),
                        )
                        for row in chosen
                    ],
                )
            )
    parts.append("### Where and when\n")
    used = dict.fromkeys(row["source"] for row in rows)
    parts.append(
        table(["record", "when and where"], [(link(name), origin(records[name])) for name in used])
    )
    return "\n".join(parts)


def five_figures(root):
    rows = [row for row in rows_of(records_of(root)) if row.get("five")]
    if len(rows) != 5:
        raise Trouble(f'{RECORDS}: {len(rows)} rows have "five": true; README.md shows five')
    shown = table(
        ["what", "figure", "command"],
        [
            (
                cell(row["brief"].get("what", row["what"])),
                cell(row["brief"].get("figure", row["figure"])),
                f"`{cell(row['brief'].get('command', row['command']))}`",
            )
            for row in rows
        ],
    )
    for line in shown.splitlines():
        if len(line) > README_COLUMNS:
            raise Trouble(f"README.md: a row of {len(line)} columns, shorten its `brief`: {line}")
    return shown


def torture_hash(root):
    record = json.loads(read(root, f"{RECORDS}/torture_hash.json"))
    figures = record["figures"]
    return (
        "```\n"
        f"$ {record['tool']}\n"
        f"hash of all {figures['schedules']} schedules: {figures['hash']}\n"
        "```\n\n"
        f"{origin(record)}.\n"
    )


def hangs(root):
    record = json.loads(read(root, f"{RECORDS}/hangs.json"))
    times = record["figures"]
    return (
        f"`{record['tool']}`:\n{origin(record)};\n{times['ranks_at_once']} ranks at a time, load "
        f"{times['largest_load']:g} at most.\n\n" + hang_times.shown(record["samples"])
    )


BLOCKS = {
    "hangs": ("docs/faults.md", hangs),
    "deck reference": ("docs/deck.md", deck_reference),
    "mutations": ("docs/testing.md", mutations),
    "torture hash": ("docs/testing.md", torture_hash),
    "figures": ("docs/performance.md", all_figures),
    "figures five": ("README.md", five_figures),
}
