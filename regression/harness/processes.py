"""Processes of this machine as /proc shows them, and waiting with a deadline."""

import os
import signal
import time


def wait_for(condition, what, timeout_s=30):
    """Returns when the condition holds; TimeoutError, which says what was awaited, if it does not.

    `what` completes the sentence "waited 30 s for ...".
    """
    end = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {timeout_s} s for {what}")
        time.sleep(0.005)


def state_and_parent(pid):
    """A letter and a process number; "X" and 0 for a process that is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            # They follow the program's name, which may hold any character.
            state, parent = file.read().rpartition(")")[2].split()[:2]
    except OSError:
        return "X", 0
    return state, int(parent)


def started_s(pid):
    """When this process was started, as time.time() counts, to 0.01 s or so."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        ticks = int(file.read().rpartition(")")[2].split()[19])
    after_boot_s = ticks / os.sysconf("SC_CLK_TCK")
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + after_boot_s


def lives(pid):
    return state_and_parent(pid)[0] not in "XZ"


def wait_until_gone(pids, what, timeout_s=30):
    """Returns when none of these processes lives any more."""
    wait_for(lambda: not any(map(lives, pids)), f"the end of {what}", timeout_s)


def children(process):
    """Process numbers of all descendants of this process, each after its parent."""
    parents = {int(p): state_and_parent(p)[1] for p in os.listdir("/proc") if p.isdigit()}
    found, new = [], [process.pid]
    while new:
        new = [pid for pid, parent in parents.items() if parent in new]
        found += new
    return found


def end_tree(process):
    """Kills a process that was started here and all its descendants; does not wait for them."""
    if process.poll() is not None:
        return
    for pid in [*children(process), process.pid]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def environment_of(pid):
    """The environment with which a process was started; empty if it is gone or another user's."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = file.read().decode(errors="replace").split("\0")
    except OSError:
        return {}
    return dict(variable.split("=", 1) for variable in variables if "=" in variable)


def runs(pid, program):
    """Whether this process runs that program file."""
    try:
        return os.path.samefile(os.readlink(f"/proc/{pid}/exe"), program)
    except OSError:
        return False
