#!/usr/bin/env python3
"""tokenize_text.py and detokenize.py make tokens of text and text of tokens: 0 if so, 77 if they
cannot run. Without PyPI's tokenizers only what they say then is tested."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
    import tokenizers

    WHY_NOT = None
except ImportError as missing:
    tokenizers = None
    WHY_NOT = missing

FOLDER = Path(__file__).parent
END = "<|endoftext|>"
TEXTS = (
    "The cat sat.\n\n  The dog didn't: it's   late.\n\n\nNo 123 cats\n\tsat on the mat\n",
    "Grüße an die Katze, 猫は座った。\nthe end\n\nthe end\n",
)


def run(script, *arguments, text=None, status=0):
    command = [sys.executable, "-W", "error", str(FOLDER / script), *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, encoding="utf-8", input=text, timeout=120, check=False
    )
    assert done.returncode == status, done.stdout + done.stderr
    if status:
        assert len(done.stderr.splitlines()) == 1, done.stderr
        return done.stderr
    return done.stdout


def make_tokenizer(path, words=300):
    """A tokenizer like GPT-2's, of some words."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=words, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    # A file may say that texts are cut and filled up: data must be neither.
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=4)
    tokenizer.save(str(path))
    return tokenizers.Tokenizer.from_file(str(path))


def make_texts(folder):
    below = folder / "texts" / "below"
    below.mkdir(parents=True)
    (folder / "texts" / "a.txt").write_text(TEXTS[0], encoding="utf-8")
    (below / "b.txt").write_text("\ufeff" + TEXTS[1], encoding="utf-8")
    (below / "copy.txt").write_text(TEXTS[0], encoding="utf-8")
    (below / "latin.txt").write_bytes("Grüße".encode("latin-1"))
    (below / "z.bin").write_bytes(b"text\0")
    return folder / "texts"


def ids_in(path, kind="<u2"):
    return np.fromfile(path, kind).tolist()


def test_text_becomes_tokens_and_text_again(folder, tokenizer):
    out = folder / "mine.bin"
    printed = run("tokenize_text.py", folder / "tokenizer.json", out, folder / "texts")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    expected = tokenizer.encode("\n".join(TEXTS)).ids
    assert ids_in(out) == expected
    assert f"[model]\nvocab = {tokenizer.get_vocab_size()}\n[data]\n" in printed
    assert f'paths = ["{out}"]\nformat = "tokens_u16"\n' in printed
    assert "of 2 texts; left out: 1 that were there already, 2 of no text" in printed
    text = run("detokenize.py", folder, text=" ".join(map(str, expected)))
    assert text == TEXTS[0] + "\n" + TEXTS[1] + "\n"


def test_a_token_ends_each_text(folder, tokenizer):
    out = folder / "ended.bin"
    run("tokenize_text.py", folder, out, folder / "texts", "--end-of-text", END)
    ids, end = ids_in(out), tokenizer.token_to_id(END)
    assert ids.count(end) == 2 and ids[-1] == end
    assert tokenizer.decode(ids, skip_special_tokens=False) == TEXTS[0] + END + TEXTS[1] + END
    options = ("--end-of-text", "<|end|>")
    refusal = run("tokenize_text.py", folder, out, folder / "texts", *options, status=2)
    assert f"no such token; such as it has are {END}" in refusal, refusal


