"""Reads rows from the journal of a run, also while it is written: docs/files.md, "Frames".

No checksum is looked at, and where terms have made a row twice the newest counts.
"""

import os
import struct
from typing import NamedTuple

FRAME, MAGIC = struct.Struct("<4sIQ16x"), b"SWJ"
STEP, EVENT = 1, 4  # types of records
STEP_ROW = struct.Struct("<qddddqdQBqq")


class Step(NamedTuple):
    """Some fields of a row of /steps."""

    number: int
    time_s: float


class Event(NamedTuple):
    """A row of /events."""

    time_s: float
    step: int
    kind: str
    peer: int
    stage: int
    cost_s: float
    detail: str


def records(path):
    """Yields (type, payload) of the whole records of a term file; none where it is missing."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return
    at = 0
    while at + FRAME.size <= len(data):
        magic, kind, length = FRAME.unpack_from(data, at)
        at += FRAME.size
        if not magic.startswith(MAGIC) or at + length > len(data):
            return
        yield kind, data[at : at + length]
        at += length


def step_of(payload):
    fields = STEP_ROW.unpack(payload)
    return Step(fields[0], fields[6])


def event_of(payload):
    fields, at = [], 0
    for letter in "dqsqqds":
        if letter == "s":
            (length,) = struct.unpack_from("<Q", payload, at)
            at += 8
            fields.append(payload[at : at + length].decode())
            at += length
        else:
            fields += struct.unpack_from("<" + letter, payload, at)
            at += 8
    return Event(*fields)


def rows(folder):
    """The rows of a journal: {number: Step}, and a list of all Events in the order of time."""
    numbers = [name.removeprefix("term-") for name in os.listdir(folder)]
    steps, events = {}, []
    for term in sorted(int(number) for number in numbers if number.isdigit()):
        for kind, payload in records(os.path.join(folder, f"term-{term}")):
            if kind == STEP:
                step = step_of(payload)
                steps[step.number] = step
            elif kind == EVENT:
                events.append(event_of(payload))
    return steps, sorted(events)
