#!/usr/bin/env python3
"""whole_file.py writes files as a whole or not at all: 0 if so, 77 if it cannot run."""

import errno
import os
import secrets
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

try:
    import h5py
    from picture_file import save
except ImportError as missing:
    print(f"not run: a module is missing: {missing}")
    sys.exit(77)

from trouble import Trouble
from whole_file import ABANDONED_AFTER_S, whole_file, write_csv, write_text, write_whole


def fail_with(number):
    """A writer whose disk gives out after some bytes."""

    def write(file):
        file.write(b"half")
        raise OSError(number, os.strerror(number))

    return write


class WholeFile(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.path = self.folder / "RUN.csv"

    def names(self):
        return sorted(path.name for path in self.folder.iterdir())

    def test_two_writers_with_one_pid_do_not_mix(self):
        other = self.folder / "other.csv"
        with whole_file(self.path) as first, whole_file(other) as second:
            with whole_file(self.path) as third:
                for count, file in ((100, first), (200, second), (300, third)):
                    file.write(str(count).encode() * count)
                    file.flush()
        self.assertEqual(self.path.read_text("ascii"), "100" * 100, "the one that ended last")
        self.assertEqual(other.read_text("ascii"), "200" * 200)
        self.assertEqual(self.names(), ["RUN.csv", "other.csv"])

    def test_a_link_at_the_hidden_name_is_not_followed(self):
        victim = self.folder / "victim"
        victim.write_text("precious", "ascii")
        number, made = "0123456789abcdef", []
        with mock.patch.object(secrets, "token_hex", return_value=number):
            with mock.patch.object(os, "open", side_effect=lambda *of: made.append(of[0]) or 1 / 0):
                with self.assertRaises(ZeroDivisionError):
                    write_text(self.path, "new")
            self.assertIn(number, made[0].name)
            made[0].symlink_to(victim)
            with self.assertRaises(FileExistsError) as raised:
                write_text(self.path, "new")
        self.assertEqual(raised.exception.filename, str(self.path))
        self.assertEqual(victim.read_text("ascii"), "precious")
        self.assertTrue(made[0].is_symlink(), "what is another's is not removed")

    def test_a_link_of_the_old_hidden_name_is_not_followed(self):
        victim = self.folder / "victim"
        victim.write_text("precious", "ascii")
        (self.folder / f".swarmpi-part-{os.getpid()}").symlink_to(victim)
        write_whole(self.path, lambda file: file.write(b"new"))
        self.assertEqual(victim.read_text("ascii"), "precious")

    def test_is_synced_before_its_rename_and_its_folder_after(self):
        calls = []

        def note(name, real):
            def call(*of):
                seen = os.readlink(f"/proc/self/fd/{of[0]}") if isinstance(of[0], int) else of[1]
                calls.append((name, Path(seen).name.partition(".part-")[0]))
                return real(*of)

            return mock.patch.object(os, name, call)

        with note("fsync", os.fsync), note("replace", os.replace):
            write_text(self.path, "new")
        folder = self.folder.resolve().name
        self.assertEqual(
            calls, [("fsync", ".RUN.csv"), ("replace", "RUN.csv"), ("fsync", folder)]
        )

    def test_keeps_old_content_when_writing_fails(self):
        write_text(self.path, "old")
        for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            with self.assertRaises(OSError) as raised:
                write_whole(self.path, fail_with(number))
            self.assertEqual(raised.exception.filename, str(self.path))
        self.assertEqual((self.path.read_text("ascii"), self.names()), ("old", ["RUN.csv"]))

    def test_names_the_file_when_its_folder_is_missing(self):
        path = self.folder / "nowhere" / "RUN.csv"
        with self.assertRaises(FileNotFoundError) as raised:
            write_text(path, "new")
        self.assertEqual(raised.exception.filename, str(path))

    def test_keeps_a_link_to_the_file(self):
        (self.folder / "below").mkdir()
        self.path.symlink_to(Path("below", "real.csv"))
        for text in ("new", "newer"):
            write_text(self.path, text)
            self.assertTrue(self.path.is_symlink())
            self.assertEqual((self.folder / "below" / "real.csv").read_text("ascii"), text)

    def test_refuses_a_pipe_and_a_folder(self):
        os.mkfifo(self.path)
        for path in (self.path, self.folder):
            with self.assertRaises(OSError) as raised:
                write_text(path, "new")
            self.assertEqual(raised.exception.filename, str(path))
        self.assertTrue(self.path.is_fifo(), "it is not replaced")

    def test_removes_what_a_killed_writer_left_long_ago(self):
        old, new, other = (
            self.folder / f".{name}" for name in ("RUN.csv.part-a-1-0", "RUN.csv.part-b-1-0", "x")
        )
        for path in (old, new, other):
            path.touch()
        for path in (old, other):
            os.utime(path, (time.time() - ABANDONED_AFTER_S - 60,) * 2)
        write_text(self.path, "new")
        self.assertEqual(self.names(), [new.name, other.name, "RUN.csv"])

    def test_has_the_rights_of_the_umask(self):
        before = os.umask(0o027)
        try:
            write_text(self.path, "new")
        finally:
            os.umask(before)
        self.assertEqual(self.path.stat().st_mode & 0o777, 0o640)

    def test_table_has_a_line_for_each_row(self):
        write_csv(self.path, ["step", "said"], [(1, "a,b"), (2, 'a\n"b"')])
        self.assertEqual(self.path.read_bytes(), b'step,said\n1,"a,b"\n2,"a\n""b"""\n')

    def test_holds_an_hdf5_file(self):
        with whole_file(self.path) as whole, h5py.File(whole, "w") as file:
            file["values"] = [1.0, 2.0]
        with h5py.File(self.path) as file:
            self.assertEqual(file["values"][:].tolist(), [1.0, 2.0])

    def test_keeps_an_old_picture_when_drawing_fails(self):
        write_text(self.path, "old")
        figure = mock.Mock()
        figure.savefig = lambda file, **how: fail_with(errno.ENOSPC)(
            file if hasattr(file, "write") else open(file, "wb", buffering=0)
        )
        with self.assertRaises(Trouble):
            save(figure, self.path, 100)
        self.assertEqual((self.path.read_text("ascii"), self.names()), ("old", ["RUN.csv"]))


if __name__ == "__main__":
    unittest.main()
