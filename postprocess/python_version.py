"""Imported before all else by scripts whose modules need a Python that is not everywhere: an older
one, which must be able to read this file, is refused in one line."""

import os
import sys

if sys.version_info < (3, 11):
    sys.stderr.write(
        "%s: needs Python 3.11 or newer, this is %d.%d\n"
        % ((os.path.basename(sys.argv[0]),) + tuple(sys.version_info[:2]))
    )
    sys.exit(2)