def test_prompts(folder, tokenizer):
    text = "The cat's end"
    ids = tokenizer.encode(text).ids
    encoded = run("detokenize.py", folder, "--encode", text)
    assert encoded.split() == list(map(str, ids))
    assert run("detokenize.py", folder, "--encode", text=text + "\n") == encoded
    assert run("detokenize.py", folder, text=encoded) == text + "\n"
    assert "numbers of tokens" in run("detokenize.py", folder, text="1 two", status=2)
    assert "has no tokens" in run("detokenize.py", folder, "--encode", "", status=2)
    command = [sys.executable, str(FOLDER / "detokenize.py"), str(folder)]
    for options, closed, status, said in (
        ([], "<&-", 2, "standard input is closed"),
        (["--encode"], "<&-", 2, "standard input is closed"),
        (["--encode", text], ">&-", 2, "standard output is closed"),
        (["--encode", text], "<&-", 0, ""),
    ):
        shell = ["bash", "-c", f'"$@" {closed}', "bash", *command, *options]
        done = subprocess.run(shell, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == status and said in done.stderr, done
        assert len(done.stderr.splitlines()) == (status != 0), done.stderr
    done = subprocess.run(
        command, capture_output=True, text=True, input=f"{ids[0]} 9999", timeout=120, check=True
    )
    assert done.stdout == "The\n" and "1 numbers are left out" in done.stderr, done


def test_long_lines_of_crlf_have_the_tokens_of_the_whole(folder, tokenizer):
    text, out = folder / "crlf.txt", folder / "crlf.bin"
    line = "The cat sat on the mat, and so on and so on.\r\n"
    for whole in (line * 12_000, line.replace("\r\n", " ") * 12_000):
        text.write_text(whole, encoding="ascii", newline="")
        run("tokenize_text.py", folder, out, text)
        assert ids_in(out) == tokenizer.encode(whole).ids


def test_texts_are_one_if_no_token_ends_them(folder):
    """A tokenizer of SentencePiece's kind marks the beginning of a text, so there is one mark."""
    pieces, out = folder / "pieces.json", folder / "pieces.bin"
    vocabulary = {"▁": 0, "\n": 1} | {c: i + 2 for i, c in enumerate(sorted(set("".join(TEXTS))))}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, []))
    marks = (tokenizers.normalizers.Prepend("▁"), tokenizers.normalizers.Replace(" ", "▁"))
    tokenizer.normalizer = tokenizers.normalizers.Sequence(list(marks))
    tokenizer.save(str(pieces))
    run("tokenize_text.py", pieces, out, folder / "texts")
    assert ids_in(out) == tokenizer.encode("\n".join(TEXTS)).ids


def test_names_of_special_tokens_are_plain_text(folder, tokenizer):
    text, out = folder / "names.txt", folder / "names.bin"
    names = f"The {END} and {END}{END}."
    text.write_text(names, encoding="ascii")
    end = tokenizer.token_to_id(END)
    printed = run("tokenize_text.py", folder, out, text, "--end-of-text", END)
    ids = ids_in(out)
    assert ids.count(end) == 1 and ids[-1] == end
    assert tokenizer.decode(ids[:-1]) == names
    spelled = f"# the texts spell the special token {END} 3 times: it was encoded as "
    assert spelled + "plain text (--special-tokens makes it that token)\n" in printed, printed
    passport = json.loads(Path(f"{out}.json").read_text(encoding="utf-8"))
    assert passport["special_tokens_spelled"] == {END: 3} and not passport["special_tokens"]
    printed = run("tokenize_text.py", folder, out, text, "--special-tokens")
    assert ids_in(out) == tokenizer.encode(names).ids and ids_in(out).count(end) == 3
    assert spelled + "that token\n" in printed, printed
    printed = run("tokenize_text.py", folder, out, folder / "texts")
    assert "special" not in printed, printed


def test_a_special_token_that_is_a_word_is_named(folder):
    words, text, out = folder / "words.json", folder / "words.txt", folder / "words.bin"
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "[UNK]": 1}, "[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(["[UNK]"])
    tokenizer.save(str(words))
    text.write_text("a [UNK] a", encoding="ascii")
    printed = run("tokenize_text.py", words, out, text)
    assert "[UNK] 1 times: it was encoded as that token, for the tokenizer has it" in printed


def test_names_are_counted_over_the_borders_of_pieces(tokenizer):
    sys.path.insert(0, str(FOLDER))
    import tokenize_text

    text = f"{END}a{END}{END[:-1]}{END}" * 3
    for size in range(1, len(text) + 1):
        special = tokenize_text.SpecialNames(tokenizer, None)
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        assert list(special.seen_in(pieces)) == pieces
        assert special.counts == {END: 9}, (size, special.counts)


