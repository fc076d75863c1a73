"""What the job scripts conclude from journal, log and disk: their functions alone, without a Slurm.

slurm_test.py has whole jobs.
"""

import os
import subprocess
import unittest

from harness.program import DEADLINE_S, ROOT
from harness.test_case import SwarmpiTest

FIND_RUN = "set -u; run=$PWD/run journal=$PWD/run/RUN.h5.journal started=$PWD/started"


class JobScript(SwarmpiTest):
    """A job with a folder `run` in the test's folder."""

    def setUp(self):
        super().setUp()
        os.makedirs(self.path("run", "checkpoints"))
        self.write("started")

    def write(self, name, text="", mode=0o644):
        path = self.path(*name.split("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(path, mode)

    def fake(self, program, deeds):
        """A program that stands before that of the system."""
        self.write(f"bin/{program}", f"#!/bin/sh\n{deeds}\n", 0o755)

    def bash(self, commands, **variables):
        """Output of commands in a shell that has the scripts' functions; its standard error is the
        job's log."""
        setup = f'cd "{ROOT}"; script=test; . jobscripts/slurm_common.sh; cd "{self.folder}"'
        environment = {**os.environ, "SLURM_JOB_ID": "7", **variables}
        environment["PATH"] = self.path("bin") + ":" + environment["PATH"]
        with open(self.path("log"), "a", encoding="ascii") as log:
            done = subprocess.run(
                ["bash", "-c", f"{setup}; {commands}"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                timeout=DEADLINE_S,
                check=False,
                text=True,
            )
        return done.stdout.strip()


class Verdict(JobScript):
    """mpirun has ended with status 2, and the run has made no mark of its end."""

    def verdict(self, log):
        self.write("log", log)
        return self.bash(f"{FIND_RUN}; log_begin=0; read_verdict 2; echo $verdict")

    def test_a_message_says_that_the_run_found_bad_input_whatever_mpirun_puts_before_it(self):
        for prefix in (
            "",
            "[1,0]<stderr>: ",
            "[1,0]<stderr>:",
            "[prterun-host-29717@1,0]<stderr>: ",
            "[Mon Nov 23 20:38:19 2026][1,0]<stderr>: ",
            "[1,0][host:29688]<stderr>: ",
            "[0] ",
            '<stderr rank="0">',
        ):
            with self.subTest(prefix=prefix):
                self.assertEqual(self.verdict(f"{prefix}swarmpi: train.steps: no\n"), "2")

    def test_without_a_message_it_was_mpirun(self):
        for log in ("", "prterun: cannot start a daemon\n", "[1,0]<stderr>: no swarmpi: here\n"):
            with self.subTest(log=log):
                self.assertEqual(self.verdict(log), "")

    def test_a_warning_is_no_end(self):
        warning = "swarmpi: warning: step-8 is DAMAGED and passed over\n"
        for prefix in ("", "[1,0]<stderr>: "):
            self.assertEqual(self.verdict(prefix + warning), "")
            self.assertEqual(self.verdict(prefix + warning + "swarmpi: no deck\n"), "2")


class FullDisk(JobScript):
    """Whether a job whose run has made no mark is one for a person."""

    def is_full(self, log=""):
        self.write("log", log)
        said = self.bash(f"{FIND_RUN}; why='' log_begin=0 probe_s=1; disk_is_full && echo full")
        self.assertEqual(os.listdir(self.path("run")), ["checkpoints"], "no probe is left")
        return said == "full"

    def test_the_run_has_said_so(self):
        self.assertTrue(self.is_full("[1,0]<stderr>: swarmpi: x: No space left on device\n"))
        self.assertFalse(self.is_full("swarmpi: warning: y: there is no room\n"))

    def test_the_probe_finds_no_room(self):
        self.assertFalse(self.is_full())
        self.fake("dd", "echo 'dd: error writing: Disk quota exceeded' >&2; exit 1")
        self.assertTrue(self.is_full())

    def test_another_trouble_is_not_taken_for_it(self):
        self.fake("dd", "echo 'dd: failed to open: Stale file handle' >&2; exit 1")
        self.assertFalse(self.is_full())

    def test_a_disk_that_hangs_is_not_waited_for(self):
        self.fake("dd", "trap '' TERM; sleep 8")
        self.assertFalse(self.is_full())


class Log(JobScript):
    """Where the words of a job go that was started with --output=/dev/null."""

    def open_log(self, folder):
        self.bash("exec >/dev/null 2>&1; open_log; echo out; echo error >&2", RUN_DIR=folder)

    def assert_log(self, path):
        with open(path, encoding="ascii") as file:
            self.assertEqual(file.read(), "out\nerror\n")

    def test_into_the_folder_of_the_run(self):
        self.open_log(self.path("new"))
        self.assert_log(self.path("new", "slurm-7.out"))
        self.assertFalse(os.path.exists(self.path("slurm-7.out")))

    def test_beside_the_submission_where_that_folder_cannot_be_written(self):
        self.open_log("/proc")
        self.assert_log(self.path("slurm-7.out"))

    def test_an_output_that_was_asked_for_is_kept(self):
        said = self.bash("open_log; echo out", RUN_DIR=self.path("run"))
        self.assertEqual(said, "out")
        self.assertFalse(os.path.exists(self.path("run", "slurm-7.out")))


class Complete(JobScript):
    """The mark `complete` counts where it names the newest term."""

    def test_only_the_newest_terms_mark_counts(self):
        ask = f"{FIND_RUN}; is_complete $journal && echo complete"
        self.assertEqual(self.bash(ask), "")
        self.write("run/RUN.h5.journal/term-9")
        self.assertEqual(self.bash(ask), "")
        self.write("run/RUN.h5.journal/complete", "term 9\n")
        self.assertEqual(self.bash(ask), "complete")
        self.write("run/RUN.h5.journal/term-10")
        self.assertEqual(self.bash(ask), "")
        self.write("run/RUN.h5.journal/complete", "term 10\n")
        self.assertEqual(self.bash(ask), "complete")


if __name__ == "__main__":
    unittest.main()
