#!/usr/bin/env python3
"""Blocks of a text give the tokens of the whole text: 0 if so, 77 if PyPI's tokenizers is missing.

usage: whole_text_tokens_test.py [--full]

Texts of 80,000 characters are cut into small blocks. --full takes 2 MB of each text and the
blocks that tokenize_text.py takes: some minutes.
"""

import functools
import itertools
import random
import sys
import unittest
import unittest.mock

try:
    import numpy as np
    import tokenizers
    from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers
    from tokenizers.pre_tokenizers import ByteLevel, Metaspace, Split
except ImportError as missing:
    print(f"not run: a module is missing: {missing}")
    sys.exit(77)

import whole_text_tokens
from trouble import Trouble

FULL = "--full" in sys.argv
BLOCK, OVERLAP = (1 << 18, 1 << 12) if FULL else (1 << 13, 1 << 9)
CHARACTERS = 2_000_000 if FULL else 80_000
END = "<|endoftext|>"

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
GPT4 = CONTRACTIONS + r"\p{N}{1,3}" + REST
QWEN = CONTRACTIONS + r"\p{N}" + REST


# ---- Texts


def filler(rng, size, words, ends):
    """Words, each behind one of the ends."""
    parts, length = [], 0
    while length < size:
        parts += [rng.choice(words), rng.choice(ends)]
        length += len(parts[-1]) + len(parts[-2])
    return "".join(parts)[:size]


WORDS = "The quick brown fox didn't jump over THEY'LL lazy dogs of 1984 and 12345 more".split()


def prose(rng, size):
    return filler(rng, size, WORDS, [" "] * 6 + [", ", ". ", ".\n\n", "\n"])


