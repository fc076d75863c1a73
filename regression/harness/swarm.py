"""The one way in which tests and tools start a program on several ranks: class Swarm.

$SWARMPI_MPIRUN names mpirun; without it the first one on PATH is taken.
"""

import functools
import os
import re
import shutil
import subprocess
import tempfile
import threading

from harness.processes import children, end_tree, environment_of, runs
from harness.program import BINARY, DEADLINE_S

MPIRUN = os.environ.get("SWARMPI_MPIRUN") or shutil.which("mpirun")
# The variables by which an MPI tells a rank its number.
RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMI_RANK")
TIMED_OUT = 124  # the status of `timeout` when it has ended its command
# For NCCL where ranks share a GPU, which it takes for ranks of as many hosts: they reach each other
# by the network alone, here that of one machine.
NCCL_ON_ONE_DEVICE = {
    "NCCL_P2P_DISABLE": "1",
    "NCCL_SHM_DISABLE": "1",
    "NCCL_NET": "Socket",
    "NCCL_SOCKET_IFNAME": "lo",
}


@functools.cache
def launch(ranks, bind=True, deadline_s=DEADLINE_S):
    """The words that precede a program's command line to start it on as many ranks.

    `timeout` ends the swarm even where the process that waits for it here was killed.
    """
    version = subprocess.run(
        [MPIRUN, "--version"], capture_output=True, text=True, timeout=DEADLINE_S, check=False
    ).stdout
    # Open MPI calls itself OpenRTE where its launcher's name is not mpirun.
    open_mpi = re.search(r"\((?:Open MPI|OpenRTE|PRRTE)\) (\d+)\.", version)
    options = []
    if open_mpi and int(open_mpi[1]) >= 5:
        options = ["--with-ft", "ulfm", "--map-by", "node:oversubscribe"]
    elif open_mpi:
        options = ["--oversubscribe"]
    if open_mpi and not bind:
        options += ["--bind-to", "none"]
    return ["timeout", "-k", "5", str(deadline_s), MPIRUN, *options, "-n", str(ranks)]


def reports_deaths():
    """Whether there is an mpirun here whose MPI tells ranks of the death of others (ULFM)."""
    return bool(MPIRUN) and "ulfm" in launch(1)


def launch_environment():
    """This environment, with what lets mpirun run as root: in a container all is root."""
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return {**os.environ, **allowed}


def rank_in(variables):
    """The rank of a process with this environment; None if no MPI has started it."""
    for name in RANK_VARIABLES:
        if name in variables:
            return int(variables[name])
    return None


class Swarm(subprocess.Popen):
    """A command on several ranks under mpirun; the process itself is that of `timeout`.

    Used as a context manager, or ended with end(): then nothing is left of it, and only processes
    that stem from it have been ended. `bind=False` lets every rank use all cores. `options` are
    added to those of mpirun. `within` takes the whole command line and returns the one to be
    started. `on_line` is called in a thread of its own with each line of stdout. After `deadline_s`
    a watchdog ends it. What subprocess takes as well replaces the defaults: no stdin, and pipes for
    text from stdout and stderr.
    """

    def __init__(
        self,
        ranks,
        command,
        *,
        bind=True,
        options=(),
        within=None,
        on_line=None,
        deadline_s=DEADLINE_S,
        **popen,
    ):
        self.reader = None
        # Open MPI 5 keeps a session in $TMPDIR/ompi.PID. That of an mpirun that was killed stays,
        # and a later mpirun of the same number fails: "listener thread failed to start".
        self.sessions = tempfile.TemporaryDirectory(
            prefix="swarmpi-sessions-", ignore_cleanup_errors=True
        )
        line = [*launch(ranks, bind, deadline_s), *options, *command]
        defaults = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "text": True,
            "errors": "replace",
            "env": launch_environment(),
        }
        settings = {**defaults, **popen}
        settings["env"] = {**settings["env"], "TMPDIR": self.sessions.name}
        super().__init__(within(line) if within else line, **settings)
        if on_line:
            self.reader = threading.Thread(target=self.read, args=(on_line,), daemon=True)
            self.reader.start()

    def __exit__(self, *exception):
        self.end()
        return super().__exit__(*exception)

    def read(self, on_line):
        for line in self.stdout:
            on_line(line)

    def ranks(self, program=BINARY):
        """The process number of each rank on this host that runs the program by now."""
        program = shutil.which(program)
        found = {}
        for pid in children(self):
            rank = rank_in(environment_of(pid))
            if rank is not None and runs(pid, program):
                found.setdefault(rank, pid)
        return found

    def result(self, timeout_s=DEADLINE_S + 10):
        """Waits for the end; returns (status, stdout, stderr).

        TimeoutError if the swarm lives on for as long, or if the watchdog had to end it; the error
        holds what the swarm has said.
        """
        try:
            out, err = self.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            end_tree(self)
            out, err = self.communicate(timeout=DEADLINE_S)
            raise TimeoutError(
                f"waited {timeout_s} s for the end of {self.args}; it said\n{out}\n{err}"
            ) from None
        if self.returncode == TIMED_OUT:
            raise TimeoutError(f"the watchdog has ended {self.args}; it said\n{out}\n{err}")
        return self.returncode, out, err

    def end(self):
        """Kills what is left of it: nothing, where all is well. What it still said is lost."""
        end_tree(self)
        self.wait(DEADLINE_S)
        if self.reader:
            self.reader.join(DEADLINE_S)
        for pipe in (self.stdout, self.stderr):
            if pipe and not pipe.closed:
                pipe.close()
        self.sessions.cleanup()
