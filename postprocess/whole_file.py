"""Files that are there as a whole, or not at all."""

import os


def write_whole(path, write):
    """Has `write` write a file under a hidden name, and renames it. Raises OSError."""
    hidden = path.with_name(f".swarmpi-part-{os.getpid()}")
    try:
        with open(hidden, "wb") as file:
            write(file)
        os.replace(hidden, path)
    finally:
        hidden.unlink(missing_ok=True)