def with_runs(rng, size, runs):
    """Prose with a run of characters over each border; some are longer than one or two blocks."""
    text, lengths = prose(rng, size), {2: 9 * BLOCK // 4, 8: 5 * BLOCK // 4}
    for number in reversed(range(1, size // BLOCK + 1)):
        length = lengths.get(number % 12, rng.randrange(20, 5 * OVERLAP))
        begin = number * BLOCK - min(rng.randrange(length), OVERLAP)
        text = text[:begin] + runs[number % len(runs)](rng, length) + text[begin + length :]
    return text[:size]


def crlf(rng, size):
    return filler(rng, size, WORDS, [" "] * 4 + ["\r\n", ".\r\n", "\r\n\r\n", " \r\n", ";\r\n\t"])


def line_ends(rng, size):
    ends = [
        "_\n",
        ".\n",
        ";\n",
        "'\n",
        "。\n",
        "…\n",
        "/\n\n",
        "!?\n",
        '"\n ',
        "-\n\n\n",
        "'s\n",
        " ",
    ]
    return filler(rng, size, WORDS, ends)


def one_line(rng, size):
    return filler(rng, size, WORDS, [" ", " ", "  ", ", ", ".", "'", " - ", "_"])


def code(rng, size):
    words = ["if (x) {", "}", "return 0;", "# ---", "a_b = c[1000]", "'''", "//", "x->y::z"]
    return filler(
        rng, size, words, ["\n", "\n    ", "\n\t\t", "\n\n        ", "   \n", " ", "\n" * 9]
    )


def of_any(characters):
    return lambda rng, length: "".join(rng.choices(characters, k=length))


def repeated(text):
    return lambda rng, length: (text * (length // len(text) + 1))[:length]


def digits(rng, size):
    return with_runs(rng, size, [of_any("0123456789")])


def letters(rng, size):
    kinds = ("=-", "abcdefghij", "a", "。", "дом")
    return with_runs(rng, size, [*map(of_any, kinds), repeated("ab"), of_any("ACGT")])


def blanks(rng, size):
    kinds = ("\t", "\r\n", " " * 999 + "\n", " \n", "\u00a0 ", "\u3000", "\n", " ")
    return with_runs(rng, size, list(map(repeated, kinds)))


def scripts(rng, size):
    words = [
        "e\u0301te\u0301",
        "猫は座った",
        "한국어",
        "\u1112\u1161\u11ab",
        "हिन्दी",
        "\u0301\u0323",
        "👩‍👩‍👧‍👦",
        "🇩🇪🇫🇷",
    ]
    words += [
        "العربية",
        "Straße",
        "ǅ",
        "▁",
        "▁▁x",
        END,
        "<s>",
        "</s>",
        "<unk>",
        "\ufeff",
        "I'M",
        "½",
        "٣٤٥",
    ]
    return filler(rng, size, words, [" ", "", "", "\n", "。", "、", "\u200d", "\u2028", "'"])


TEXTS = (crlf, line_ends, one_line, code, digits, letters, blanks, scripts)


# ---- Tokenizers


def samples():
    for text in TEXTS:
        sample = text(random.Random(text.__name__), 20_000)
        yield from (sample[at : at + 60] for at in range(0, len(sample), 60))


def bpe(pre_tokenizer, normalizer=None, texts=None, **options):
    """Byte-pair encoding of bytes, as GPT-2 has it."""
    tokenizer = tokenizers.Tokenizer(models.BPE(**options))
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    alphabet = ByteLevel.alphabet()
    special = [END]
    train(tokenizer, trainers.BpeTrainer, texts, special_tokens=special, initial_alphabet=alphabet)
    return tokenizer


def split_by(rule, behavior="isolated", invert=False):
    rule = Split(tokenizers.Regex(rule), behavior, invert)
    return pre_tokenizers.Sequence([rule, ByteLevel(add_prefix_space=False, use_regex=False)])


def sentence_piece(pre_tokenizer=None, normalizer=None):
    """Byte-pair encoding of characters with bytes for those that are missing, as Llama 2 has it."""
    tokenizer = tokenizers.Tokenizer(
        models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    if pre_tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    train(tokenizer, trainers.BpeTrainer, special_tokens=special, limit_alphabet=150)
    tokenizer.decoder = decoders.ByteFallback()
    return tokenizer


def unigram():
    """As T5 and XLM-R have it."""
    tokenizer = tokenizers.Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = Metaspace(prepend_scheme="always")
    special = ["<unk>", "</s>"]
    train(tokenizer, trainers.UnigramTrainer, special_tokens=special, unk_token="<unk>")
    return tokenizer


def train(tokenizer, trainer, texts=None, **options):
    trainer = trainer(vocab_size=1200, show_progress=False, **options)
    tokenizer.train_from_iterator(texts or samples(), trainer)


def mark_before_spaces():
    return normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])


KINDS = {
    "GPT-2": lambda: bpe(ByteLevel(add_prefix_space=False)),
    "GPT-4": lambda: bpe(split_by(GPT4, "removed", invert=True)),
    "Llama 3": lambda: bpe(split_by(GPT4), ignore_merges=True),
    "Qwen": lambda: bpe(split_by(QWEN), normalizers.NFC()),
    "SentencePiece, prefix": lambda: sentence_piece(normalizer=mark_before_spaces()),
    "SentencePiece, Metaspace": lambda: sentence_piece(
        Metaspace(prepend_scheme="first", split=False)
    ),
    "RoBERTa": lambda: bpe(ByteLevel(add_prefix_space=True)),
    "Unigram": unigram,
}


@functools.cache
def tokenizer_of(kind):
    return KINDS[kind]()


# ---- Tests


def pieces_of(text):
    rng = random.Random(1)
    while text:
        size = rng.randrange(1, BLOCK)
        yield text[:size]
        text = text[size:]


def ids_of(tokenizer, text):
    arrays = whole_text_tokens.tokens_of(tokenizer, pieces_of(text))
    return [int(number) for ids in arrays for number in ids]


def first_difference(tokenizer, got, expected):
    pairs = itertools.zip_longest(got, expected)
    at = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
    if at is None:
        return None
    names = [list(map(tokenizer.id_to_token, ids[at : at + 4])) for ids in (got, expected)]
    return f"{len(got)} tokens for {len(expected)}; at {at} {names[0]} for {names[1]}"


class WholeTextTokens(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        whole_text_tokens.BLOCK_CHARACTERS, whole_text_tokens.OVERLAP = BLOCK, OVERLAP

    def check(self, tokenizer, text):
        expected = tokenizer.encode(text, add_special_tokens=False).ids
        self.assertIsNone(first_difference(tokenizer, ids_of(tokenizer, text), expected))

    def test_gives_the_tokens_of_the_whole_text_for_all_kinds(self):
        for kind in KINDS:
            tokenizer = tokenizer_of(kind)
            tokenizer.encode_special_tokens = True
            for text_of in TEXTS:
                with self.subTest(tokenizer=kind, text=text_of.__name__):
                    self.check(tokenizer, text_of(random.Random(2), CHARACTERS))
            tokenizer.encode_special_tokens = False
            with self.subTest(tokenizer=kind, text="special tokens"):
                self.check(tokenizer, scripts(random.Random(3), CHARACTERS // 2))

    def test_keeps_runs_of_white_space_together(self):
        """A newline far behind decides here whether a newline and a blank are one token."""
        tokenizer = bpe(split_by(GPT4), texts=["x\n \n y", "x\n \n y"])
        for blanks_behind in range(OVERLAP, 2 * OVERLAP, OVERLAP // 4):
            line = "\n" + " " * blanks_behind
            self.check(tokenizer, line * (8 * BLOCK // blanks_behind) + "\n")

    def test_encodes_no_more_than_a_block_at_once_within_long_runs(self):
        spans = []
        encoded = whole_text_tokens.encoded

        def noted(tokenizer, text, of):
            spans.extend(of)
            return encoded(tokenizer, text, of)

        runs = (("GPT-4", of_any("0123456789")), ("GPT-2", of_any("ACGT")))
        with unittest.mock.patch.object(whole_text_tokens, "encoded", noted):
            for kind, run in runs:
                self.check(tokenizer_of(kind), run(random.Random(4), 20 * BLOCK))
            for kind in KINDS:
                self.check(tokenizer_of(kind), one_line(random.Random(5), 3 * BLOCK))
        self.assertLessEqual(max(end - begin for begin, end in spans), BLOCK + 3 * OVERLAP)

    def test_text_may_be_empty_or_end_at_a_border(self):
        tokenizer = tokenizer_of("GPT-2")
        self.assertEqual(ids_of(tokenizer, ""), [])
        for size in (1, BLOCK, BLOCK + OVERLAP - 1, BLOCK + OVERLAP, BLOCK + OVERLAP + 1):
            self.check(tokenizer, prose(random.Random(6), size))

    def test_refuses_a_rule_that_looks_ahead_any_distance(self):
        tokenizer = bpe(split_by(r"The quick(?=[\s\S]*END)"))
        text = repeated("The quick brown fox. ")(None, 2 * BLOCK - OVERLAP)
        text += " " * 3 * OVERLAP + "END" + prose(random.Random(7), BLOCK)
        with self.assertRaisesRegex(Trouble, "has other tokens for the start of a text"):
            ids_of(tokenizer, text)


if __name__ == "__main__":
    unittest.main(argv=[one for one in sys.argv if one != "--full"])
