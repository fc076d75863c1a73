"""The texts below files and folders, as `swarmpi prepare` takes them."""

import hashlib
import os

from trouble import Trouble


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


class Texts:
    """Each text once. What is no text in UTF-8 is left out, and counted."""

    def __init__(self, paths):
        self.paths, self.seen = paths, set()
        self.files = self.not_text = self.duplicates = 0

    def __iter__(self):
        for path in self.paths:
            text = self.read(path)
            if text:
                self.files += 1
                yield text

    def read(self, path):
        """A text that is new, or None. A mark of the byte order is no part of it."""
        with open(path, "rb") as file:
            content = file.read()
        digest = hashlib.sha256(content).digest()
        if digest in self.seen:
            self.duplicates += 1
            return None
        self.seen.add(digest)
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            self.not_text += 1
            return None
        return text
