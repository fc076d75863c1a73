"""The run file as other programs see it: numbers are numbers, every column says what it is in the
file and in docs/files.md, and the columns of a table share a coordinate. xarray, pandas and the
tools of netCDF read it as it is, where they are installed."""

import fcntl
import os
import re
import shutil
import subprocess
import unittest

try:
    import h5py
    import numpy as np
except ImportError:
    h5py = None

try:
    import h5netcdf  # noqa: F401  (what xarray reads HDF5 with)
    import pandas  # noqa: F401  (what it makes frames of)
    import xarray
except ImportError:
    xarray = None

from harness.program import DEADLINE_S, ROOT
from harness.test_case import SwarmpiTest

SETTINGS = ("train.steps=8", "train.seed=5", "output.validate_every=4")
TABLES = ("steps", "validation", "peers", "events", "throughput", "goodput")
SCALE = "step"  # the coordinate of all columns


def documented_columns():
    """Table -> the columns that docs/files.md explains."""
    text = (ROOT / "docs" / "files.md").read_text(encoding="utf-8")
    columns = {}
    for section in re.findall(r"^### /(\w+)\n(.*?)(?=^##)", text, re.MULTILINE | re.DOTALL):
        table = section[1].partition("| column |")[2].partition("\n\n")[0]
        cells = re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE)
        columns[section[0]] = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    return columns


@unittest.skipUnless(h5py, "there is no h5py")
class RunFile(SwarmpiTest):
    def setUp(self):
        super().setUp()
        self.run_file = self.train("run", *SETTINGS)

    def test_numbers_are_numbers(self):
        with h5py.File(self.run_file, "r") as file:
            for name, value in (("complete", 1), ("seed", 5)):
                self.assertEqual(np.asarray(file.attrs[name]).dtype, np.int64)
                self.assertEqual(file.attrs[name], value)
            self.assertEqual(file.attrs["verdict"], "valid")

    def test_before_it_is_published_its_journal_stands_for_it(self):
        status, published, err = self.run_program("info", self.run_file)
        self.assertEqual(status, 0, err)
        self.train("other", *SETTINGS)
        os.remove(self.run_file)
        status, by_journal, err = self.run_program("info", self.run_file)
        self.assertEqual(status, 0, err)
        self.assertEqual(published, by_journal)
        status, table, err = self.run_program("info", self.folder)
        self.assertEqual(status, 0, err)
        for name in ("run", "other"):
            self.assertIn(name, table)

    def test_is_read_when_a_site_asks_for_locks_that_cannot_be_had(self):
        environment = {**os.environ, "HDF5_USE_FILE_LOCKING": "TRUE"}
        with open(self.run_file, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            status, _, err = self.run_program("info", self.run_file, env=environment)
        self.assertEqual(status, 0, err)

    def test_other_files_in_its_folder_are_no_runs(self):
        weights = os.path.join(os.path.dirname(self.run_file), "weights.h5")
        with h5py.File(weights, "w") as file:
            file.attrs["format"] = "swarmpi weights 1"
        for folder in (os.path.dirname(self.run_file), self.folder):
            status, out, err = self.run_program("info", folder)
            self.assertEqual(status, 0, err)
            self.assertIn("8 of 8", out)

    def test_every_column_says_what_it_is(self):
        documented = documented_columns()
        with h5py.File(self.run_file, "r") as file:
            self.assertEqual(set(file), set(TABLES))
            for table, columns in file.items():
                self.assertEqual(set(columns), documented[table], table)
                for name, column in columns.items():
                    with self.subTest(table=table, column=name):
                        self.assertGreater(len(column.attrs["long_name"]), 5)
                        is_text = h5py.check_string_dtype(column.dtype) is not None
                        self.assertEqual("units" in column.attrs, not is_text)
                        if name.endswith("_s") and name != "tokens_per_s":
                            self.assertEqual(column.attrs["units"], "s")

    def test_columns_of_a_table_share_a_coordinate(self):
        with h5py.File(self.run_file, "r") as file:
            for table in TABLES:
                columns = file[table]
                self.assertTrue(columns[SCALE].is_scale, table)
                for name in set(columns) - {SCALE}:
                    attached = columns[name].dims[0]
                    self.assertEqual([attached[0]], [columns[SCALE]], f"{table}/{name}")

    def test_throughput_names_the_steps_of_its_times(self):
        with h5py.File(self.run_file, "r") as file:
            times_s = dict(zip(file["steps/step"][:], file["steps/time_s"][:]))
            rates = file["throughput"]
            found = dict(zip(rates["step"][:], rates["time_s"][:]))
        self.assertGreater(len(found), 5)
        self.assertEqual(found, {step: times_s[step] for step in found})

    def test_numbers_of_rows_of_steps(self):
        """A sum over all rows is what `swarmpi info` says."""
        with h5py.File(self.run_file, "r") as file:
            trained = int(file["steps/tokens"][:].sum())
        status, out, _ = self.run_program("info", self.run_file)
        self.assertEqual(status, 0)
        self.assertRegex(out, rf"(?m)^tokens +{trained},")

    @unittest.skipUnless(shutil.which("ncdump"), "not installed: ncdump")
    def test_netcdf_reads_it(self):
        """Each table is a group with one dimension, its columns variables of that with units."""
        done = subprocess.run(
            ["ncdump", "-h", self.run_file],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        groups = dict(re.findall(r"^group: (\w+) \{\n(.*?)^  \}", done.stdout, re.M | re.S))
        self.assertEqual(set(groups), set(TABLES))
        columns = documented_columns()
        for table, text in groups.items():
            with self.subTest(table=table):
                dimensions = text.partition("variables:")[0]
                self.assertEqual(re.findall(r"^\s*(\w+) = ", dimensions, re.M), [SCALE])
                variables = re.findall(r"^\s*\w+ (\w+)\((\w+)\) ;", text, re.M)
                self.assertEqual(dict(variables), dict.fromkeys(columns[table], SCALE))
        self.assertIn('loss:units = "nats/token"', groups["steps"])
        self.assertIn(":complete = 1", done.stdout)

    @unittest.skipUnless(xarray, "there is no xarray with h5netcdf and pandas")
    def test_xarray_and_pandas_read_it(self):
        for table in TABLES:
            with xarray.open_dataset(self.run_file, group=table, engine="h5netcdf") as data:
                self.assertEqual(list(data.dims), [SCALE], table)
                self.assertIn(SCALE, data.coords)
                frame = data.to_dataframe()
                self.assertEqual(frame.index.name, SCALE)
                self.assertEqual(len(frame), data.sizes[SCALE])
        with xarray.open_dataset(self.run_file, group="steps", engine="h5netcdf") as steps:
            self.assertEqual(steps["loss"].attrs["units"], "nats/token")
            self.assertEqual(steps["time_s"].dtype, np.float64, "not taken for a length of time")
            self.assertEqual(list(steps["step"].values), list(range(9)))
            with h5py.File(self.run_file, "r") as file:
                self.assertEqual(float(steps["loss"].sel(step=3)), file["steps/loss"][3])
        with xarray.open_dataset(self.run_file, group="peers", engine="h5netcdf") as peers:
            self.assertEqual(set(peers.sel(step=3)["peer"].values.reshape(-1)), {0})


if __name__ == "__main__":
    unittest.main()
