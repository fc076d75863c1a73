#!/usr/bin/env python3
"""Writes the curves of run files as event files of TensorBoard: `tensorboard --logdir FOLDER`.

usage: to_tensorboard.py RUN.h5 [RUN2.h5 ...] --out FOLDER

Each run has a folder of its own in FOLDER, named by what tells the paths apart. Scalars by step:
loss, grad_norm, lr, tokens_per_s, and validation_loss where there is one; TensorBoard keeps them in
32 bits. Steps that were skipped have no grad_norm. Wall times are those of the run, as if it had
ended when its file was last changed. Written again, an event file is replaced.

Needs h5py and numpy alone. Exit status 0, or 2 with one line that says what is wrong.
"""

import argparse
import struct
import sys
from pathlib import Path

import numpy as np

from format_version import opened_run
from run_names import short_names
from trouble import Trouble, exit_status
from whole_file import write_whole

EVENTS = "events.out.tfevents.swarmpi"
POLYNOMIAL = 0x82F63B78  # of CRC-32C, lowest bit first


def crc_table():
    table = []
    for remainder in range(256):
        for _ in range(8):
            remainder = remainder >> 1 ^ POLYNOMIAL * (remainder & 1)
        table.append(remainder)
    return table


CRC_TABLE = crc_table()


def masked_crc(data):
    """CRC-32C, rotated and shifted as the format of records wants it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC_TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def record(data):
    length = struct.pack("<Q", len(data))
    return (
        length + struct.pack("<I", masked_crc(length)) + data + struct.pack("<I", masked_crc(data))
    )


def varint(number):
    groups = [number & 0x7F]
    while number := number >> 7:
        groups.append(number & 0x7F)
    return bytes([group | 0x80 for group in groups[:-1]] + groups[-1:])


def message(number, content):
    """A field of bytes: a text, or a message within a message."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def event(wall_time_s, step, content):
    """Event: wall_time (1), step (2), and its content."""
    return struct.pack("<Bd", 1 << 3 | 1, wall_time_s) + varint(2 << 3) + varint(step) + content


def summary(scalars):
    """Event.summary (5) of Summary.value (1), each with tag (1) and simple_value (2)."""
    values = [
        message(1, message(1, tag.encode()) + struct.pack("<Bf", 2 << 3 | 5, value))
        for tag, value in scalars.items()
    ]
    return message(5, b"".join(values))


def single(value):
    """The nearest number of 32 bits, infinite where it is too large."""
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def scalars_of(file):
    """[(time in s, step, {tag: value})] of a run file, in the order of the steps."""
    rows = {name: file["steps"][name][:] for name in ("loss", "grad_norm", "lr", "skipped")}
    steps, times_s = file["steps/step"][:].tolist(), file["steps/time_s"][:].tolist()
    speeds = dict(zip(file["throughput/time_s"][:], file["throughput/tokens_per_s"][:]))
    found = {step: {} for step in steps}
    for i, (step, time_s) in enumerate(zip(steps, times_s)):
        if step == 0:
            continue  # it only measures, and trains nothing
        found[step] = {"loss": rows["loss"][i], "lr": rows["lr"][i]}
        if not rows["skipped"][i]:
            found[step]["grad_norm"] = rows["grad_norm"][i]
        if time_s in speeds:
            found[step]["tokens_per_s"] = speeds[time_s]
    for step, loss in zip(file["validation/step"][:].tolist(), file["validation/loss"][:]):
        if step in found:
            found[step]["validation_loss"] = loss
    return [(time_s, step, found[step]) for step, time_s in zip(steps, times_s) if found[step]]


def events_of(path):
    """The bytes of an event file."""
    with opened_run(path) as file:
        scalars = scalars_of(file)
    if not scalars:
        raise Trouble(f"{path} has no step yet")
    start_s = path.stat().st_mtime - scalars[-1][0]
    records = [record(event(start_s, 0, message(3, b"brain.Event:2")))]
    for time_s, step, values in scalars:
        exact = {tag: single(value) for tag, value in values.items()}
        records.append(record(event(start_s + time_s, step, summary(exact))))
    return b"".join(records)


def convert(runs, folder):
    """Writes an event file for each run; returns their paths."""
    runs = [run.resolve() for run in runs]
    if len(set(runs)) < len(runs):
        raise Trouble("a run file is named twice")
    written = []
    for run, name in zip(runs, short_names(runs)):
        events = events_of(run)
        path = folder / name.strip("/").removesuffix(".h5") / EVENTS
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, lambda file: file.write(events))
        except OSError as error:
            raise Trouble(f"cannot write {path}: {error.strerror}") from error
        written.append(path)
    return written


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN.h5", help="run files")
    parser.add_argument("--out", type=Path, required=True, help="what --logdir shall be")
    arguments = parser.parse_args()
    paths = convert(arguments.runs, arguments.out)
    print("\n".join(map(str, paths)))


if __name__ == "__main__":
    sys.exit(exit_status(main))
