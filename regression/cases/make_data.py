#!/usr/bin/env python3
"""Makes the data of the regression cases: the same bytes on every machine.

usage: make_data.py FOLDER    writes text.bin (ASCII words) and tokens.bin (16-bit, below 301)
"""

import sys
from array import array
from pathlib import Path

WORDS = (
    "a swarm of peers trains one model while some leave and others join "
    "each step adds what every microbatch gave in any order and loses nothing"
).split()


def numbers(state):
    """Knuth's linear congruential generator of MMIX; the high bits are good enough for text."""
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        yield state >> 33


def text(size_bytes):
    draw = numbers(1)
    words = []
    length = 0
    while length < size_bytes:
        # The smaller of two draws: some words are frequent, others rare, as in a language.
        word = WORDS[min(next(draw) % len(WORDS), next(draw) % len(WORDS))]
        words.append(word + (".\n" if next(draw) % 9 == 0 else " "))
        length += len(words[-1])
    return "".join(words).encode()[:size_bytes]


def tokens(count):
    """Each token is one of three successors of the one before."""
    draw = numbers(2)
    sequence = [0]
    while len(sequence) < count:
        sequence.append((sequence[-1] * 7 + 1 + 31 * (next(draw) % 3)) % 301)
    return sequence


def main():
    folder = Path(sys.argv[1])
    (folder / "text.bin").write_bytes(text(20_000))
    stored = array("H", tokens(6_000))
    if sys.byteorder == "big":
        stored.byteswap()
    (folder / "tokens.bin").write_bytes(stored.tobytes())


main()
