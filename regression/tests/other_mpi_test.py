"""The program over other MPIs than the build's, and every program under every other launcher.

$OTHER_MPIS holds `NAME=PROGRAM=MPIRUN`, separated by commas: the program built for Debian's Open
MPI 4 (openmpi) and for MPICH (mpich). $SWARMPI and $SWARMPI_MPIRUN are those of the build's MPI.
"""

import os
import re
import subprocess
import unittest

from harness import program
from harness.program import train_arguments
from harness.swarm import MPIRUN
from harness.test_case import SwarmpiTest

LIMIT_S = 60
BUILT = tuple(entry.split("=") for entry in os.environ.get("OTHER_MPIS", "").split(",") if entry)
DEBIAN = ("openmpi", "mpich")
ABSENT = [f"mpirun.{name}" for name in DEBIAN if name not in [built[0] for built in BUILT]]
OURS = re.compile(r"(OMPI|PRTE|PMIX|PMI|SLURM|HYD)_?")


def environment():
    """Without the settings of the build's MPI: another one may refuse to start with them."""
    kept = {name: value for name, value in os.environ.items() if not OURS.match(name)}
    return {**kept, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def options(mpirun):
    """What lets two ranks share a core, of an mpirun of Open MPI."""
    if mpirun.endswith("mpirun.openmpi"):
        return ["--oversubscribe"]
    return [] if mpirun.endswith("mpirun.mpich") else ["--map-by", "node:oversubscribe"]


@unittest.skipUnless(MPIRUN, "there is no mpirun")
@unittest.skipIf(ABSENT, "not installed: " + " ".join(ABSENT))
class OtherMpi(SwarmpiTest):
    def launch(self, mpirun, *command):
        """Status and both outputs of two ranks."""
        line = ["timeout", "-k", "5", str(LIMIT_S), mpirun, *options(mpirun), "-n", "2", *command]
        done = subprocess.run(
            line,
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT_S + 10,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def test_two_ranks_have_the_bits_of_one(self):
        alone = self.train("alone")
        for name, built, mpirun in BUILT:
            with self.subTest(mpi=name):
                os.makedirs(self.path(name))
                run = self.path(name, "RUN.h5")
                arguments = train_arguments(self.deck, run, "swarm.stages=2", quiet=False)
                status, said = self.launch(mpirun, built, *arguments)
                self.assertEqual(status, 0, said)
                self.assertRegex(said, r"2 stages on 2 peers", "not each for itself")
                self.assert_complete(run, said)
                self.assert_same_run(alone, run)

    def test_each_is_built_with_its_own_mpi_alone(self):
        for name, built, _ in BUILT:
            with self.subTest(mpi=name):
                done = subprocess.run(
                    [built, "info"], env=environment(), capture_output=True, text=True, check=True
                )
                library = {"openmpi": "Open MPI v4.", "mpich": "MPICH"}[name]
                self.assertIn(library, done.stdout)

    def test_a_launcher_of_another_mpi_is_refused_with_the_right_one(self):
        own = ("the build's", program.BINARY, MPIRUN)
        for name, built, right in (own, *BUILT):
            for other, _, mpirun in (own, *BUILT):
                if name == other:
                    continue
                with self.subTest(program=name, launcher=other):
                    os.makedirs(self.path(f"{name} by {other}"))
                    run = self.path(f"{name} by {other}", "RUN.h5")
                    status, said = self.launch(mpirun, built, *train_arguments(self.deck, run))
                    if name == "openmpi" and other == "the build's" and status == 0:
                        # Open MPI 5's mpirun may bring its own library along (LD_LIBRARY_PATH),
                        # which has the name and the functions of Open MPI 4's.
                        self.assert_complete(run, said)
                        continue
                    self.assertEqual(status, 2, said)
                    self.assertEqual(len(re.findall("^swarmpi: ", said, re.MULTILINE)), 1, said)
                    self.assertRegex(said, "[Tt]his program was built with")
                    self.assertIn(os.path.basename(right), said)
                    self.assertFalse(os.path.exists(run + ".journal"))

    def test_variables_of_a_launcher_that_is_not_there(self):
        for _, built, _ in (("", program.BINARY, ""), *BUILT):
            with self.subTest(program=built):
                done = subprocess.run(
                    [built, *train_arguments(self.deck, self.path("refused.h5"))],
                    env={**environment(), "PMI_RANK": "0", "PMI_SIZE": "2"},
                    capture_output=True,
                    text=True,
                    timeout=LIMIT_S,
                    check=False,
                )
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn("2 ranks were started by PMI, with no way", done.stderr)


if __name__ == "__main__":
    unittest.main()
