"""Runs the real program for the end-to-end tests.

Tiny decks, every process under a deadline, nothing left behind.
"""

import functools
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

BINARY = os.environ.get("SWARMPI", "build/swarmpi")
MPIRUN = os.environ.get("SWARMPI_MPIRUN") or shutil.which("mpirun")
DEADLINE_S = 120
# How an MPI tells its ranks their number.
RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMI_RANK")

DECK = """
[model]
layers = 4
width = 32
heads = 2
context = 32
vocab = 128
[data]
paths = ["{data}"]
validation_fraction = 0.05
[train]
steps = 12
microbatches = 4
microbatch_size = 2
lr = 3e-3
warmup_steps = 3
seed = 7
[output]
validate_every = 5
"""


def words(seed, count):
    """Text that a tiny model can learn a little of; ASCII, the same everywhere."""
    rng = random.Random(seed)
    nouns = "peer stage step view term seal leader ledger source wiring table spare".split()
    verbs = "sends holds counts seals commits forgets repeats learns serves leads".split()
    return "".join(
        f"the {rng.choice(nouns)} {rng.choice(verbs)} the {rng.choice(nouns)}.\n"
        for _ in range(count)
    )


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


def wait_for(condition, timeout_s=30):
    end = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {timeout_s} s for a condition of the test")
        time.sleep(0.005)


@functools.cache
def launch(ranks, bind=True):
    """What stands before the program to have it as many times. `timeout` holds where we fail."""
    version = subprocess.run(
        [MPIRUN, "--version"], capture_output=True, text=True, timeout=DEADLINE_S, check=False
    ).stdout
    # It calls itself OpenRTE where its name is not mpirun.
    open_mpi = re.search(r"\((?:Open MPI|OpenRTE|PRRTE)\) (\d+)\.", version)
    options = []
    if open_mpi and int(open_mpi[1]) >= 5:
        options = ["--with-ft", "ulfm", "--map-by", "node:oversubscribe"]
    elif open_mpi:
        options = ["--oversubscribe"]
    if open_mpi and not bind:
        options += ["--bind-to", "none"]
    return ["timeout", "-k", "5", str(DEADLINE_S), MPIRUN, *options, "-n", str(ranks)]


def launch_environment():
    """For mpirun, which refuses to run as root unless it is told to; in a container all is root."""
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return {**os.environ, **allowed}


def state_and_parent(pid):
    """A letter and a process number; "X" and 0 for a process that is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            # They follow the program's name, which may hold anything.
            state, parent = file.read().rpartition(")")[2].split()[:2]
    except OSError:
        return "X", 0
    return state, int(parent)


def lives(pid):
    return state_and_parent(pid)[0] not in "XZ"


def children(process):
    """Process numbers of all that stem from this one, each after its parent."""
    parents = {int(p): state_and_parent(p)[1] for p in os.listdir("/proc") if p.isdigit()}
    found, new = [], [process.pid]
    while new:
        new = [pid for pid, parent in parents.items() if parent in new]
        found += new
    return found


def end_tree(process):
    """Kills a process that was started here, and all that stem from it; does not wait for it."""
    if process.poll() is not None:
        return
    for pid in [*children(process), process.pid]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def ranks_of(process):
    """The process number of each rank that runs under this mpirun."""
    ranks = {}
    for pid in children(process):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                variables = dict(v.split(b"=", 1) for v in file.read().split(b"\0") if b"=" in v)
            program = os.readlink(f"/proc/{pid}/exe")
        except OSError:
            continue
        for name in RANK_VARIABLES:
            if name.encode() in variables and os.path.samefile(program, shutil.which(BINARY)):
                ranks.setdefault(int(variables[name.encode()]), pid)
    return ranks


class SwarmpiTest(unittest.TestCase):
    """A folder of its own, a data file, a deck; and the program."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="swarmpi-test-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.data = self.path("data.bin")
        with open(self.data, "w", encoding="ascii") as file:
            file.write(words(1, 600))
        self.deck = self.path("deck.toml")
        with open(self.deck, "w", encoding="ascii") as file:
            file.write(DECK.format(data=self.data))

    def path(self, *names):
        return os.path.join(self.folder, *names)

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

    def start_swarm(self, ranks, *arguments, through=()):
        """The program under mpirun; whatever becomes of it ends with the test.

        `through` is a command that each rank's process becomes the program by.
        """
        process = subprocess.Popen(
            [*launch(ranks), *through, BINARY, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=launch_environment(),
        )
        self.addCleanup(self.end_swarm, process)
        return process

    def end_swarm(self, process):
        """Ends what is left of a swarm: nothing, where all is well."""
        end_tree(process)
        process.communicate()

    def mpirun(self, ranks, *arguments):
        """Returns (status, stdout, stderr) of the program on as many ranks."""
        return self.swarm_ended(self.start_swarm(ranks, *arguments), DEADLINE_S + 10)

    def swarm_ended(self, process, timeout_s):
        """Returns (status, stdout, stderr); fails the test when the swarm lives on."""
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            self.end_swarm(process)
            self.fail(f"no end after {timeout_s} s: {process.args}")
        self.assertNotEqual(process.returncode, 124, f"the watchdog ended it\n{out}\n{err}")
        return process.returncode, out, err

    def training(self, name, *settings, resume=None, deck=None, options=()):
        """Arguments that train into FOLDER/NAME/RUN.h5; and that path."""
        os.makedirs(self.path(name), exist_ok=True)
        run = self.path(name, "RUN.h5")
        arguments = ["train", deck or self.deck, "--out", run, "--quiet", *options]
        for setting in settings:
            arguments += ["--set", setting]
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

        With `ranks` under mpirun, else as a process of its own.
        """
        arguments, run = self.training(name, *settings, resume=resume, deck=deck, options=options)
        if ranks is None:
            status, out, err = self.run_program(*arguments, **popen)
        else:
            status, out, err = self.mpirun(ranks, *arguments)
        self.assertEqual(status, expect, f"{ranks} ranks: {arguments}\n{out}\n{err}")
        if ranks is not None and expect == 0:  # mpirun's status alone proves nothing
            self.assertTrue(os.path.exists(run + ".journal/complete"), out + err)
        return run if expect == 0 else err

    def assert_same_run(self, a, b):
        status, out, err = self.run_program("compare", a, b)
        self.assertEqual(status, 0, out + err)

    def stop(self, process, how=signal.SIGKILL):
        process.send_signal(how)
        try:
            return process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return self.fail(f"no end {DEADLINE_S} s after signal {how}")
