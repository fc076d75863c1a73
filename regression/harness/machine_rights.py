"""What the kernel says that it allows this process, by other means than to try it.

Tests are skipped where a mount or a host of their own did not come about; whether the machine or
the test is to blame is told by /proc, and by nothing that the tests themselves use. Where a machine
forbids what /proc allows (a security module, a device that may not be opened), a person says so:
$SWARMPI_MACHINE_LACKS names it, of mounts, loops, hosts, tun and freezer, separated by blanks.
"""

import os
import re
from pathlib import Path

VARIABLE = "SWARMPI_MACHINE_LACKS"
PROC = Path("/proc")
DEVICES = Path("/dev")
NET_ADMIN, SYS_ADMIN = 12, 21  # linux/capability.h


def read(name):
    """A file of /proc; "" where it cannot be read."""
    try:
        return (PROC / name).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def excused(what):
    return what in os.environ.get(VARIABLE, "").split()


def has_rights(*capabilities):
    held = re.search(r"^CapEff:\s*([0-9a-f]+)$", read("self/status"), re.MULTILINE)
    return bool(held) and all(int(held[1], 16) >> bit & 1 for bit in capabilities)


def knows_file_systems(*names):
    known = {line.split()[-1] for line in read("filesystems").splitlines() if line.strip()}
    return known.issuperset(names)


def has_functions(*names):
    """Whether they are in the kernel, or in a module of it that is loaded."""
    symbols = read("kallsyms")
    return all(re.search(rf" {name}\b", symbols) for name in names)


def mounts():
    """Small file systems in memory."""
    return not excused("mounts") and has_rights(SYS_ADMIN) and knows_file_systems("tmpfs")


def loops():
    """File systems in a file, which can be frozen."""
    return (
        not excused("loops")
        and has_rights(SYS_ADMIN)
        and knows_file_systems("ext4")
        and (DEVICES / "loop-control").exists()
    )


def hosts():
    """Network name spaces that are joined by a bridge."""
    return (
        not excused("hosts")
        and has_rights(SYS_ADMIN, NET_ADMIN)
        and (PROC / "self/ns/net").exists()
        and has_functions("br_dev_setup", "veth_newlink")
    )


def tun():
    """Network devices whose packets a program carries."""
    return not excused("tun") and has_rights(NET_ADMIN) and (DEVICES / "net/tun").exists()


def freezer(folder):
    """Processes that are tracked by the cgroup that is mounted there."""
    mounted = re.search(rf"^\S+ {re.escape(folder)} cgroup rw[, ]", read("mounts"), re.MULTILINE)
    return not excused("freezer") and has_rights(SYS_ADMIN) and bool(mounted)