def test_32_bits_where_16_are_too_few(folder):
    out, many = folder / "wide.bin", folder / "many.json"
    vocabulary = {f"w{i}": i for i in range(1 << 16)} | {"large": 70_000, "[UNK]": 1 << 16}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(many))
    text = folder / "wide.txt"
    text.write_text("w1 large other w65535", encoding="ascii")
    printed = run("tokenize_text.py", many, out, text)
    assert ids_in(out, "<u4") == [1, 70_000, 1 << 16, 65_535]
    assert "vocab = 70001\n" in printed and 'format = "tokens_u32"\n' in printed, printed
    assert json.loads(Path(f"{out}.json").read_text(encoding="utf-8"))["tokens"] == 4


def test_nothing_is_written_over(folder):
    texts, out = folder / "texts", folder / "mine.bin"
    run("tokenize_text.py", folder, out, texts)
    run("tokenize_text.py", folder, out, texts)
    made = out.read_bytes()
    out.write_bytes(made[:-1] + b"x")
    refusal = run("tokenize_text.py", folder, out, texts, status=2)
    assert "was not made by this script" in refusal, refusal
    run("tokenize_text.py", folder, out, texts, "--force")
    assert out.read_bytes() == made
    first = texts / "a.txt"
    for force in ((), ("--force",)):
        refusal = run("tokenize_text.py", folder, first, texts, *force, status=2)
        assert "is one of the texts" in refusal and first.read_text(encoding="utf-8") == TEXTS[0]
    refusal = run("tokenize_text.py", folder, first, texts / "below", status=2)
    assert "was not made by this script" in refusal, refusal
    out.unlink()
    refusal = run("tokenize_text.py", folder, out, texts, status=2)
    assert "mine.bin.json is there already" in refusal, refusal


def test_its_own_files_are_no_texts(folder):
    out = folder / "texts" / "tokens.bin"
    for _ in range(2):
        printed = run("tokenize_text.py", folder, out, folder / "texts")
        assert "of 2 texts" in printed, printed
    out.unlink()
    Path(f"{out}.json").unlink()


def test_refused(folder):
    out, latin = folder / "none.bin", folder / "texts" / "below" / "latin.txt"
    for tokenizer, text, why in (
        (folder / "missing.json", latin, "missing.json is missing"),
        (latin, latin, "is no tokenizer of Hugging Face"),
        (folder, folder / "missing", "there is no such file or folder in"),
        (folder, latin, "no text in UTF-8 was found"),
    ):
        assert why in run("tokenize_text.py", tokenizer, out, text, status=2)
    assert not list(folder.glob("none*")) and not list(folder.glob(".*"))


def test_without_the_package():
    for script, arguments in (("tokenize_text.py", ("a", "b", "c")), ("detokenize.py", ("a",))):
        refusal = run(script, *arguments, text="", status=2)
        assert refusal.rstrip().endswith("pip install tokenizers"), refusal


def main():
    if tokenizers is None:
        if WHY_NOT.name == "tokenizers":
            test_without_the_package()
        print(f"not run: a module is missing: {WHY_NOT}")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tokenizer = make_tokenizer(folder / "tokenizer.json")
        make_texts(folder)
        test_text_becomes_tokens_and_text_again(folder, tokenizer)
        test_a_token_ends_each_text(folder, tokenizer)
        test_prompts(folder, tokenizer)
        test_long_lines_of_crlf_have_the_tokens_of_the_whole(folder, tokenizer)
        test_texts_are_one_if_no_token_ends_them(folder)
        test_names_of_special_tokens_are_plain_text(folder, tokenizer)
        test_a_special_token_that_is_a_word_is_named(folder)
        test_names_are_counted_over_the_borders_of_pieces(tokenizer)
        test_32_bits_where_16_are_too_few(folder)
        test_nothing_is_written_over(folder)
        test_its_own_files_are_no_texts(folder)
        test_refused(folder)
    print("tokenize_text.py, detokenize.py: all good")


if __name__ == "__main__":
    main()
