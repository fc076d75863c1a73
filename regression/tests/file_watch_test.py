"""Tests harness/file_watch.py: each file that is made is told once."""

import os
import tempfile
import unittest
from unittest import mock

from harness.file_watch import FileWatch


class Watched(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.watch = FileWatch(self.folder)
        self.addCleanup(self.watch.close)

    def make(self, *names):
        path = os.path.join(self.folder, *names)
        with open(path, "wb"):
            pass
        return path

    def test_a_file_that_is_made_once_more_is_told_once_more(self):
        for _ in range(2):
            path = self.make("file")
            self.assertEqual(self.watch.made(1), [path])
            os.remove(path)

    def test_a_file_in_a_new_folder_is_told_once_though_it_comes_as_that_is_looked_into(self):
        below = os.path.join(self.folder, "below")
        os.mkdir(below)
        look, paths = os.scandir, []

        def look_late(folder):
            paths.append(self.make("below", "file"))
            return look(folder)

        with mock.patch("os.scandir", look_late):
            found = self.watch.made(1)
        found += self.watch.made(0.1)
        self.assertEqual(found, [below, *paths])


if __name__ == "__main__":
    unittest.main()
