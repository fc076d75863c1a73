"""The texts below files and folders, as `swarmpi prepare` takes them."""

import hashlib
import os

from trouble import Trouble

PIECE_CHARACTERS = 1 << 20


def files_below(sources):
    """All regular files, each once, in the order of their paths; links in folders are not followed.

    What was named must be there.
    """
    found = set()
    for source in sources:
        if source.is_file():
            found.add(str(source))
        elif not source.is_dir():
            raise Trouble(f"{source}: there is no such file or folder in {os.getcwd()}")
        for folder, _, names in os.walk(source):
            paths = (os.path.join(folder, name) for name in names)
            found.update(
                path for path in paths if os.path.isfile(path) and not os.path.islink(path)
            )
    return sorted(found)


def pieces_of(path):
    """The text of a file in pieces. A mark of the byte order is no part of it."""
    with open(path, encoding="utf-8-sig", newline="") as file:  # "": line ends stay as they are
        while piece := file.read(PIECE_CHARACTERS):
            yield piece


class Texts:
    """Each text once, as an iterable of its pieces. Files of no text in UTF-8 are left out, and
    counted."""

    def __init__(self, paths):
        self.paths, self.seen = paths, set()
        self.files = self.not_text = self.duplicates = 0

    def __iter__(self):
        for path in self.paths:
            if self.takes(path):
                self.files += 1
                yield pieces_of(path)

    def takes(self, path):
        """Whether a file holds a text that is new."""
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").digest()
        if digest in self.seen:
            self.duplicates += 1
            return False
        self.seen.add(digest)
        try:
            with_nul = ["\0" in piece for piece in pieces_of(path)]
        except UnicodeDecodeError:
            with_nul = [True]
        self.not_text += any(with_nul)
        return bool(with_nul) and not any(with_nul)
