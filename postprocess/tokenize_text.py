#!/usr/bin/env python3
"""Makes tokens of text with a tokenizer of Hugging Face: the files of data.format = "tokens_u16".

usage: tokenize_text.py TOKENIZER.json OUT.bin PATH... [--end-of-text TOKEN] [--special-tokens]
                        [--force]

PATH: text files in UTF-8, or folders of them. OUT.bin holds little-endian tokens of 16 bits, or of
32 ("tokens_u32") where the vocabulary has more than 65,536 of them; OUT.bin.json says which
tokenizer made it. The tokens are those that the tokenizer gives for the whole text. Printed are the
keys of a deck that go with it. Needs numpy, and PyPI's tokenizers (pip install tokenizers). Exit
status 0, or 2 with one line that says what is wrong.
"""

import python_version  # noqa: F401  (before what needs it)

import argparse
import hashlib
import json
import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np

from text_files import Texts, files_below
from tokenizer_file import open_tokenizer, vocabulary_of
from trouble import Trouble, exit_status
from whole_file import whole_file, write_text
from whole_text_tokens import tokens_of

FORMAT = "swarmpi tokens 1"


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


class SpecialNames:
    """Counts the places where texts spell special tokens."""

    def __init__(self, tokenizer, end_of_text):
        added = tokenizer.get_added_tokens_decoder().values()
        names = {token.content for token in added if token.special} | {end_of_text} - {None, ""}
        longest_first = sorted(names, key=len, reverse=True)
        self.pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        self.longest = max(map(len, names), default=1)
        self.counts = Counter()

    def seen_in(self, pieces):
        """The same pieces of a text."""
        rest = ""
        for piece in pieces:
            yield piece
            rest += piece
            rest = rest[self.count(rest, len(rest) - self.longest + 1) :]
        self.count(rest, len(rest))

    def count(self, text, end):
        """Counts names that begin before `end`. Returns where names have not been looked for."""
        for match in self.pattern.finditer(text):
            if match.start() >= end:
                break
            self.counts[match[0]] += 1
            end = max(end, match.end())
        return max(end, 0)

    def report(self, tokenizer):
        """Lines that name those found, and what they were encoded as."""
        for name, count in sorted(self.counts.items()):
            times = f"# the texts spell the special token {name} {count:,} times: "
            times += "it was encoded as "
            if tokenizer.token_to_id(name) not in ids_of(tokenizer, name):
                yield times + "plain text (--special-tokens makes it that token)"
            elif tokenizer.encode_special_tokens:
                yield times + "that token, for the tokenizer has it as a word too"
            else:
                yield times + "that token"


def ids_of(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False).ids


def joined(texts):
    """The pieces of all texts, with a newline between two of them."""
    for number, pieces in enumerate(texts):
        if number > 0:
            yield "\n"
        yield from pieces


def write_tokens(out, tokenizer, texts, end_of_text, special):
    """Each text and the token that ends it; without one, all texts as one."""
    for pieces in [joined(texts)] if end_of_text is None else texts:
        for ids in tokens_of(tokenizer, special.seen_in(pieces)):
            out.write(ids)
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
    special = SpecialNames(tokenizer, arguments.end_of_text)
    tokenizer.encode_special_tokens = not arguments.special_tokens
    with whole_file(path) as file:
        out = TokenFile(file, vocabulary)
        write_tokens(out, tokenizer, texts, end_of_text, special)
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
        "special_tokens": arguments.special_tokens,
        "special_tokens_spelled": dict(special.counts),
        "texts": texts.files,
    }
    write_text(passport_of(path), json.dumps(passport, indent=2) + "\n")
    return passport, texts, list(special.report(tokenizer))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tokenizer", type=Path, help="tokenizer.json, or the folder that has it")
    parser.add_argument("out", type=Path, help="the file of tokens, e.g. data/mine.bin")
    parser.add_argument("texts", type=Path, nargs="+", help="text files, or folders of them")
    parser.add_argument("--end-of-text", metavar="TOKEN", help="a token behind each file")
    parser.add_argument(
        "--special-tokens",
        action="store_true",
        help="names of special tokens in the texts become these tokens, not plain text",
    )
    parser.add_argument("--force", action="store_true", help="write over whatever is there")
    arguments = parser.parse_args()
    made, texts, special = convert(arguments)
    print(f"# {made['tokens']:,} tokens of {texts.files:,} texts", end="")
    print(
        f"; left out: {texts.duplicates:,} that were there already, {texts.not_text:,} of no text"
    )
    print("".join(line + "\n" for line in special), end="")
    print(f"[model]\nvocab = {made['vocab']}")
    print(f"[data]\npaths = [{json.dumps(str(arguments.out), ensure_ascii=False)}]")
    print(f'format = "tokens_u{8 * made["token_bytes"]}"')


if __name__ == "__main__":
    sys.exit(exit_status(main))
