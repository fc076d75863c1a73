"""What the end-to-end tests derive from: the real program on tiny decks, every wait bounded."""

import atexit
import functools
import glob
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from harness import program
from harness.processes import wait_for
from harness.program import BINARY, DEADLINE_S, train_arguments, write_deck
from harness.swarm import MPIRUN, Swarm


def content(folder):
    """Every file below `folder` with its bytes, and every folder."""
    found = {}
    for where, folders, names in os.walk(folder):
        for name in folders:
            found[os.path.join(where, name)] = "a folder"
        for name in names:
            path = os.path.join(where, name)
            with open(path, "rb") as file:
                found[path] = file.read()
    return found


class SwarmpiTest(unittest.TestCase):
    """A test with a temporary folder, a data file and a deck of its own."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="swarmpi-test-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.deck, self.data = write_deck(self.folder)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def add_to_deck(self, text):
        with open(self.deck, "a", encoding="ascii") as file:
            file.write(text)

    # One process, without mpirun

    def start(self, *arguments, **options):
        return subprocess.Popen(
            [BINARY, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            **options,
        )

    def run_program(self, *arguments, **options):
        """Returns (status, stdout, stderr); fails the test when the program hangs."""
        process = self.start(*arguments, **options)
        try:
            out, err = process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            self.fail(f"no end after {DEADLINE_S} s: {arguments}")
        return process.returncode, out, err

    def stop(self, process, how=signal.SIGKILL):
        """Sends a signal; returns (stdout, stderr) once the process has ended."""
        process.send_signal(how)
        try:
            return process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return self.fail(f"no end {DEADLINE_S} s after signal {how}")

    # Several ranks

    def start_swarm(self, ranks, *arguments, through=(), **options):
        """Starts the program under mpirun; what is left of it is ended with the test.

        `through` is a command that each rank's process becomes the program by.
        """
        swarm = Swarm(ranks, [*through, BINARY, *arguments], **options)
        self.addCleanup(swarm.end)
        return swarm

    def hidden_files(self, run):
        """Those in the folders of the run FOLDER/RUN, and of its checkpoints."""
        return sorted(
            glob.glob(self.path(run, ".*")) + glob.glob(self.path(run, "RUN.checkpoints", ".*"))
        )

    # Training

    def training(self, name, *settings, resume=None, deck=None, options=(), quiet=True):
        """The arguments that train into FOLDER/NAME/RUN.h5, and that path."""
        os.makedirs(self.path(name), exist_ok=True)
        run = self.path(name, "RUN.h5")
        arguments = train_arguments(deck or self.deck, run, *settings, quiet=quiet) + [*options]
        if resume is not None:
            arguments += ["--resume", resume]
        return arguments, run

    def train(
        self,
        name,
        *settings,
        resume=None,
        expect=0,
        deck=None,
        options=(),
        ranks=None,
        **popen,
    ):
        """Trains into FOLDER/NAME/RUN.h5; returns that path, or stderr where it must fail.

        With `ranks` under mpirun, else as one process without it.
        """
        arguments, run = self.training(name, *settings, resume=resume, deck=deck, options=options)
        if ranks is None:
            status, out, err = self.run_program(*arguments, **popen)
        else:
            status, out, err = self.start_swarm(ranks, *arguments).result()
        self.assertEqual(status, expect, f"{ranks} ranks: {arguments}\n{out}\n{err}")
        if ranks is not None and expect == 0:  # mpirun's status alone proves nothing
            self.assert_complete(run, out + err)
        return run if expect == 0 else err

    def assert_complete(self, run, said=""):
        self.assertTrue(os.path.exists(run + ".journal/complete"), said)

    def assert_unfinished(self, run):
        self.assertFalse(os.path.exists(run + ".journal/complete"))

    def assert_same_run(self, a, b):
        status, out, err = self.run_program("compare", a, b)
        self.assertEqual(status, 0, out + err)


@functools.cache
def undisturbed_run(settings):
    """The run file of one process with these settings; all tests of this program share it."""
    folder = tempfile.mkdtemp(prefix="swarmpi-test-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    deck, _ = write_deck(folder)
    run = os.path.join(folder, "RUN.h5")
    program.run(*train_arguments(deck, run, *settings))
    return run


class ReferenceTest(SwarmpiTest):
    """A test that compares its runs with an undisturbed run of one process."""

    settings = ()

    @property
    def reference(self):
        return undisturbed_run(self.settings)


@unittest.skipUnless(MPIRUN, "there is no mpirun")
class DisturbedSwarmTest(ReferenceTest):
    """A swarm that is disturbed: its ranks are killed, stopped or told to go."""

    settings = ("train.steps=600", "output.checkpoint_every=20", "output.validate_every=0")

    def slow_down(self, overhead_s=5e-4):
        """Emulates devices: the same bits, and the run takes some seconds on any machine."""
        self.add_to_deck(program.slow_devices(overhead_s, peers=4))

    def started(self, name, *settings, ranks=4, checkpoint=20, quiet=False, through=()):
        """The swarm, the process number of each rank, and the run file."""
        arguments, run = self.training(
            name, *self.settings, "swarm.stages=2", *settings, quiet=quiet
        )
        swarm = self.start_swarm(ranks, *arguments, through=through)
        # All ranks are found before the run is under way: that may take long on a busy machine.
        pids = self.ranks_of(swarm, ranks)
        self.assertEqual(set(pids), set(range(ranks)), "the swarm has ended too early")
        self.wait_for_checkpoint(name, checkpoint, swarm)
        return swarm, pids, run

    def ranks_of(self, swarm, ranks):
        """Waits until so many ranks run; returns fewer if the swarm has ended before."""
        found = {}

        def all_run():
            found.update(swarm.ranks())
            return swarm.poll() is not None or len(found) == ranks

        wait_for(all_run, f"{ranks} ranks")
        return found

    def wait_for_checkpoint(self, name, step, swarm=None):
        """Returns when the run has this checkpoint, or the swarm has ended."""
        manifest = self.path(name, "RUN.checkpoints", f"step-{step}", "manifest")
        wait_for(
            lambda: swarm and swarm.poll() is not None or os.path.exists(manifest),
            f"the checkpoint of step {step}",
        )

    def wait_for_words(self, swarm, words, timeout_s):
        """What it has said on stderr until then, these words among it; the rest comes later."""
        said, until = "", time.monotonic() + timeout_s
        while words not in said:
            left_s = max(0, until - time.monotonic())
            ready, _, _ = select.select([swarm.stderr], [], [], left_s)
            self.assertTrue(ready, f"not said within {timeout_s} s: {words}; {said}")
            read = os.read(swarm.stderr.fileno(), 1 << 16)
            self.assertTrue(read, f"never said: {words}; {said}")
            said += read.decode(errors="replace")
        return said

    def checkpoints(self, name):
        """The steps of its checkpoints."""
        manifests = glob.glob(self.path(name, "RUN.checkpoints", "step-*", "manifest"))
        return sorted(int(path.split(os.sep)[-2].removeprefix("step-")) for path in manifests)

    def assert_undisturbed(self, swarm, run):
        """It ends complete, and equal to the reference; returns what it said."""
        _, out, err = swarm.result(60)
        self.assert_complete(run, out + err)
        self.assert_same_run(self.reference, run)
        return out + err

    def assert_resumes(self, name, ranks=None):
        """It has not ended complete, and goes on to the same run as the reference."""
        self.assert_unfinished(self.path(name, "RUN.h5"))
        checkpoints = self.path(name, "RUN.checkpoints")
        resumed = self.train(name, *self.settings, ranks=ranks, resume=checkpoints)
        self.assert_same_run(self.reference, resumed)
