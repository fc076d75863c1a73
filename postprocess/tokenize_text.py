#!/usr/bin/env python3
"""Makes tokens of text with a tokenizer of Hugging Face: the files of data.format = "tokens_u16".

usage: tokenize_text.py TOKENIZER.json OUT.bin PATH... [--end-of-text TOKEN] [--force]

PATH: text files in UTF-8, or folders of them. OUT.bin holds little-endian tokens of 16 bits, or of
32 ("tokens_u32") where the vocabulary has more than 65,536 of them; OUT.bin.json says which
tokenizer made it. Printed are the keys of a deck that go with it. Needs numpy, and PyPI's
tokenizers (pip install tokenizers). Exit status 0, or 2 with one line that says what is wrong.
"""

import python_version  # noqa: F401  (before what needs it)

import argparse
import hashlib
import itertools
import json
import re
import sys
from pathlib import Path

import numpy as np

from text_files import Texts, files_below
from tokenizer_file import open_tokenizer, vocabulary_of
from trouble import Trouble, exit_status
from whole_file import whole_file, write_whole

FORMAT = "swarmpi tokens 1"
BLOCK_CHARACTERS = 1 << 18
BLOCKS_AT_ONCE = 8  # which take some 400 MB


# Where a text is cut: before a newline behind a letter, else behind anything but white space. Each
# tokenizer cuts a text into words first, and there none has a word that goes on.
GOOD_CUTS = (re.compile(r"(?s).*\w(?=\n)"), re.compile(r"(?s).*\S(?=\n)"))


def blocks_of(text, size):
    """A text in blocks of at most `size` characters, which give the tokens that the whole gives.

    But for those at the cuts of a line that is longer than a block.
    """
    at = 0
    while len(text) - at > size:
        piece = text[at : at + size]
        cuts = (cut.end() for pattern in GOOD_CUTS if (cut := pattern.match(piece)))
        end = next(cuts, size)
        yield piece[:end]
        at += end
    yield text[at:]


def batched(items, count):
    items = iter(items)
    while batch := list(itertools.islice(items, count)):
        yield batch


class TokenFile:
    """Where tokens go, with their number, their largest and their hash."""

    def __init__(self, file, vocabulary):
        self.file, self.kind = file, "<u2" if vocabulary <= 1 << 16 else "<u4"
        self.tokens, self.hash = 0, hashlib.sha256()

    def write(self, ids):
        content = np.asarray(ids, dtype=self.kind).tobytes()
        self.file.write(content)
        self.hash.update(content)
        self.tokens += len(ids)


def write_tokens(out, tokenizer, texts, end_of_text):
    """Texts one after the other: behind each the token that ends it, else between two a newline."""
    newline = [] if end_of_text is not None else ["\n"]
    for text in texts:
        before = newline if texts.files > 1 else []
        blocks = itertools.chain(before, blocks_of(text, BLOCK_CHARACTERS))
        for batch in batched(blocks, BLOCKS_AT_ONCE):
            for encoding in tokenizer.encode_batch(batch, add_special_tokens=False):
                out.write(encoding.ids)
        if end_of_text is not None:
            out.write([end_of_text])


def passport_of(path):
    """Where it stands what made a file of tokens."""
    return path.with_name(path.name + ".json")


def made_here(path):
    """Whether a file is one of tokens that this script has made, as it was then."""
    try:
        known = json.loads(passport_of(path).read_text(encoding="utf-8"))
        if known["format"] != FORMAT or known["bytes"] != path.stat().st_size:
            return False
        with open(path, "rb") as file:
            return known["sha256"] == hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError, KeyError, TypeError):
        return False


def texts_for(path, sources, force):
    """The files to read. Refused where a text, or what something else has made, would be lost."""
    own, texts = {path.resolve(), passport_of(path).resolve()}, files_below(sources)
    others = [text for text in texts if Path(text).resolve() not in own]
    there = [out for out in (path, passport_of(path)) if out.exists()]
    if there and not made_here(path):
        if len(others) < len(texts):
            raise Trouble(f"{there[0]} is one of the texts: name another file for the tokens")
        if not force:
            raise Trouble(
                f"{there[0]} is there already, and was not made by this script: name another file, "
                "or say --force to write over it"
            )
    return others


def id_of(tokenizer, token):
    number = tokenizer.token_to_id(token)
    if number is None:
        known = sorted(text for text in tokenizer.get_vocab() if re.fullmatch(r"<.+>|\[.+\]", text))
        some = f"; such as it has are {', '.join(known[:8])}" if known else ""
        raise Trouble(f"--end-of-text {token}: the tokenizer has no such token{some}")
    return number


def convert(arguments):
    """Writes both files; returns what the second says."""
    tokenizer, path = open_tokenizer(arguments.tokenizer), arguments.out
    vocabulary = vocabulary_of(tokenizer)
    end_of_text = id_of(tokenizer, arguments.end_of_text) if arguments.end_of_text else None
    texts = Texts(texts_for(path, arguments.texts, arguments.force))
    with whole_file(path) as hidden:
        with open(hidden, "wb") as file:
            out = TokenFile(file, vocabulary)
            write_tokens(out, tokenizer, texts, end_of_text)
        if out.tokens == 0:
            raise Trouble(f"{path} is not written: no text in UTF-8 was found, or none with tokens")
    passport = {
        "format": FORMAT,
        "bytes": out.tokens * int(out.kind[-1]),
        "sha256": out.hash.hexdigest(),
        "tokens": out.tokens,
        "token_bytes": int(out.kind[-1]),
        "vocab": vocabulary,
        "tokenizer": str(arguments.tokenizer),
        "end_of_text": arguments.end_of_text,
        "texts": texts.files,
    }
    text = json.dumps(passport, indent=2) + "\n"
    write_whole(passport_of(path), lambda file: file.write(text.encode()))
    return passport, texts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tokenizer", type=Path, help="tokenizer.json, or the folder that has it")
    parser.add_argument("out", type=Path, help="the file of tokens, e.g. data/mine.bin")
    parser.add_argument("texts", type=Path, nargs="+", help="text files, or folders of them")
    parser.add_argument("--end-of-text", metavar="TOKEN", help="a token behind each file")
    parser.add_argument("--force", action="store_true", help="write over whatever is there")
    arguments = parser.parse_args()
    made, texts = convert(arguments)
    print(f"# {made['tokens']:,} tokens of {texts.files:,} texts", end="")
    print(
        f"; left out: {texts.duplicates:,} that were there already, {texts.not_text:,} of no text"
    )
    print(f"[model]\nvocab = {made['vocab']}")
    print(f"[data]\npaths = [{json.dumps(str(arguments.out), ensure_ascii=False)}]")
    print(f'format = "tokens_u{8 * made["token_bytes"]}"')


if __name__ == "__main__":
    sys.exit(exit_status(main))
