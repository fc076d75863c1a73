"""Reads checkpoints: the folders step-N that docs/files.md explains. Needs h5py and numpy alone."""

import re
import tomllib
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from format_version import NEWEST_MANIFEST, NEWEST_STAGE, check_run_file, check_version
from hdf5 import h5py
from trouble import Trouble

WHAT_TO_NAME = "name a run's folder, its RUN.h5, or a checkpoint such as RUN.checkpoints/step-100"


def holds_checkpoints(folder):
    return folder.is_dir() and any(
        re.fullmatch(r"step-\d+", within.name) and within.is_dir() and not within.is_symlink()
        for within in folder.iterdir()
    )


def folder_by_deck(run_file):
    """What the deck in a run file says; None where that is the default, or cannot be known."""
    try:
        with h5py.File(run_file, "r") as file:
            check_run_file(run_file, file)
            named = tomllib.loads(str(file.attrs["deck"])).get("output", {}).get("checkpoint")
    except (OSError, KeyError, ValueError, AttributeError):
        return None
    return Path(named) if isinstance(named, str) and named else None


def of_run_file(run_file):
    """The folder of checkpoints that goes with a run file."""
    stem = run_file.stem if run_file.suffix == ".h5" else run_file.name
    beside = run_file.with_name(stem + ".checkpoints")
    for folder in (folder_by_deck(run_file), beside, run_file.with_name("checkpoints")):
        if folder and holds_checkpoints(folder):
            return folder
    raise Trouble(
        f"{run_file}: there are no checkpoints in {beside}, nor in checkpoints beside it: name the "
        "folder that the run wrote them to (its last lines say which)"
    )


def named_by(path):
    """The checkpoint, or folder of them, that a path means, as for `swarmpi sample`: of a run file
    that which goes with it, of another folder the one within."""
    if path.is_file():
        return of_run_file(path)
    if not path.is_dir() or holds_checkpoints(path):
        return path
    within = sorted(
        folder
        for folder in path.iterdir()
        if "checkpoints" in (folder.name, folder.suffix[1:]) and holds_checkpoints(folder)
    )
    if len(within) > 1:
        names = ", ".join(map(str, within))
        raise Trouble(f"{path} has checkpoints of several runs: name one of {names}")
    return within[0] if within else path


def newest(path):
    """The checkpoint at `path`, or the newest complete one in that folder."""
    if (path / "manifest").is_file():
        return path
    if (path / "manifest.damaged").exists():
        raise Trouble(f"{path} was set aside as damaged: {WHAT_TO_NAME}")
    if not path.is_dir():
        raise Trouble(f"{path} is neither a folder nor a file: {WHAT_TO_NAME}")
    complete = [
        folder
        for folder in path.iterdir()
        if re.fullmatch(r"step-\d+", folder.name)
        and not folder.is_symlink()
        and (folder / "manifest").is_file()
    ]
    if not complete:
        raise Trouble(
            f"{path} is no checkpoint that was completed, nor has it any: neither there nor in a "
            f"folder step-N below is a file `manifest`; {WHAT_TO_NAME}"
        )
    return max(complete, key=lambda folder: int(folder.name.removeprefix("step-")))


def check_file(path, digest, size, has_trailer):
    """Whether the file is there as a whole: by its size, and by the hash that stands at its end."""
    if not path.is_file():
        raise Trouble(
            f"{path} is missing, though the manifest beside it names it: copy the whole folder, or "
            "name another checkpoint"
        )
    found = path.stat().st_size
    with open(path, "rb") as file:
        file.seek(max(found - 30, 0))
        whole = not has_trailer or file.read() == f"\nswarmpi end {digest}\n".encode()
    if found != int(size) or not whole:
        raise Trouble(
            f"{path} is damaged: it is not what its manifest says; name another checkpoint"
        )


def read_manifest(folder):
    """The step, and the paths of the leader's file and of those of the stages, which are there."""
    path = folder / "manifest"
    text = path.read_text(encoding="ascii", errors="replace")
    mark = re.match(r"swarmpi checkpoint (\d+)\n", text)
    if not mark:
        raise Trouble(f"{path} is not the manifest of a checkpoint: {WHAT_TO_NAME}")
    check_version(path, int(mark[1]), NEWEST_MANIFEST)
    step = re.search(r"^step (\d+)$", text, re.MULTILINE)
    files = re.findall(r"^(leader|stage) ([^/\s]+) ([0-9a-f]{16}) (\d+)$", text, re.MULTILINE)
    paths = {"leader": [], "stage": []}
    for kind, name, digest, size in files:
        check_file(folder / name, digest, size, has_trailer=int(mark[1]) > 1)
        paths[kind].append(folder / name)
    ends = re.search(r"^end [0-9a-f]{16}\n\Z", text, re.MULTILINE)
    if not (ends and step and len(paths["leader"]) == 1 and paths["stage"]):
        raise Trouble(f"{path} is damaged: it is cut off or was changed; name another checkpoint")
    return int(step[1]), paths["leader"][0], paths["stage"]


