"""How scripts say what is wrong: status 2, and one line on standard error with their name."""

import sys
from pathlib import Path


class Trouble(Exception):
    """What a person must know about input that cannot be used."""


def why_unreadable(path, error):
    """What is wrong with a run file that could not be opened, in one line: HDF5's own has more."""
    if path.is_dir():
        return f"{path} is a folder: name the run file in it, such as {path / 'RUN.h5'}"
    return f"cannot read {path}: {' '.join(str(error).split())}"


def exit_status(work):
    """Runs `work`, which prints what it has to say: 0, or 2 where there was trouble."""
    script = Path(sys.argv[0]).name
    try:
        work()
    except Trouble as trouble:
        print(f"{script}: {trouble}", file=sys.stderr)
        return 2
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"{script}: {where}{error.strerror or ' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0
