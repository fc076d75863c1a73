"""The versions of the files that are read here, and how run files are opened: a file of a later
version is refused, since its names may mean something else. Needs h5py alone."""

import re
from contextlib import contextmanager

from hdf5 import h5py
from trouble import Trouble

NEWEST_RUN, NEWEST_MANIFEST, NEWEST_STAGE = 2, 3, 2  # as in src/io/format_version.hpp


def check_version(path, version, known):
    if version > known:
        raise Trouble(
            f"{path} is in version {version} of its format, but this script reads versions up to "
            f"{known}: use the one of the SwarMPI that wrote it"
        )


def check_run_file(path, file):
    """Whether an HDF5 file says that it is a run file; those of early builds say nothing."""
    found = str(file.attrs.get("format", "swarmpi run 1"))
    mark = re.fullmatch(r"swarmpi run (\d+)", found)
    if not mark:
        raise Trouble(f"{path} is not a run file of SwarMPI: its format is `{found}`")
    check_version(f"{path} (`{found}`)", int(mark[1]), NEWEST_RUN)


def why_unreadable(path, error):
    """What is wrong with a run file that could not be opened, in one line: HDF5's own has more."""
    if path.is_dir():
        return f"{path} is a folder: name the run file in it, such as {path / 'RUN.h5'}"
    return f"cannot read {path}: {' '.join(str(error).split())}"


@contextmanager
def opened_run(path):
    """A run file; what is wrong with it, or with what is read of it, is said with its name."""
    try:
        with h5py.File(path, "r") as file:
            check_run_file(path, file)
            yield file
    except KeyError as error:
        raise Trouble(f"{path} is not a run file of SwarMPI: {error.args[0]}") from error
    except (OSError, TypeError, ValueError, AttributeError) as error:
        raise Trouble(why_unreadable(path, error)) from error
