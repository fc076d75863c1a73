#!/usr/bin/env python3
"""to_csv.py writes all tables of a run file and refuses all else: 0 if so, 77 if it cannot run."""

import csv
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import h5py
    import numpy as np
except ImportError as missing:
    print(f"not run: a module is missing: {missing}")
    sys.exit(77)

SCRIPT = Path(__file__).with_name("to_csv.py")


def convert(*arguments, stdout=subprocess.PIPE):
    command = [sys.executable, "-W", "error", str(SCRIPT), *map(str, arguments)]
    return subprocess.run(
        command, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=120, check=False
    )


def write_run(path):
    with h5py.File(path, "w") as file:
        file.attrs["deck"] = "[train]\n"
        file["steps/loss"] = np.array([np.nan, 1 / 3, np.float64(np.float32(0.1))])
        file["steps/step"] = np.arange(3)
        file["steps/state_hash"] = np.array([2**64 - 1, 0, 1], np.uint64)
        text = h5py.string_dtype()
        file["events/kind"] = np.array(["kill", "repair"], dtype=text)
        file["events/detail"] = np.array(['he said "no", twice', "a\nb"], dtype=text)
        file["events/time_s"] = np.array([0.25, 1e-9])


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_all_tables_come_back_bit_by_bit(folder):
    run = folder / "RUN.h5"
    write_run(run)
    done = convert(run)
    assert done.returncode == 0, done.stderr
    paths = [folder / "RUN.events.csv", folder / "RUN.steps.csv"]
    assert done.stdout.split() == [str(path) for path in paths]
    steps = rows_of(paths[1])
    assert list(steps[0]) == ["step", "loss", "state_hash"], "keys come first"
    assert [row["loss"] for row in steps[:1]] == [""], "a value that is not there"
    assert float(steps[1]["loss"]) == 1 / 3
    assert float(steps[2]["loss"]) == float(np.float32(0.1))
    assert steps[0]["state_hash"] == str(2**64 - 1)
    events = rows_of(paths[0])
    assert [row["detail"] for row in events] == ['he said "no", twice', "a\nb"]
    assert float(events[1]["time_s"]) == 1e-9


def test_some_tables_into_another_folder(folder):
    """Which is made where it is missing."""
    csv = folder / "new" / "csv"
    for _ in range(2):
        done = convert(folder / "RUN.h5", "--tables", "steps", "-o", csv)
        assert done.returncode == 0, done.stderr
        assert [path.name for path in csv.iterdir()] == ["RUN.steps.csv"]


def test_reads_a_file_when_it_cannot_be_locked(folder):
    os.environ["HDF5_USE_FILE_LOCKING"] = "TRUE"  # as some sites do
    with open(folder / "RUN.h5", "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = convert(folder / "RUN.h5", "-o", folder / "locked")
    del os.environ["HDF5_USE_FILE_LOCKING"]
    assert done.returncode == 0, done.stderr


def test_refused(folder):
    (folder / "text.h5").write_text("step,loss\n")
    with h5py.File(folder / "foreign.h5", "w") as file:
        file["weights/values"] = np.zeros(3)
    write_run(folder / "later.h5")
    with h5py.File(folder / "later.h5", "a") as file:
        file.attrs["format"] = "swarmpi run 9"
    for arguments, reason in (
        ([folder / "missing.h5"], "cannot read"),
        ([folder / "text.h5"], "cannot read"),
        ([folder], "is a folder: name the run file in it"),
        ([folder / "foreign.h5"], "is not a run file"),
        ([folder / "RUN.h5", "--tables", "losses"], "no table losses: it has events, steps"),
        ([folder / "later.h5"], "later.h5 (`swarmpi run 9`) is in version 9 of its format"),
        (
            [folder / "RUN.h5", "-o", folder / "text.h5"],
            f"cannot write {folder / 'text.h5' / 'RUN.events.csv'}: ",
        ),
    ):
        done = convert(*arguments)
        assert done.returncode == 2 and reason in done.stderr, (reason, done.stderr)
        assert len(done.stderr.splitlines()) == 1, done.stderr


def test_it_ends_quietly_where_nobody_reads_on(folder):
    reader, writer = os.pipe()
    os.close(reader)
    done = convert(folder / "RUN.h5", stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, ""), done


def main():
    with tempfile.TemporaryDirectory() as name:
        test_all_tables_come_back_bit_by_bit(Path(name))
        test_some_tables_into_another_folder(Path(name))
        test_reads_a_file_when_it_cannot_be_locked(Path(name))
        test_refused(Path(name))
        test_it_ends_quietly_where_nobody_reads_on(Path(name))
    print("to_csv.py: all good")


if __name__ == "__main__":
    main()
