#!/usr/bin/env python3
"""Makes tokens for data.format = "tokens_u16" where no data can be had (needs numpy).

usage: made_up_tokens.py OUT [--tokens 20000000] [--vocab 50257] [--seed 1]

Tokens of Zipf's law in blocks of 64, of which every second one repeats the one before, so that
there is something to learn: the frequencies first, the repetitions later. 16 bits a token,
little-endian, no header.
"""

import argparse
import sys
from pathlib import Path

import numpy

sys.path.append(str(Path(__file__).resolve().parents[2] / "postprocess"))

from whole_file import write_whole

BLOCK = 64

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("out", type=Path)
parser.add_argument("--tokens", type=int, default=20_000_000)
parser.add_argument("--vocab", type=int, default=50257)
parser.add_argument("--seed", type=int, default=1)
options = parser.parse_args()

random = numpy.random.default_rng(options.seed)
weights = 1 / numpy.arange(10, options.vocab + 10)
sums = numpy.cumsum(weights / weights.sum())
blocks = -(-options.tokens // (2 * BLOCK))
drawn = numpy.searchsorted(sums, random.random((blocks, 1, BLOCK), dtype=numpy.float32))
names = random.permutation(options.vocab)  # frequent tokens anywhere in the vocabulary
drawn = names[numpy.minimum(drawn, options.vocab - 1)]
tokens = numpy.repeat(drawn, 2, axis=1).reshape(-1)[: options.tokens].astype("<u2")
write_whole(options.out, lambda file: file.write(tokens.data))
entropy = -(weights / weights.sum() * numpy.log(weights / weights.sum())).sum()
said = f"{len(tokens)} tokens below {options.vocab}, entropy of one {entropy:.2f} nats"
print(f"{options.out}: {said}")
