"""Files that are there as a whole, or not at all."""

import errno
import os
from contextlib import contextmanager

# What a write says that does not name its file.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def whole_file(path):
    """A hidden path to write to, which is renamed to `path` at the end.

    Raises OSError, which names `path`: nobody has asked for the hidden one.
    """
    hidden = path.with_name(f".swarmpi-part-{os.getpid()}")
    try:
        yield hidden
        os.replace(hidden, path)
    except OSError as error:
        unnamed = error.errno in NO_ROOM and not error.filename
        if unnamed or error.filename == str(hidden):
            error.filename = str(path)
        raise
    finally:
        hidden.unlink(missing_ok=True)


def write_whole(path, write):
    """Has `write` write a file under a hidden name, and renames it. Raises OSError."""
    with whole_file(path) as hidden:
        with open(hidden, "wb") as file:
            write(file)
