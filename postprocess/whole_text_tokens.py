"""Encodes a text of any length. The tokens are those of the whole text; memory stays bounded.

A text is encoded in blocks that overlap by 2 * OVERLAP characters. The tokens change from one block
to the next at a token around which both blocks agree. The argument why the result is exact:

- A pre-tokenizer scans from left to right. Two scans that begin a word at the same character give
  the same words from there on.
- Within one long word, byte-pair encoding is exact if each pair of neighbouring tokens is. The
  token before the change is in both blocks, so each pair is a pair of one block. With all other
  models, the change is made only where a word begins.
- The end of a block may change its last words: a word rule looks at what follows a run of white
  space, however long the run is. The change is therefore never made within such a run.

Blocks that do not agree are encoded again, as one.
"""

import numpy as np

from trouble import Trouble

BLOCK_CHARACTERS = 1 << 18
BLOCKS_AT_ONCE = 8  # which take some 400 MB
OVERLAP = 1 << 12
AGREED = 16  # tokens on each side of a change


class SlidingText:
    """The characters of a series of strings, by their number. Those before `begin` are dropped."""

    def __init__(self, pieces):
        self.pieces, self.begin, self.kept, self.ended = iter(pieces), 0, "", False

    def reach(self, end):
        """Reads up to character `end`. Returns `end`, or the text's length if that is less."""
        parts, length = [self.kept], self.begin + len(self.kept)
        while length < end and not self.ended:
            piece = next(self.pieces, None)
            self.ended = piece is None
            parts.append(piece or "")
            length += len(parts[-1])
        self.kept = "".join(parts)
        return min(length, end)

    def part(self, begin, end):
        return self.kept[begin - self.begin : end - self.begin]

    def drop_before(self, begin):
        self.kept, self.begin = self.kept[begin - self.begin :], begin


class Block:
    """The characters from `begin` to `end` of a text, and their tokens."""

    def __init__(self, begin, end, encoding, model):
        self.begin, self.end = begin, end
        ids = np.array(encoding.ids, dtype=np.int64)
        words = np.array(encoding.word_ids)
        self.starts, self.ends = np.array(encoding.offsets, np.int64).reshape(-1, 2).T + begin
        begins_word = np.append(True, words[1:] != words[:-1])[: len(ids)]
        self.tokens = np.stack([ids, self.starts, self.ends, begins_word], axis=1)
        # Tokens where a change may be. A character may have several tokens, one for each byte.
        begins_character = np.append(True, self.ends[:-1] <= self.starts[1:])[: len(ids)]
        within_words = type(model).__name__ == "BPE"
        self.changes = begins_character & (begins_word | within_words)

    def ids(self, first, last=None):
        return self.tokens[first:last, 0]

    def around(self, token):
        return self.tokens[max(token - AGREED, 0) : token + AGREED]

    def token_before(self, character):
        """A character at or before this one where a token begins; where a word does, if near."""
        before = self.changes & (self.starts <= character)
        words = before & (self.tokens[:, 3] == 1) & (self.starts > character - OVERLAP)
        return int(max(self.starts[words if words.any() else before], default=self.begin))


def encoded(tokenizer, text, spans):
    parts = [text.part(begin, end) for begin, end in spans]
    encodings = tokenizer.encode_batch(parts, add_special_tokens=False)
    model = tokenizer.model
    return [Block(*span, encoding, model) for span, encoding in zip(spans, encodings, strict=True)]


def blocks_of(tokenizer, text):
    """The text in blocks. Several are encoded at once, on as many cores."""
    border = 0
    while not text.ended:
        spans = []
        while len(spans) < BLOCKS_AT_ONCE and not text.ended:
            begin = max(border - OVERLAP, 0)
            border += BLOCK_CHARACTERS
            spans.append((begin, text.reach(border + OVERLAP)))
        yield from encoded(tokenizer, text, spans)


def change(last, block, text):
    """The number of one token in both blocks around which they agree; None if there is none."""
    of_last = np.flatnonzero(last.changes & (last.starts >= block.begin))
    of_block = np.flatnonzero(block.changes & (block.starts < last.end))
    starts, in_last, in_block = np.intersect1d(
        last.starts[of_last], block.starts[of_block], return_indices=True
    )
    middle = (block.begin + last.end) // 2
    for choice in np.argsort(np.abs(starts - middle)):
        i, j = of_last[in_last[choice]], of_block[in_block[choice]]
        around = last.around(i)
        if len(around) < 2 * AGREED or not np.array_equal(around, block.around(j)):
            continue
        if text.part(last.starts[i], last.ends[i]).strip():
            return i, j
    return None


def tokens_of(tokenizer, pieces):
    """Yields arrays of token numbers: those of the text that the strings `pieces` make together."""
    text = SlidingText(pieces)
    last, done = None, 0  # tokens of `last` from number `done` on have not been yielded
    for block in blocks_of(tokenizer, text):
        if last is None:
            last = block
            continue
        if block.end <= last.end:
            continue
        found = change(last, block, text)
        if found is None:
            # The block may have begun within a number or a word. Begin where a token does.
            begin = last.token_before(block.begin)
            (block,) = encoded(tokenizer, text, [(begin, block.end)])
            found = change(last, block, text)
        if found is not None:
            yield last.ids(done, found[0])
            last, done = block, found[1]
            text.drop_before(last.begin)
            continue
        # At least doubles the block, so that a long run costs time in proportion to its length.
        end = text.reach(max(block.end, 2 * last.end - last.begin))
        (longer,) = encoded(tokenizer, text, [(last.begin, end)])
        if not np.array_equal(longer.tokens[:done], last.tokens[:done]):
            raise Trouble("the tokenizer has other tokens for the start of a text if more follows")
        last = longer
    if last is not None:
        yield last.ids(done)
