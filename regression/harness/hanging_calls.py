"""Swarms in which calls of the file system hang on some ranks: see hanging_calls.cpp.

$HANGING_CALLS names that library; without it the one in this checkout's build/ is taken.
"""

import glob
import os
import time

from harness.program import built

LONGEST_PAUSE_S = 0.1
LIBRARY = built("libhanging_calls.so", "HANGING_CALLS")
# Parts of the names of files.
DATA, JOURNAL, PART, MANIFEST = ".bin", "RUN.h5.journal", "stage-", "manifest"
ANY_FILE = "/"


class HangingCalls:
    """These calls ("fsync pwrite") on files with such names hang on these ranks, or on all.

    They do so from begin() to end(), which may come again. `flag` is a path that no file has yet.
    """

    def __init__(self, flag, calls, file, ranks=None):
        self.flag = flag
        self.variables = [
            f"LD_PRELOAD={LIBRARY}",
            f"HANGING_CALL={calls}",
            f"HANGING_NAME={file}",
            f"HANGING_WHILE={flag}",
        ]
        if ranks is not None:
            self.variables.append("HANGING_RANKS=" + " ".join(map(str, ranks)))

    def command(self):
        """The words before those that start a rank of the program."""
        return ["env", *self.variables]

    def begin(self):
        if self.marks():  # whoever hung looks once more after a while whether it is over
            time.sleep(LONGEST_PAUSE_S)
        for mark in self.marks():
            os.rmdir(mark)
        with open(self.flag, "w", encoding="ascii"):
            pass

    def end(self):
        if os.path.exists(self.flag):
            os.remove(self.flag)

    def begun(self):
        """For each rank that hangs, or has hung, since when: as time.time() counts."""
        return {int(mark.rpartition(".")[2]): os.stat(mark).st_mtime for mark in self.marks()}

    def marks(self):
        return glob.glob(glob.escape(self.flag) + ".*")
