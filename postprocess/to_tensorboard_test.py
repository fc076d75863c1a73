#!/usr/bin/env python3
"""to_tensorboard.py writes event files with sound records and refuses all else: 0 if so, 77 if it
cannot run."""

import os
import struct
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

SCRIPT = Path(__file__).with_name("to_tensorboard.py")
STEPS = 200  # numbers of steps take one byte, and two
END_S = 1.7e9  # when the run files were last changed


def convert(*arguments):
    command = [sys.executable, "-W", "error", str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def write_run(path, steps=STEPS):
    with h5py.File(path, "w") as file:
        times_s = 0.5 + np.arange(steps + 1)
        file["steps/step"] = np.arange(steps + 1)
        file["steps/loss"] = np.concatenate([[9.0], 1 / (1 + np.arange(steps))])
        file["steps/grad_norm"] = np.where(np.arange(steps + 1) == 3, np.nan, 0.25)
        file["steps/lr"] = np.full(steps + 1, 1e-3)
        file["steps/skipped"] = (np.arange(steps + 1) == 3).astype(np.uint8)
        file["steps/time_s"] = times_s
        file["validation/step"] = np.array([0, 2])
        file["validation/loss"] = np.array([4.5, 1e300])
        file["throughput/time_s"] = times_s[[0, 1, 4]] if steps > 3 else times_s
        file["throughput/tokens_per_s"] = np.arange(3.0) if steps > 3 else times_s
    os.utime(path, (END_S, END_S))


def crc32c(data):
    """By the definition, bit for bit."""
    crc = 2**32 - 1
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 2**32 - 1


def is_masked_crc(stored, data):
    rotated = (struct.unpack("<I", stored)[0] - 0xA282EAD8) % 2**32
    return (rotated << 15 | rotated >> 17) % 2**32 == crc32c(data)


def records_of(path):
    data, at = path.read_bytes(), 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        content = data[at + 12 : at + 12 + length]
        assert is_masked_crc(data[at + 8 : at + 12], data[at : at + 8])
        assert is_masked_crc(data[at + 12 + length : at + 16 + length], content)
        yield content
        at += 16 + length
    assert at == len(data)


def varint(data, at):
    number = shift = 0
    while data[at] & 0x80:
        number, shift, at = number | (data[at] & 0x7F) << shift, shift + 7, at + 1
    return number | data[at] << shift, at + 1


def fields(data):
    """(number, value) of each field of a message of protobuf."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        size = {1: 8, 5: 4}.get(key & 7)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            if size is None:
                size, at = varint(data, at)
            value, at = data[at : at + size], at + size
        yield key >> 3, value


def scalars_in(path):
    """(version, {step: {tag: value}}, {step: wall time}) of an event file."""
    version, *events = [dict(fields(content)) for content in records_of(path)]
    scalars, times_s = {}, {}
    for event in events:
        values = [dict(fields(value)) for number, value in fields(event[5]) if number == 1]
        found = {value[1].decode(): struct.unpack("<f", value[2])[0] for value in values}
        assert event[2] not in scalars and len(found) == len(values)
        scalars[event[2]], times_s[event[2]] = found, struct.unpack("<d", event[1])[0]
    return version[3], scalars, times_s


def test_all_scalars_come_back(folder):
    run, out = folder / "mine" / "RUN.h5", folder / "events"
    run.parent.mkdir()
    write_run(run)
    done = convert(run, "--out", out)
    assert done.returncode == 0, done.stderr
    path = out / "mine" / "events.out.tfevents.swarmpi"
    assert done.stdout.split() == [str(path)]
    version, scalars, times_s = scalars_in(path)
    assert version == b"brain.Event:2"
    assert list(scalars) == list(range(STEPS + 1)), "steps in order"
    assert scalars[0] == {"validation_loss": 4.5}, "step 0 only measures"
    lr = float(np.float32(1e-3))
    assert scalars[1] == {"loss": 1, "lr": lr, "grad_norm": 0.25, "tokens_per_s": 1}
    assert scalars[2] == {"loss": 0.5, "lr": lr, "grad_norm": 0.25, "validation_loss": np.inf}
    assert scalars[3] == {"loss": float(np.float32(1 / 3)), "lr": lr}, "it was skipped"
    assert scalars[4] == {"loss": 0.25, "lr": lr, "grad_norm": 0.25, "tokens_per_s": 2}
    assert scalars[STEPS]["loss"] == float(np.float32(1 / STEPS))
    assert times_s[STEPS] == END_S and times_s[1] == END_S - STEPS + 1


def test_several_runs_and_again(folder):
    runs = [folder / "mine" / "RUN.h5", folder / "yours" / "RUN.h5"]
    runs[1].parent.mkdir()
    write_run(runs[1], steps=2)
    for steps in (2, 5):
        write_run(runs[1], steps)
        done = convert(*runs, "--out", folder / "both")
        assert done.returncode == 0, done.stderr
        paths = sorted(path.relative_to(folder / "both") for path in (folder / "both").rglob("*.*"))
        assert [path.parts[0] for path in paths] == ["mine", "yours"], paths
        assert list(scalars_in(folder / "both" / paths[1])[1]) == list(range(steps + 1))


def test_refused(folder):
    run = folder / "mine" / "RUN.h5"
    (folder / "text.h5").write_text("step,loss\n")
    with h5py.File(folder / "foreign.h5", "w") as file:
        file["weights/values"] = np.zeros(3)
    write_run(folder / "later.h5")
    with h5py.File(folder / "later.h5", "a") as file:
        file.attrs["format"] = "swarmpi run 9"
    write_run(folder / "empty.h5", steps=0)
    with h5py.File(folder / "empty.h5", "a") as file:
        for name in ("validation/step", "validation/loss"):
            del file[name]
            file[name] = np.zeros(0)
    for runs, out, reason in (
        ([folder / "missing.h5"], "out", "cannot read"),
        ([folder / "text.h5"], "out", "cannot read"),
        ([folder], "out", "is a folder: name the run file in it"),
        ([folder / "foreign.h5"], "out", "is not a run file"),
        ([folder / "later.h5"], "out", "(`swarmpi run 9`) is in version 9 of its format"),
        ([folder / "empty.h5"], "out", "has no step yet"),
        ([run, folder / "mine" / ".." / "mine" / "RUN.h5"], "out", "named twice"),
        ([run], "text.h5", "cannot write"),
    ):
        done = convert(*runs, "--out", folder / out)
        assert done.returncode == 2 and reason in done.stderr, (reason, done.stderr)
        assert len(done.stderr.splitlines()) == 1, done.stderr
    assert not (folder / "out").exists()


def main():
    assert crc32c(b"123456789") == 0xE3069283, "of the test itself"
    with tempfile.TemporaryDirectory() as name:
        test_all_scalars_come_back(Path(name))
        test_several_runs_and_again(Path(name))
        test_refused(Path(name))
    print("to_tensorboard.py: all good")


if __name__ == "__main__":
    main()
