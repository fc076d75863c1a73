#!/usr/bin/env python3
"""Makes text of tokens, and tokens of text, with a tokenizer of Hugging Face.

usage: detokenize.py TOKENIZER.json < TOKENS
       detokenize.py TOKENIZER.json --encode [TEXT]

TOKENS are their numbers, with blanks or newlines between. --encode prints the numbers of a text's
tokens, of standard input's where none is given (less the newline at its end):

    swarmpi sample checkpoints --tokens "$(detokenize.py tokenizer.json --encode "Once upon")" \\
      | detokenize.py tokenizer.json

Needs PyPI's tokenizers (pip install tokenizers). Exit status 0, or 2 with one line that says what
is wrong.
"""

import argparse
import sys
from pathlib import Path

from tokenizer_file import open_tokenizer, vocabulary_of
from trouble import Trouble, exit_status


def encoded(tokenizer, text):
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    if not ids:
        raise Trouble("the text has no tokens")
    return " ".join(map(str, ids))


def decoded(tokenizer, words):
    try:
        ids = [int(word) for word in words]
    except ValueError as error:
        raise Trouble(f"standard input must be numbers of tokens: {error}") from error
    vocabulary = vocabulary_of(tokenizer)
    known = [number for number in ids if 0 <= number < vocabulary]
    if len(known) < len(ids):
        print(
            f"detokenize.py: warning: {len(ids) - len(known)} numbers are left out: the tokenizer "
            f"has tokens from 0 to {vocabulary - 1}",
            file=sys.stderr,
        )
    return tokenizer.decode(known, skip_special_tokens=False)


def standard_input():
    if sys.stdin is None:
        raise Trouble("standard input is closed: it must have tokens, or with --encode a text")
    sys.stdin.reconfigure(encoding="utf-8", errors="replace")
    return sys.stdin.read()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tokenizer", type=Path, help="tokenizer.json, or the folder that has it")
    parser.add_argument(
        "--encode",
        nargs="?",
        const=None,
        default=False,
        metavar="TEXT",
        help="print the tokens of a text, by default of standard input",
    )
    arguments = parser.parse_args()
    tokenizer = open_tokenizer(arguments.tokenizer)
    if sys.stdout is None:
        raise Trouble("standard output is closed: there is no place for the result")
    sys.stdout.reconfigure(encoding="utf-8")
    if arguments.encode is False:
        print(decoded(tokenizer, standard_input().split()))
    else:
        given = arguments.encode
        print(encoded(tokenizer, standard_input().removesuffix("\n") if given is None else given))


if __name__ == "__main__":
    sys.exit(exit_status(main))
