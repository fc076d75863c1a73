"""Small file systems in memory, for tests of full disks. They need root."""

import os
import subprocess

from harness.program import DEADLINE_S


def missing():
    """Why there can be no small disk here; "" if there can."""
    if os.geteuid() != 0:
        return "small disks need root"
    probe = ["unshare", "-m", "mount", "-t", "tmpfs", "swarmpi-test", "/mnt"]
    try:
        done = subprocess.run(probe, capture_output=True, timeout=DEADLINE_S, check=False)
    except FileNotFoundError:
        return "not installed: unshare"
    return "" if done.returncode == 0 else "this machine does not let us mount anything"


def mount(*arguments):
    subprocess.run(["mount", *arguments], capture_output=True, timeout=DEADLINE_S, check=True)


def make(folder, size_bytes):
    """Makes the folder, and a disk of this size in it; the caller calls remove()."""
    os.makedirs(folder)
    mount("-t", "tmpfs", "-o", f"size={size_bytes}", "swarmpi-test", folder)


def enlarge(folder, size_bytes):
    mount("-o", f"remount,size={size_bytes}", folder)


def remove(folder):
    subprocess.run(["umount", "-l", folder], check=True)


def fill(folder):
    """As somebody else may: takes all that is left."""
    with open(os.path.join(folder, "ballast"), "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 20))
        except OSError:
            pass
