"""Nothing that was reported is lost.

Stop, kill or fill the disk at any moment; resume; compare bitwise.
"""

import fcntl
import glob
import os
import pty
import random
import re
import resource
import select
import shutil
import signal
import struct
import subprocess
import termios
import time
import unittest

from harness import journal
from harness.processes import wait_for
from harness.program import BINARY, DEADLINE_S, slow_devices, train_arguments
from harness.test_case import SwarmpiTest


class Resume(SwarmpiTest):
    def setUp(self):
        super().setUp()
        self.reference = self.train("undisturbed")

    def test_from_a_checkpoint_in_the_middle_on_other_stages(self):
        for setting in ("train.updates=synchronous", "train.updates=delayed"):
            with self.subTest(setting=setting):
                kind = setting.split("=")[1]
                reference = self.train(f"{kind}-whole", setting)
                # A constant schedule lets half a run be the beginning of the whole one.
                whole = self.train(f"{kind}-constant", setting, "train.schedule=constant")
                self.train(f"{kind}-half", setting, "train.schedule=constant", "train.steps=6")
                checkpoints = self.path(f"{kind}-half", "RUN.checkpoints")
                half = self.train(
                    f"{kind}-half",
                    setting,
                    "train.schedule=constant",
                    "swarm.stages=4",
                    resume=checkpoints,
                )
                self.assert_same_run(whole, half)
                status, _, _ = self.run_program("compare", reference, whole)
                self.assertEqual(status, 1)

    def test_into_another_run_file_that_begins_at_row_0(self):
        self.train("first", "output.checkpoint_every=5", "output.keep=9")
        checkpoint = self.path("first", "RUN.checkpoints", "step-5")
        self.assert_same_run(self.reference, self.train("second", resume=checkpoint))

    def test_a_complete_run_resumes_to_itself(self):
        again = self.train("undisturbed", resume=self.path("undisturbed", "RUN.checkpoints"))
        self.assertTrue(os.path.exists(again + ".journal/complete"))
        self.assert_same_run(self.train("other"), again)

    def test_without_any_checkpoint_it_begins_anew_and_says_so(self):
        os.makedirs(self.path("fresh", "RUN.checkpoints"))
        arguments, run = self.training("fresh", quiet=False)
        status, out, err = self.run_program(
            *arguments, "--resume", self.path("fresh", "RUN.checkpoints")
        )
        self.assertEqual(status, 0, err)
        self.assertIn("there is no checkpoint in", out)
        self.assert_same_run(self.reference, run)

    def test_a_folder_that_is_not_there_is_refused(self):
        """A typo in its name must not start the run over."""
        err = self.train("fresh", resume=self.path("fresh", "RUN.chekpoints"), expect=2)
        self.assertIn("RUN.chekpoints: there is no such folder", err)
        self.assertEqual(os.listdir(self.path("fresh")), [])

    def test_a_resumed_run_is_not_begun_anew(self):
        """It has no checkpoint of its own yet: that in another folder has what was trained."""
        other = self.path("undisturbed", "RUN.checkpoints")
        self.train("moved", "output.checkpoint=" + self.path("empty"), resume=other)
        os.remove(self.path("moved", "RUN.h5.journal", "complete"))
        shutil.rmtree(self.path("empty"))
        os.makedirs(self.path("empty"))
        err = self.train(
            "moved", "output.checkpoint=" + self.path("empty"), resume=self.path("empty"), expect=2
        )
        self.assertIn("was resumed after step 12, and there is no checkpoint in", err)

    def test_learning_rates_stay_what_they_were(self):
        """A run that names the length of its schedule may be made shorter and longer."""
        steps = "train.schedule_steps=12"
        self.train("short", steps, "train.steps=6")
        checkpoints = self.path("short", "RUN.checkpoints")
        self.assert_same_run(self.reference, self.train("short", steps, resume=checkpoints))
        whole = self.path("undisturbed", "RUN.checkpoints")
        err = self.train("undisturbed", "train.steps=15", resume=whole, expect=2)
        self.assertIn("set train.schedule_steps = 12", err)
        self.assertIn("a new run", err)
        self.assertIn("can begin with these weights", err)
        longer = self.train("undisturbed", "train.steps=15", steps, resume=whole)
        self.assert_same_run(self.train("longer", "train.steps=15", steps), longer)

    def test_a_run_whose_hours_are_over_stops_with_a_checkpoint(self):
        settings = ("train.steps=3000", "output.validate_every=0")
        reference = self.train("hours-whole", *settings)
        err = self.train("hours", *settings, "train.max_hours=1e-4", expect=3)
        self.assertIn("train.max_hours = 0.0001 are over", err)
        checkpoints = self.path("hours", "RUN.checkpoints")
        self.assert_same_run(reference, self.train("hours", *settings, resume=checkpoints))

    def test_by_time_a_killed_run_has_a_checkpoint(self):
        """Nobody has asked for one: the default would write it after ten minutes."""
        settings = ("train.steps=100000", "output.checkpoint_every_s=0.2")
        arguments, _ = self.training("timed", *settings, quiet=False)
        process = self.start(*arguments)
        pattern = self.path("timed", "RUN.checkpoints", "step-*", "manifest")
        wait_for(lambda: len(glob.glob(pattern)) > 1, "two checkpoints")
        process.kill()
        process.communicate()
        status, out, _ = self.run_program(
            *arguments, "--dry-run", "--resume", self.path("timed", "RUN.checkpoints")
        )
        self.assertEqual(status, 0)
        self.assertIn("resumes after step", out)

    def test_two_runs_at_once_have_not_one_folder_of_checkpoints(self):
        folder = f"output.checkpoint={self.path('both')}"
        arguments, run = self.training("one", folder, "train.steps=100000")
        process = self.start(*arguments)
        wait_for(lambda: os.path.exists(run + ".journal/term-1"), "the journal")
        err = self.train("two", folder, expect=2)
        self.stop(process, signal.SIGINT)
        self.assertIn(f"is in use by the run that writes {os.path.realpath(run)}", err)

    def test_what_a_killed_writer_left_is_in_nobodys_way(self):
        arguments, run = self.training("killed", "train.steps=100000")
        process = self.start(*arguments)
        wait_for(lambda: os.path.exists(run + ".journal/term-1"), "the journal")
        process.kill()
        process.communicate()
        with open(run + ".journal/.ended.part-elsewhere-1-0", "wb"):
            pass
        self.train("killed", resume=self.path("killed", "RUN.checkpoints"))
        self.assert_same_run(self.reference, run)

    def test_it_begins_again_whatever_a_dead_run_has_left(self):
        half = b"SWJ6\0\0\0\0"
        for number, left in enumerate(
            (
                {"over-1": b"term 2\n"},
                {"over-1": b"term 2\n", "over-2": b"", "proof-3": b""},
                {"term-1": b"", "proof-1": b"term 2\n", ".over-1.part-elsewhere-1-0": b"te"},
                {"term-1": half, "term-2": half, "ended": b"run 1 term 2 status 3\nstopped\n"},
                {"complete": b"term 4\n", "probe.peer-0": b""},
            )
        ):
            with self.subTest(left=sorted(left)):
                name = f"left{number}"
                folder = self.path(name, "RUN.h5.journal")
                part = self.path(name, "RUN.checkpoints", "step-5", "stage-0.term-1.peer-0.h5")
                for path, content in (
                    *((os.path.join(folder, file), left[file]) for file in left),
                    (part, b"half"),
                ):
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    with open(path, "wb") as file:
                        file.write(content)
                run = self.train(name, resume=self.path(name, "RUN.checkpoints"))
                self.assert_same_run(self.reference, run)
                self.assert_complete(run)

    def test_terms_go_on_when_it_begins_again(self):
        """A process of the run that died may wake up: it must find that its term is over."""
        arguments, run = self.training("again", "train.steps=100000")
        os.makedirs(self.path("again", "RUN.checkpoints"))
        for _ in range(2):
            process = self.start(*arguments, "--resume", self.path("again", "RUN.checkpoints"))
            term = len(glob.glob(run + ".journal/term-*")) + 1
            path = f"{run}.journal/term-{term}"
            wait_for(
                lambda path=path: journal.STEP in [kind for kind, _ in journal.records(path)],
                f"a row of term {term}",
            )
            self.stop(process)
        self.assert_same_run(
            self.reference, self.train("again", resume=self.path("again", "RUN.checkpoints"))
        )
        for term, later in ((1, b"term 2\n"), (2, b"term 3\n")):
            with open(f"{run}.journal/over-{term}", "rb") as file:
                self.assertEqual(file.read(), later)
        with open(run + ".journal/complete", "rb") as file:
            self.assertEqual(file.read(), b"term 3\n")

    def test_a_signal_stops_with_a_checkpoint(self):
        settings = ("train.steps=400", "output.validate_every=0")
        self.add_to_deck(slow_devices(1e-3, peers=1))
        for how in (signal.SIGUSR1, signal.SIGINT, signal.SIGTERM):
            with self.subTest(how=how):
                name = f"signal{int(how)}"
                reference = self.train(f"{name}-whole", *settings)
                # The same bits, and the run takes some seconds on any machine.
                arguments, run = self.training(name, *settings, "compute.fidelity=emulated")
                process = self.start(*arguments)
                folder = run + ".journal"
                wait_for(lambda path=folder: os.path.exists(f"{path}/term-1"), "the journal")
                wait_for(lambda path=folder: len(journal.rows(path)[0]) > 10, "some steps")
                _, err = self.stop(process, how)
                self.assertEqual(process.returncode, 3, err)
                self.assertIn("--resume", err)
                run = self.train(name, *settings, resume=self.path(name, "RUN.checkpoints"))
                self.assert_same_run(reference, run)


