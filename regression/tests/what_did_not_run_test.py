"""The list of what a run of the suite has skipped, and what of it is a fault."""

import contextlib
import io
import re
import unittest
from pathlib import Path

from harness import skip_reasons
from harness.what_did_not_run import UNKNOWN, report, skipped

ROOT = Path(__file__).resolve().parents[2]
REASONS = [(r"there is no (moon|sun)", lambda match, build: match[1] == "sun")]


def log_of(**tests):
    """A log of CTest with these tests and what they have printed."""
    return "".join(
        f"{i}/{len(tests)} Testing: {name}\n{i}/{len(tests)} Test: {name}\nOutput:\n"
        f"----------\n{said}\n<end of output>\nTest time = 0.1 sec\n"
        for i, (name, said) in enumerate(tests.items(), 1)
    )


class Skipped(unittest.TestCase):
    def test_a_reason_is_found_wherever_it_stands(self):
        log = log_of(
            module_test="ok\nnot run: module_test.Night.test_tides: there is no moon\nok",
            of_google="src/a.cpp:7: Skipped\nthere is no moon\n",
            script="not run: there is no moon",
            silent="",
            ran="src/a.cpp:7: Skipped\nof a part only, which CTest does not show\n",
        )
        self.assertEqual(
            list(skipped(log, {"of_google", "script", "silent"})),
            [
                ("module_test.Night.test_tides", "there is no moon"),
                ("of_google", "there is no moon"),
                ("script", "there is no moon"),
                ("silent", UNKNOWN),
            ],
        )

    def test_what_was_switched_off_needs_a_reason_too(self):
        known = "All/CodecTest.HasTheReferencesBitsOfEveryNumber/bf16"
        listed = dict(skipped("", {known, "Another.Test"}, {known, "Another.Test", "not chosen"}))
        self.assertEqual(set(listed), {known, "Another.Test"})
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


class KnownReasons(unittest.TestCase):
    def test_every_reason_in_the_sources_is_known(self):
        written = {}
        for folder, kinds in (("src", "cpp"), ("kernels", "cpp"), ("regression", "py"),
                              ("postprocess", "py"), ("regression", "sh")):
            for path in (ROOT / folder).glob(f"**/*.{kinds}"):
                text = path.read_text(encoding="utf-8")
                for reason in re.findall(
                    r'GTEST_SKIP\(\) << "([^"]+)"|skipTest\(\s*"([^"]+)"'
                    r'|skip(?:If|Unless)\([^"\n]*, "([^"]+)"\)|"not run: ([^"{]+)"',
                    text,
                ):
                    written.setdefault("".join(reason), path)
        self.assertGreater(len(written), 10, "the sources give reasons")
        for reason, path in written.items():
            if path != Path(__file__).resolve():
                known = any(re.fullmatch(pattern, reason) for pattern, _ in skip_reasons.REASONS)
                self.assertTrue(known, f"{path}: {reason}")

    def test_every_probe_gives_an_answer_here(self):
        for pattern, could_run in skip_reasons.REASONS:
            with self.subTest(pattern=pattern):
                match = re.fullmatch(r"(?P<programs>sh)", "sh")
                self.assertIn(could_run(match, "no build"), (True, False))


if __name__ == "__main__":
    unittest.main()
