#!/usr/bin/env python3
"""Writes what a measurement has found to a JSON file: the record of one run of one tool.

usage: record.py --record FILE -- COMMAND...

A tool written in Python takes `--record FILE` itself, through this module. A tool in another
language prints, with --json, a line with a JSON object: {"what": a sentence, "figures": {...}} and,
where it has them, "samples". Given such a COMMAND, record.py runs it, shows what it prints, and
writes the record. Exit status: that of COMMAND; 2 if it has printed no such line.

A record has "tool" (the command line), "what" (one sentence), "date", "commit" (of this checkout),
"program" (the version of swarmpi that was measured), "cpu", "cores" (that this process may use),
"figures" (numbers by name; the name ends with the unit) and "samples" (what they were made from).
"""

import argparse
import datetime
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

if __name__ == "__main__":  # also when run by hand
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.program import BINARY, DEADLINE_S, ROOT
from whole_file import write_text


def add_option(parser):
    """Adds --record to a tool's options."""
    parser.add_argument("--record", metavar="FILE.json", type=Path, help="where to write a record")


def first_line_of(*command):
    """The first line that a command prints; "unknown" if it does not run, or fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=DEADLINE_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return (done.stdout.strip() or "unknown").splitlines()[0]


def cpu_model():
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            names = [line.partition(":")[2].strip() for line in file if "model name" in line]
    except OSError:
        names = []
    return names[0] if names else "unknown"


def circumstances(program):
    """When and where this process runs, and with which code: what every record holds."""
    now = datetime.datetime.now(datetime.timezone.utc)
    return {
        "date": now.isoformat(timespec="seconds"),
        "commit": first_line_of("git", "-C", str(ROOT), "describe", "--always", "--dirty"),
        "program": first_line_of(program, "--version"),
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
    }


def write(path, what, figures, samples=None, tool=None, program=BINARY):
    """Writes a record; does nothing without a path. `tool` is the command line if not our own."""
    if path is None:
        return
    record = {"tool": shlex.join(tool or sys.argv), "what": what, **circumstances(program)}
    record["figures"] = figures
    if samples is not None:
        record["samples"] = samples
    write_text(path, json.dumps(record, indent=1) + "\n")


def found_in(line):
    """What this line of a tool's output has measured; None for any other line."""
    try:
        found = json.loads(line) if line.startswith("{") else None
    except json.JSONDecodeError:
        return None
    return found if isinstance(found, dict) and {"what", "figures"} <= set(found) else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_option(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command or options.record is None:
        parser.error("a file to write and a command are needed")
    measured = None
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            measured = found_in(line) or measured
    if measured is None:
        print(f"record.py: no figures from {shlex.join(command)}", file=sys.stderr)
        return process.returncode or 2
    write(options.record, measured["what"], measured["figures"], measured.get("samples"), command)
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
