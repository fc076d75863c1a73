"""Files of safetensors: 8 bytes of length, a header in JSON, and the elements of all tensors."""

import json
import math
import struct

import numpy as np

from trouble import Trouble

ELEMENT_BYTES = {"F32": 4, "F16": 2, "BF16": 2}
LONGEST_HEADER = 100_000_000  # as the format's own library has it


def header_of(shapes):
    """The length of the header and the header, of float32 tensors: (name, shape) each.

    It is padded to whole words of 8 bytes.
    """
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in shapes:
        first, end = end, end + 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [first, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


class StoredTensor:
    """A tensor of a file, whose elements are read when they are asked for."""

    def __init__(self, path, name, entry, data_at):
        self.path, self.name = path, name
        try:
            self.dtype, self.shape = str(entry["dtype"]), tuple(map(int, entry["shape"]))
            first, last = map(int, entry["data_offsets"])
        except (KeyError, TypeError, ValueError) as error:
            raise Trouble(f"{path} is damaged: its header does not describe {name}") from error
        self.at, self.bytes = data_at + first, last - first
        whole = 0 <= first and self.at + self.bytes <= path.stat().st_size
        element_bytes = ELEMENT_BYTES.get(self.dtype)
        if element_bytes:
            whole = whole and self.bytes == element_bytes * math.prod(self.shape)
        if not whole:
            raise Trouble(f"{path} is damaged: it does not hold what its header says of {name}")

    def read(self):
        """The elements as float32: 16 bits are widened, which changes no value."""
        if self.dtype not in ELEMENT_BYTES:
            known = ", ".join(ELEMENT_BYTES)
            raise Trouble(f"{self.path}: {self.name} is of type {self.dtype}, not {known}")
        kind = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}[self.dtype]
        count = math.prod(self.shape)
        values = np.fromfile(self.path, kind, count, offset=self.at)
        if self.dtype == "BF16":
            values = (values.astype("<u4") << 16).view("<f4")
        return values.astype(np.float32, copy=False).reshape(self.shape)


def tensors_of(path):
    """Name -> StoredTensor."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        start = file.read(8)
        (length,) = struct.unpack("<Q", start) if len(start) == 8 else (size,)
        if length > min(size - 8, LONGEST_HEADER):
            raise Trouble(f"{path} is no file of safetensors, or is cut off")
        text = file.read(length)
    try:
        header = json.loads(text)
    except ValueError as error:
        raise Trouble(f"{path} is no file of safetensors: its header is no JSON") from error
    if not isinstance(header, dict):
        raise Trouble(f"{path} is no file of safetensors: its header is no table")
    header.pop("__metadata__", None)
    return {name: StoredTensor(path, name, entry, 8 + length) for name, entry in header.items()}