class Kill(SwarmpiTest):
    """SIGKILL at random moments: what was shown is there, and the run goes on bit for bit."""

    KILLS = 50  # half of them with delayed updates
    SETTINGS = (
        "train.steps=60",
        "output.checkpoint_every=4",
        "output.validate_every=7",
        "output.publish_every_s=0.05",
        "swarm.stages=2",
    )

    def test_with_synchronous_updates(self):
        self.kill_at_random_moments(self.SETTINGS)

    def test_with_delayed_updates(self):
        self.kill_at_random_moments((*self.SETTINGS, "train.updates=delayed"))

    def kill_at_random_moments(self, settings):
        begin = time.monotonic()
        reference = self.train("undisturbed", *settings)
        whole_s = time.monotonic() - begin
        rng = random.Random(20261121)
        name, round_number, kills, done = "killed", 0, 0, 0
        while 2 * kills < self.KILLS:
            folder = f"{name}{round_number}"
            os.makedirs(self.path(folder, "RUN.checkpoints"), exist_ok=True)
            run = self.path(folder, "RUN.h5")
            arguments = train_arguments(self.deck, run, *settings, quiet=False)
            arguments += ["--resume", self.path(folder, "RUN.checkpoints")]
            status, out = self.run_on_terminal(arguments, rng.uniform(0.02, 0.6 * whole_s))
            if status is None:
                kills += 1
                self.assert_reported_rows_are_there(out, run)
                continue
            self.assertEqual(status, 0, out)
            done += 1
            self.assert_same_run(reference, run)
            round_number += 1
        # Whatever state the last kill left goes on to the end.
        self.assert_same_run(
            reference,
            self.train(
                f"{name}{round_number}",
                *settings,
                resume=self.path(f"{name}{round_number}", "RUN.checkpoints"),
            ),
        )
        print(f"{kills} kills, {done} runs ended between them")

    def run_on_terminal(self, arguments, kill_after_s):
        """On a terminal every step is shown once it is written.

        Returns (status or None if killed, what was shown).
        """
        try:
            ours, theirs = pty.openpty()
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 25, 80, 0, 0))
        except OSError as error:  # a container without terminals: fewer steps are shown, no more
            print(f"no terminal to be had ({error}): a pipe instead")
            ours, theirs = os.pipe()
        process = subprocess.Popen(
            [BINARY, *arguments], stdout=theirs, stderr=theirs, stdin=subprocess.DEVNULL
        )
        os.close(theirs)
        end, shown, killed = time.monotonic() + kill_after_s, b"", False
        while True:
            left_s = max(0, end - time.monotonic()) if not killed else DEADLINE_S
            if not select.select([ours], [], [], left_s)[0]:
                self.assertFalse(killed, "a killed process keeps its terminal open")
                process.kill()
                killed = True
                continue
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other end is closed
                piece = b""
            if not piece:
                break
            shown += piece
        os.close(ours)
        status = process.wait(timeout=DEADLINE_S)
        return (None if status == -signal.SIGKILL else status), shown.decode(errors="replace")

    def assert_reported_rows_are_there(self, shown, run):
        reported = [int(n) for n in re.findall(r"step (\d+)/", shown)]
        if not reported:
            return
        status, text, err = self.run_program("info", run + ".journal")
        self.assertEqual(status, 0, text + err)
        last = int(re.search(r"steps\s+(\d+)", text).group(1))
        self.assertGreaterEqual(last, max(reported), text)


