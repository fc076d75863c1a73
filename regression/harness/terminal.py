"""A terminal of a known width, in which tests start programs as a person would."""

import fcntl
import os
import pty
import select
import struct
import termios
import time


class Terminal:
    """A pseudo-terminal; what is shown there is kept, with the time at which it came.

    `popen` holds what subprocess.Popen needs to start a program in it, as the leader of a session
    whose terminal it is.
    """

    def __init__(self, columns, lines=24):
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.popen = {
            "stdin": self.slave,
            "stdout": self.slave,
            "stderr": self.slave,
            "start_new_session": True,
            "preexec_fn": self.take,
        }
        self.pieces = []  # (time, text)

    def take(self):
        fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)

    def read(self, timeout_s):
        """Waits for more and keeps it; False if nothing came, or nothing can come any more."""
        ready, _, _ = select.select([self.master], [], [], timeout_s)
        if not ready:
            return False
        try:
            data = os.read(self.master, 1 << 16)
        except OSError:  # nobody has it open any more
            return False
        # A terminal shows nothing for a zero, which mpirun writes now and then.
        text = data.replace(b"\0", b"").decode(errors="replace")
        self.pieces.append((time.monotonic(), text))
        return True

    def read_until(self, condition, timeout_s):
        """Reads until condition() holds; False if it does not in time."""
        until = time.monotonic() + timeout_s
        while not condition():
            left_s = until - time.monotonic()
            if left_s <= 0:
                return False
            self.read(min(left_s, 0.5))
        return True

    @property
    def text(self):
        """All that was shown, as it came: with returns and what else steers the terminal."""
        return "".join(text for _, text in self.pieces)

    def lines(self):
        """The lines that have ended, each with the time at which it was whole."""
        ended, line = [], ""
        for when, text in self.pieces:
            *whole, rest = (line + text).split("\n")
            ended += [(when, one.removesuffix("\r")) for one in whole]
            line = rest
        return ended

    def close(self):
        for descriptor in (self.master, self.slave):
            os.close(descriptor)
