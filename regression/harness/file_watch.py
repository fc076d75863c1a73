"""Tells at once which files are made in a folder and its subfolders (Linux: inotify)."""

import ctypes
import os
import select
import struct

CREATED, MOVED_IN, IS_FOLDER = 0x100, 0x80, 0x40000000
EVENT = struct.Struct("iIII")


class FileWatch:
    """Files made in `folder`, or renamed into it, since this was made; in folders below it too."""

    def __init__(self, folder):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.descriptor = self.libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self.folders = {}
        self.found = []
        self.scanned = set()  # an event of these may follow: they were made between watch and look
        self.add(folder)

    def add(self, folder):
        """What is there already counts as made now: it may have come before the watch."""
        mask = ctypes.c_uint32(CREATED | MOVED_IN)
        number = self.libc.inotify_add_watch(self.descriptor, os.fsencode(folder), mask)
        if number < 0:  # the folder is gone again
            return
        self.folders[number] = folder
        try:
            entries = list(os.scandir(folder))
        except OSError:
            return
        for entry in entries:
            self.found.append(entry.path)
            self.scanned.add(entry.path)
            if entry.is_dir():
                self.add(entry.path)

    def made(self, timeout_s):
        """Paths, oldest first; none when nothing happens for so long."""
        if not self.found and select.select([self.descriptor], [], [], timeout_s)[0]:
            self.read()
        found, self.found = self.found, []
        return found

    def read(self):
        events = os.read(self.descriptor, 1 << 16)
        while events:
            number, mask, _, length = EVENT.unpack_from(events)
            name = events[EVENT.size : EVENT.size + length].rstrip(b"\0").decode()
            events = events[EVENT.size + length :]
            if number not in self.folders or not name:
                continue
            path = os.path.join(self.folders[number], name)
            if path in self.scanned:
                self.scanned.remove(path)
                continue
            self.found.append(path)
            if mask & IS_FOLDER:
                self.add(path)

    def close(self):
        os.close(self.descriptor)
