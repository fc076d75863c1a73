#!/usr/bin/env python3
"""Writes the tables of a run file as CSV, one file a table: RUN.steps.csv beside RUN.h5 and so on.

Columns have the names that docs/files.md explains; `step` and other keys come first. Numbers are
written so that reading them gives the same bits; NaN is an empty field. Reads the HDF5 file alone.
Exit status 0, or 2 with one line that says what is wrong.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

from format_version import opened_run
from hdf5 import h5py
from trouble import Trouble, exit_status
from whole_file import write_csv

KEYS = ("step", "time_s", "kind", "peer", "stage")


def cells(column):
    """A column's values as text."""
    if h5py.check_string_dtype(column.dtype):
        return list(column.asstr()[:])
    values = column[:]
    if np.issubdtype(values.dtype, np.floating):
        return ["" if np.isnan(value) else repr(float(value)) for value in values]
    return [str(value) for value in values]


def tables_of(file):
    """Name -> {column: dataset}, of all groups that are tables."""
    tables = {}
    for name, group in file.items():
        columns = dict(group.items()) if isinstance(group, h5py.Group) else {}
        is_table = columns and all(
            isinstance(column, h5py.Dataset) and column.ndim == 1 for column in columns.values()
        )
        if is_table and len({len(column) for column in columns.values()}) == 1:
            tables[name] = columns
    return tables


def in_order(columns):
    return [name for name in KEYS if name in columns] + sorted(set(columns) - set(KEYS))


def write(path, columns):
    names = in_order(columns)
    rows = zip(*(cells(columns[name]) for name in names))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_csv(path, names, rows)
    except OSError as error:
        raise Trouble(f"cannot write {path}: {error.strerror}") from error


def convert(run, folder, wanted):
    """Writes the tables; returns the paths."""
    written = []
    with opened_run(run) as file:
        tables = tables_of(file)
        if "deck" not in file.attrs or not tables:
            raise Trouble(f"{run} is not a run file of SwarMPI")
        for name in wanted or sorted(tables):
            if name not in tables:
                raise Trouble(f"{run} has no table {name}: it has {', '.join(sorted(tables))}")
        for name in wanted or sorted(tables):
            path = folder / f"{run.stem}.{name}.csv"
            write(path, tables[name])
            written.append(path)
    return written


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="the run file, e.g. RUN.h5")
    parser.add_argument("--tables", nargs="+", help="only these, e.g. steps validation")
    parser.add_argument("-o", "--output", type=Path, help="folder (default: that of the run file)")
    arguments = parser.parse_args()
    paths = convert(arguments.run, arguments.output or arguments.run.parent, arguments.tables)
    print("\n".join(map(str, paths)))


if __name__ == "__main__":
    sys.exit(exit_status(main))
