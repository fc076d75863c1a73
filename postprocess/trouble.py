"""How scripts say what is wrong: status 2, and one line on standard error with their name."""

import signal
import sys
from pathlib import Path


class Trouble(Exception):
    """What a person must know about input that cannot be used."""


def exit_status(work):
    """Runs `work`, which prints what it has to say: 0, or 2 where there was trouble."""
    # Where nobody reads on (`| head -1`) the script ends at once, as other programs do.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
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