@contextmanager
def opened(path):
    """An HDF5 file; what is wrong with it is said with its name."""
    try:
        with h5py.File(path, "r") as file:
            yield file
    except (KeyError, ValueError, RuntimeError, OSError) as error:
        raise Trouble(f"cannot read {path}: {error.args[-1]}") from error


def place_keys(first, count):
    """What elements from place `first` of the model on are mixed with in the hash of the state."""
    place = np.arange(first + 1, first + count + 1, dtype=np.uint64)
    low, high = place.astype(np.uint32), (place >> np.uint64(32)).astype(np.uint32)
    a = low * np.uint32(0x9E3779B1) + high * np.uint32(0xC2B2AE3D)
    b = low * np.uint32(0x85EBCA77) + high * np.uint32(0x27D4EB2E)
    return a, b


def hash_sum(first, weights, *moments):
    """The sum of the hashes of a tensor's elements, whose first has place `first` in the model."""
    total, stretch = 0, 1 << 20
    for at in range(0, len(weights), stretch):
        parts = [array[at : at + stretch] for array in (weights, *moments)]
        bits = [np.where(np.isnan(x), np.uint32(0x7FC00000), x.view(np.uint32)) for x in parts]
        a, b = place_keys(first + at, len(bits[0]))
        products = [(bits[0] ^ a, b | np.uint32(1))]
        if moments:
            products = [(bits[0] ^ a, bits[1] ^ b), (bits[2] ^ a, (bits[0] ^ b) | np.uint32(1))]
        total += sum(int((x.astype(np.uint64) * y).sum(dtype=np.uint64)) for x, y in products)
    return total


class Checkpoint:
    """An opened checkpoint: its deck, and its tensors by name, whichever files they lie in."""

    def __init__(self, path):
        self.folder = newest(named_by(path))
        self.step, leader, stages = read_manifest(self.folder)
        self.pieces = {}  # name -> [(first element, how many, file)]
        with opened(leader) as file:
            self.deck = tomllib.loads(str(file.attrs["deck"]))
            self.state_hash = int(file["state/hash"][0])
        for stage in stages:
            with opened(stage) as file:
                self.list_tensors(stage, file)

    def list_tensors(self, stage, file):
        mark = re.fullmatch(r"swarmpi stage (\d+)", str(file.attrs.get("format", "")))
        check_version(stage, int(mark[1]) if mark else 1, NEWEST_STAGE)
        names = file["names"].asstr()[:]
        if "first_elements" in file:
            firsts, counts = file["first_elements"][:], file["element_counts"][:]
        else:
            firsts = np.zeros(len(names), int)
            counts = [file[f"tensors/{name}/weights_0"].size for name in names]
        for name, first, count in zip(names, firsts, counts, strict=True):
            self.pieces.setdefault(str(name), []).append((int(first), int(count), stage))

    def read(self, name, shape, array="weights_0"):
        """The elements of one array of a tensor of (rows, columns), from all files that have some.

        Of an array that no file has, nothing.
        """
        values, end = [], 0
        for first, count, path in sorted(self.pieces[name]):
            with opened(path) as file:
                stored = file[f"tensors/{name}"].get(array)
                if stored is None:
                    return None
                if stored.shape not in (shape, (count,)):
                    raise Trouble(f"{path}: {name} has shape {stored.shape} instead of {shape}")
                values.append(np.asarray(stored[()], np.float32).reshape(-1))
            if first != end:
                break
            end += count
        if sum(map(len, values)) != end or end != shape[0] * shape[1]:
            raise Trouble(
                f"{self.folder}: the files that its manifest names do not hold each of the "
                f"{shape[0] * shape[1]} elements of {name} once: name another checkpoint"
            )
        return np.concatenate(values)

    def check_state(self, shapes):
        """Whether all tensors, in the order of the model, have the state hash of the step."""
        newest_sum = older_sum = first = 0
        for name, shape in shapes.items():
            newest_sum += hash_sum(
                first, *(self.read(name, shape, of) for of in ("weights_0", "moment1", "moment2"))
            )
            older = self.read(name, shape, "weights_1")
            older_sum += 0 if older is None else hash_sum(first, older)
            first += shape[0] * shape[1]
        # The hashes of early builds leave older versions of the weights out.
        if self.state_hash not in ((newest_sum + older_sum) % 2**64, newest_sum % 2**64):
            raise Trouble(
                f"{self.folder} is damaged: its tensors do not have the state hash of step "
                f"{self.step}; name another checkpoint"
            )
