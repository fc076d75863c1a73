#!/usr/bin/env python3
"""Simulates an experiment of the SWARM paper, and puts what is reported beside what comes out.

Experiments: A utilisation against latency, B square-cube law, C methods on 16 V100s, D mixed pools.
Into the folder OUT go NAME.md, its tables as CSV, a picture, and all run files. Their decks are in
inputs/paper. Exit status 0, or 2 with one line that says what is wrong.
"""

import python_version  # noqa: F401  (before what needs it)

import argparse
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import paper_latency
import paper_methods
import paper_pools
import paper_square_cube
from paper_runs import Study
from paper_tables import Report
from trouble import exit_status

EXPERIMENTS = {
    "A": (paper_latency, "Utilisation against round-trip time"),
    "B": (paper_square_cube, "The square-cube law"),
    "C": (paper_methods, "Methods on 16 V100s"),
    "D": (paper_pools, "Mixed pools"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--out", type=Path, help="folder (default: runs/paper/EXPERIMENT)")
    parser.add_argument("--reuse", action="store_true", help="read the run files that are there")
    arguments = parser.parse_args()
    name = arguments.experiment
    module, title = EXPERIMENTS[name]
    folder = arguments.out or Path("runs/paper") / name

    def work():
        study = Study(folder, arguments.reuse)
        report = Report(folder, name, f"Experiment {name}: {title}")
        module.experiment(study, report)
        report.write()

    return exit_status(work)


if __name__ == "__main__":
    sys.exit(main())