class Terminal(SwarmpiTest):
    """What happens to standard output does not happen to the run."""

    def test_closed_or_full_output_harms_nothing(self):
        reference = self.train("plain")
        for redirection in (">&-", ">&- 2>&-", "> /dev/full"):
            run = self.path("redirected", "RUN.h5")
            command = f"{BINARY} train {self.deck} --out {run} {redirection}"
            status = subprocess.run(
                ["sh", "-c", command], timeout=DEADLINE_S, check=False
            ).returncode
            self.assertEqual(status, 0, command)
            self.assert_same_run(reference, run)
            shutil.rmtree(self.path("redirected"))

    def test_a_signal_while_nothing_is_there_to_save_ends_the_process(self):
        large = self.path("large.bin")
        with open(large, "wb") as file:
            file.truncate(4 << 30)
        run = self.path("never", "RUN.h5")
        process = self.start(*train_arguments(self.deck, run, f"data.paths={large}"))
        time.sleep(0.3)
        self.stop(process, signal.SIGINT)
        self.assertEqual(process.returncode, -signal.SIGINT)
        self.assertFalse(os.path.exists(self.path("never")))

    def test_a_run_that_is_being_written_is_left_alone(self):
        settings = ("train.steps=100000", "output.checkpoint_every=5")
        arguments, _ = self.training("one", *settings)
        process = self.start(*arguments)
        manifest = self.path("one", "RUN.checkpoints", "step-5", "manifest")
        wait_for(lambda: os.path.exists(manifest), "the checkpoint of step 5")
        checkpoints = self.path("one", "RUN.checkpoints")
        status, _, err = self.run_program(*arguments, "--resume", checkpoints)
        self.stop(process, signal.SIGINT)
        self.assertEqual(status, 2, err)
        self.assertIn("another process", err)


