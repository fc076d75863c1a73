"""Opens tokenizers of Hugging Face, which PyPI's `tokenizers` runs. The program never needs it."""

from trouble import Trouble

try:
    import tokenizers
except ImportError:
    tokenizers = None


def open_tokenizer(path):
    """The tokenizer of a file tokenizer.json, or of the folder that has one."""
    if tokenizers is None:
        raise Trouble("Python's package `tokenizers` is missing: pip install tokenizers")
    path = path / "tokenizer.json" if path.is_dir() else path
    if not path.is_file():
        raise Trouble(f"{path} is missing: name a file tokenizer.json of Hugging Face")
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the package raises no other type
        raise Trouble(f"{path} is no tokenizer of Hugging Face: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.post_processor = None  # some change the offsets of tokens
    return tokenizer


def vocabulary_of(tokenizer):
    """What `model.vocab` must be at least: numbers of tokens may have gaps."""
    return max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1) + 1
