"""h5py without file locks, which some file systems refuse: import it from here.

Files need none, since they are replaced as a whole. The variable counts more than what a program
says at h5py.File(), and is read when h5py is imported.
"""

import os

os.environ["HDF5_USE_FILE_LOCKING"] = "FALSE"

import h5py  # noqa: E402, F401