class Data(SwarmpiTest):
    def test_cut_short_while_it_is_read_the_run_goes_on_when_it_is_whole_again(self):
        settings = ("train.steps=1500", "output.checkpoint_every=20", "output.validate_every=0")
        reference = self.train("undisturbed", *settings)
        arguments, _ = self.training("cut", *settings)
        process = self.start(*arguments)
        manifest = self.path("cut", "RUN.checkpoints", "step-20", "manifest")
        wait_for(lambda: os.path.exists(manifest), "the checkpoint of step 20")
        shutil.copy(self.data, self.path("whole.bin"))
        os.truncate(self.data, 100)
        _, err = process.communicate(timeout=DEADLINE_S)
        self.assertEqual(process.returncode, 3, err)
        self.assertIn("data.paths", err)
        shutil.copy(self.path("whole.bin"), self.data)
        run = self.train("cut", *settings, resume=self.path("cut", "RUN.checkpoints"))
        self.assert_same_run(reference, run)


class FullDisk(SwarmpiTest):
    """A limit on file sizes stands in for a full disk: writing fails in the middle of a file."""

    def limited(self, size_bytes):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, size_bytes))

        return limit

    def test_ends_with_status_3_and_goes_on_when_there_is_room(self):
        settings = ("train.steps=60", "output.checkpoint_every=10", "output.validate_every=0")
        reference = self.train("undisturbed", *settings)
        journal_bytes = os.path.getsize(reference + ".journal/term-1")
        for share in (0.3, 0.6, 0.9):
            with self.subTest(share=share):
                name = f"full{share}"
                # Checkpoints are larger than the journal: with few bytes the first of them fails.
                err = self.train(
                    name, *settings, expect=3, preexec_fn=self.limited(int(share * journal_bytes))
                )
                self.assertIn("File too large", err)
                self.assertIn(name, err)
                checkpoints = self.path(name, "RUN.checkpoints")
                self.assert_same_run(reference, self.train(name, *settings, resume=checkpoints))


if __name__ == "__main__":
    unittest.main()
