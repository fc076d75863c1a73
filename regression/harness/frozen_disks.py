"""File systems in a file that can be frozen: whoever writes to them then waits, unkillable, until
they are thawed. They need root."""

import os
import subprocess
import tempfile

from harness.program import DEADLINE_S

SIZE_BYTES = 64 << 20


def run(*command):
    subprocess.run(command, capture_output=True, timeout=DEADLINE_S, check=True)


def missing():
    """Why no disk can be frozen here; "" if one can."""
    if os.geteuid() != 0:
        return "disks that can be frozen need root"
    with tempfile.TemporaryDirectory() as folder:
        try:
            disk = make(os.path.join(folder, "disk"), os.path.join(folder, "image"))
            freeze(disk)
            thaw(disk)
            remove(disk)
        except FileNotFoundError as error:
            return f"not installed: {error.filename}"
        except subprocess.CalledProcessError:
            return "this machine does not let us freeze a file system"
    return ""


def make(folder, image):
    """Makes the folder, and a disk in it whose content is in the file `image`; returns the disk."""
    os.makedirs(folder)
    with open(image, "wb") as file:
        file.truncate(SIZE_BYTES)
    run("mkfs.ext4", "-q", image)
    run("mount", "-o", "loop", image, folder)
    return folder


def freeze(disk):
    run("fsfreeze", "-f", disk)


def thaw(disk):
    run("fsfreeze", "-u", disk)


def remove(disk):
    run("umount", "-l", disk)
