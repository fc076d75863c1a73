#!/usr/bin/env python3
"""Runs one regression case and compares it with its stored reference.

usage: run_case.py CASE reference|native|simulated|renew --swarmpi PROGRAM --work FOLDER

reference   kernels = "reference": losses, norms and state hashes are those of reference.h5, bitwise
native      kernels = "native": within tolerance.txt, whose first line says why it is that number
simulated   of a case with simulated.toml: all that its run file says is in reference.h5, bitwise
renew       runs the case as reference or simulated, and stores the result; see renew_references.sh
"""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

CASES = Path(__file__).resolve().parents[1] / "cases"
sys.path.append(str(CASES.parents[1] / "postprocess"))

from whole_file import write_whole


def tolerance_of(case):
    text = (case / "tolerance.txt").read_text()
    why, _, rest = text.partition("\n")
    match = re.search(r"^rtol = (\S+)$", rest, re.MULTILINE)
    if not match or len(why.split()) < 5:
        sys.exit(
            f"{case / 'tolerance.txt'}: expected a first line that says why, "
            "and a line `rtol = NUMBER`"
        )
    return match.group(1)


def run(command, folder):
    print("$", " ".join(str(word) for word in command), flush=True)
    status = subprocess.run(command, cwd=folder, check=False).returncode
    if status != 0:
        sys.exit(status if status > 0 else 1)


def train(swarmpi, case, kernels, work):
    """Trains the case in an empty folder; returns its run file."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    run([sys.executable, CASES / "make_data.py", work], work)
    run(
        [
            swarmpi,
            "train",
            case / "deck.toml",
            "--set",
            f"compute.kernels={kernels}",
            "--out",
            work / "RUN.h5",
            "--quiet",
        ],
        work,
    )
    return work / "RUN.h5"


def simulate(swarmpi, case, work):
    """The same for a case in virtual time. A path in its deck would be part of what is compared."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    run([swarmpi, "simulate", case / "simulated.toml", "--out", "RUN.h5", "--quiet"], work)
    return work / "RUN.h5"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case")
    parser.add_argument("mode", choices=("reference", "native", "simulated", "renew"))
    parser.add_argument("--swarmpi", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    options = parser.parse_args()

    case = CASES / options.case
    stored = case / "reference.h5"
    swarmpi = options.swarmpi.resolve()
    work = options.work.resolve() / f"{options.case}.{options.mode}"
    in_virtual_time = (case / "simulated.toml").exists()
    if options.mode == "renew":
        if in_virtual_time:
            made = simulate(swarmpi, case, work)
        else:
            made = train(swarmpi, case, "reference", work)
        write_whole(stored, lambda file: file.write(made.read_bytes()))
        print(f"stored {stored}")
        return
    if not stored.exists():
        sys.exit(f"{stored} is missing: regression/cases/renew_references.sh makes it")
    if in_virtual_time:
        made = simulate(swarmpi, case, work)
        run([swarmpi, "compare", "--all", stored, made], work)
        return
    made = train(swarmpi, case, options.mode, work)
    rtol = ["--rtol", tolerance_of(case)] if options.mode == "native" else []
    run([swarmpi, "compare", stored, made, *rtol], work)


main()
