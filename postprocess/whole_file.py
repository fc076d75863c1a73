"""Files that exist as a whole or not at all, by the rule of src/io/temporary_file.hpp."""

import csv
import errno
import io
import os
import secrets
import socket
import time
from contextlib import contextmanager, suppress
from pathlib import Path

# Errors of writing, which do not name their file.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
ABANDONED_AFTER_S = 900  # longer than any writer leaves its temporary file untouched


def target_of(path):
    """The path behind links, so that links stay. Raises OSError if it is a device or a pipe."""
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        error = errno.EISDIR if target.is_dir() else errno.EINVAL
        raise OSError(error, os.strerror(error), str(path))
    return target


def remove_abandoned(folder, prefix):
    """Removes the temporary files that killed writers of the same file left long ago."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(prefix) and entry.is_file(follow_symlinks=False):
                age_s = time.time() - entry.stat(follow_symlinks=False).st_mtime
                if age_s > ABANDONED_AFTER_S:
                    os.unlink(entry)


def sync_folder(folder):
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some file systems cannot sync a folder and say so; they keep renames in order.
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)


@contextmanager
def published(hidden, target):
    """A new file `hidden`, open for bytes, which is synced and renamed to `target` at the end."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(hidden, flags, 0o666)
    try:
        with open(descriptor, "w+b") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
        os.replace(hidden, target)
        sync_folder(target.parent)
    finally:
        hidden.unlink(missing_ok=True)


@contextmanager
def whole_file(path):
    """A file to write bytes to, which becomes `path` at the end unless something is raised.

    Until then it is a hidden file of a name that no other writer has, on any host. Raises OSError,
    which names `path`: nobody has asked for the hidden one.
    """
    target = target_of(path)
    prefix = f".{target.name}.part-"
    unique = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(8)}"
    remove_abandoned(target.parent, prefix)
    hidden = target.with_name(prefix + unique)
    try:
        with published(hidden, target) as file:
            yield file
    except OSError as error:
        unnamed = error.errno in NO_ROOM and not error.filename
        if unnamed or error.filename == str(hidden):
            error.filename = str(path)
        raise


def write_whole(path, write):
    """Has `write` write a whole file. Raises OSError."""
    with whole_file(path) as file:
        write(file)


def write_text(path, text):
    """Writes a whole file of text. Raises OSError."""
    write_whole(path, lambda file: file.write(text.encode()))


def write_csv(path, header, rows):
    """Writes a whole table. Raises OSError."""
    text = io.StringIO(newline="")
    out = csv.writer(text, lineterminator="\n")
    out.writerow(header)
    out.writerows(rows)
    write_text(path, text.getvalue())
