"""The program over other MPIs than the build's, and every program under every other launcher.

$OTHER_MPIS holds `NAME=PROGRAM=MPIRUN`, separated by commas: the program built for Debian's Open
MPI (openmpi) and for MPICH (mpich). $SWARMPI and $SWARMPI_MPIRUN are those of the build's MPI.
"""

import os
import re
import shutil
import subprocess
import sys
import unittest

from harness import program
from harness.program import ROOT, train_arguments
from harness.swarm import MPIRUN
from harness.test_case import SwarmpiTest

LIMIT_S = 60
DEATHS_S = 240
BUILT = dict(
    (name, (built, mpirun))
    for name, built, mpirun in (
        entry.split("=") for entry in os.environ.get("OTHER_MPIS", "").split(",") if entry
    )
)
THE_BUILDS = "the build's"
PROGRAMS = {THE_BUILDS: (program.BINARY, MPIRUN), **BUILT}
NOT_BUILT = "it is installed, but not in $OTHER_MPIS: configure the build again"
OURS = re.compile(r"(OMPI|PRTE|PMIX|PMI|SLURM|HYD)_?")


def missing(name):
    """Why the program is not built over this MPI of Debian's; "" if it is."""
    absent = [
        tool
        for tool in (f"mpicxx.{name}", f"mpirun.{name}")
        if shutil.which(tool, path="/usr/bin") is None
    ]
    return "not installed: " + " ".join(absent) if absent else ""


def environment(**more):
    """Without the settings of the build's MPI: another one may refuse to start with them."""
    kept = {name: value for name, value in os.environ.items() if not OURS.match(name)}
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return {**kept, **root, **more}


def run(*command, limit_s=LIMIT_S, **variables):
    """Status and both outputs."""
    done = subprocess.run(
        ["timeout", "-k", "5", str(limit_s), *command],
        env=environment(**variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=limit_s + 10,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def mpi_of(built):
    """The MPI that a program was built with: its name and its first number."""
    _, said = run(built, "info")
    found = re.search(r"^ *library +(Open MPI|MPICH)\D*(\d+)\.", said, re.MULTILINE)
    return (found[1], int(found[2])) if found else ("another", 0)


def launch(name, *command):
    """Status and both outputs of two ranks by the launcher of this MPI; they may share a core."""
    built, mpirun = PROGRAMS[name]
    library, number = mpi_of(built)
    options = []
    if library == "Open MPI":
        options = ["--map-by", "node:oversubscribe"] if number >= 5 else ["--oversubscribe"]
    return run(mpirun, *options, "-n", "2", *command)


class OverAnother:
    """What holds over each of them; `name` says which."""

    def setUp(self):
        super().setUp()
        self.assertIn(self.name, BUILT, NOT_BUILT)
        self.built, self.mpirun = BUILT[self.name]

    def test_two_ranks_have_the_bits_of_one(self):
        alone = self.train("alone")
        os.makedirs(self.path("two"))
        two = self.path("two", "RUN.h5")
        arguments = train_arguments(self.deck, two, "swarm.stages=2", quiet=False)
        status, said = launch(self.name, self.built, *arguments)
        self.assertEqual(status, 0, said)
        self.assertRegex(said, r"2 stages on 2 peers", "not each for itself")
        self.assert_complete(two, said)
        self.assert_same_run(alone, two)

    def test_it_is_built_with_its_own_mpi_alone(self):
        _, said = run(self.built, "info")
        self.assertIn(self.library(), said)

    def test_a_lost_rank_ends_the_run_which_can_be_resumed(self):
        status, said = run(
            *(sys.executable, str(ROOT / "regression/harness/run_tests.py")),
            *("death_test", "WithoutReports"),
            limit_s=DEATHS_S,
            SWARMPI=self.built,
            SWARMPI_MPIRUN=self.mpirun,
        )
        self.assertEqual(status, 0, said)


@unittest.skipIf(missing("openmpi"), missing("openmpi"))
class OverOpenMpi(OverAnother, SwarmpiTest):
    name = "openmpi"

    def library(self):
        _, said = run("mpicxx.openmpi", "--showme:version")
        return "Open MPI v" + re.search(r"Open MPI ([\d.]+)", said)[1]


@unittest.skipIf(missing("mpich"), missing("mpich"))
class OverMpich(OverAnother, SwarmpiTest):
    name = "mpich"

    def library(self):
        return "MPICH"


@unittest.skipUnless(MPIRUN, "there is no mpirun")
class UnderAnother(SwarmpiTest):
    """A launcher of another MPI is refused, with the right one."""

    def assert_refused(self, built, launcher):
        """Two ranks of the program `built` over the one MPI, by the launcher of the other."""
        os.makedirs(self.path(f"{built} by {launcher}"))
        run_file = self.path(f"{built} by {launcher}", "RUN.h5")
        binary, right = PROGRAMS[built]
        status, said = launch(launcher, binary, *train_arguments(self.deck, run_file))
        if status == 0 and mpi_of(binary)[0] == mpi_of(PROGRAMS[launcher][0])[0] == "Open MPI":
            # Open MPI 5's mpirun may bring its own library along (LD_LIBRARY_PATH), which has the
            # name and the functions of Open MPI 4's.
            self.assert_complete(run_file, said)
            return
        self.assertEqual(status, 2, said)
        self.assertEqual(len(re.findall("^swarmpi: ", said, re.MULTILINE)), 1, said)
        self.assertRegex(said, "[Tt]his program was built with")
        self.assertIn(os.path.basename(right), said)
        self.assertFalse(os.path.exists(run_file + ".journal"))

    def assert_refused_both_ways(self, name):
        self.assertIn(name, BUILT, NOT_BUILT)
        for other in set(PROGRAMS) - {name}:
            if mpi_of(PROGRAMS[name][0]) == mpi_of(PROGRAMS[other][0]):
                continue  # Debian's Open MPI may be the build's, or as new
            for built, launcher in ((name, other), (other, name)):
                with self.subTest(program=built, launcher=launcher):
                    self.assert_refused(built, launcher)

    @unittest.skipIf(missing("openmpi"), missing("openmpi"))
    def test_open_mpi(self):
        self.assert_refused_both_ways("openmpi")

    @unittest.skipIf(missing("mpich"), missing("mpich"))
    def test_mpich(self):
        self.assert_refused_both_ways("mpich")

    def test_variables_of_a_launcher_that_is_not_there(self):
        for name, (built, _) in PROGRAMS.items():
            train = train_arguments(self.deck, self.path("refused.h5"))
            for rank, command in ((0, train), (1, train), (1, ["check", self.deck])):
                with self.subTest(program=name, rank=rank, command=command[0]):
                    status, said = run(built, *command, PMI_RANK=str(rank), PMI_SIZE="2")
                    self.assertEqual(status, 2, said)
                    self.assertIn("PMI_SIZE in the environment says that there are 2 ranks", said)


if __name__ == "__main__":
    unittest.main()
