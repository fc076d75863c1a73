"""What `cmake --install` leaves: a folder that works by itself once its env.sh is sourced.

The program under test is $SWARMPI; its build folder is what is installed.
"""

import os
import re
import shlex
import subprocess
import tempfile
import unittest

from harness.program import BINARY, DEADLINE_S, ROOT
from harness.swarm import MPIRUN
from harness.test_case import SwarmpiTest

WRITE_ENVIRONMENT = """
set(SWARMPI_FOLDERS /usr/bin /opt/mpi/bin)
set(SWARMPI_MODULES "gcc/13:openmpi/5.0")
include("{root}/cmake/SwarmpiEnvironment.cmake")
swarmpi_write_environment("{folder}/env.sh" "{programs}" /opt/share)
"""


def shell(lines, **options):
    """Runs lines in a POSIX shell that knows nothing of SwarMPI; returns its status and output."""
    plain = {"PATH": "/usr/bin:/bin", "HOME": os.environ.get("HOME", "/")}
    plain["PYTHONDONTWRITEBYTECODE"] = "1"  # what is installed is looked at
    done = subprocess.run(
        ["timeout", "-k", "5", str(DEADLINE_S), "sh", "-c", lines],
        env={**plain, **options.pop("variables", {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        **options,
    )
    return done.returncode, done.stdout


class Installed(SwarmpiTest):
    """The build, installed into a folder whose name has a blank."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = tempfile.TemporaryDirectory(prefix="swarmpi-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.prefix = os.path.join(folder.name, "in here")
        subprocess.run(
            ["cmake", "--install", os.path.dirname(BINARY), "--prefix", cls.prefix],
            stdout=subprocess.DEVNULL,
            timeout=DEADLINE_S,
            check=True,
        )

    def after_env(self, lines, **options):
        """What lines say once its env.sh is sourced, from the test's folder."""
        source = f". {shlex.quote(self.prefix)}/env.sh"
        status, said = shell(f"set -eu; {source}; {lines}", cwd=self.folder, **options)
        self.assertEqual(status, 0, said)
        return said

    def test_its_own_program_is_found_and_says_what_it_is(self):
        said = self.after_env("command -v swarmpi; swarmpi info")
        self.assertTrue(said.startswith(f"{self.prefix}/bin/swarmpi\n"), said)
        self.assertIn("lost ranks", said)

    def test_sourced_twice_it_changes_nothing(self):
        said = self.after_env(f'echo "$PATH"; . {shlex.quote(self.prefix)}/env.sh; echo "$PATH"')
        first, second = said.splitlines()
        self.assertEqual(first, second)

    @unittest.skipUnless(MPIRUN, "there is no mpirun")
    def test_two_ranks_train_and_what_they_leave_can_be_drawn(self):
        train = f"train {shlex.quote(self.deck)} --set train.steps=3 --quiet"
        self.after_env(f"mpirun -n 2 --oversubscribe swarmpi {train} --out RUN.h5")
        self.assert_complete(self.path("RUN.h5"))
        self.after_env('"$SWARMPI_SHARE/postprocess/to_csv.py" RUN.h5')

    def test_decks_scripts_and_pages_are_there_and_nothing_that_builds(self):
        self.after_env(f'swarmpi check "$SWARMPI_SHARE/inputs/quickstart.toml" {self.with_data()}')
        share = os.path.join(self.prefix, "share", "swarmpi")
        for name in ("README.md", "docs/running.md", "jobscripts/train.slurm"):
            self.assertTrue(os.path.exists(os.path.join(share, name)), name)
        found = [name for _, _, names in os.walk(share) for name in names]
        for name in found:
            self.assertFalse(name.endswith("_test.py") or name.endswith(".pyc"), name)
        self.assertNotIn("setup.sh", found)

    def with_data(self):
        return f"--set data.paths={shlex.quote(self.data)}"

    def test_its_job_script_starts_it_from_any_folder(self):
        # What Slurm does: a copy of the script elsewhere, and the variables of the submission.
        job = {"DECK": self.deck, "RUN_DIR": "run", "SET": "train.steps=3", "SLURM_JOB_ID": "7"}
        copy = 'cp "$SWARMPI_SHARE/jobscripts/train.slurm" script; rm -f build/env.sh'
        said = self.after_env(f"{copy}; bash script", variables=job)
        self.assert_complete(self.path("run", "RUN.h5"), said)

    def test_a_sweep_finds_what_is_installed_from_any_folder(self):
        sweep = f"swarmpi sweep {shlex.quote(self.deck)} --vary train.lr=1e-3 --out swept"
        sweep += " --quiet --set train.steps=3"
        job = {"SLURM_ARRAY_TASK_ID": "0", "SLURM_JOB_ID": "7"}
        said = self.after_env(f"{sweep} --print-slurm > script; bash script", variables=job)
        self.assert_complete(self.path("swept", "lr=1e-3", "RUN.h5"), said)
        # A python3 that cannot draw: the command that would is told.
        blind = 'mkdir blind; ln -s /bin/false blind/python3; PATH=$PWD/blind:$PATH'
        said = self.after_env(f"{blind}; {sweep}")
        script = f"{self.prefix}/share/swarmpi/postprocess/plot_run.py"
        self.assertIn(f"to draw them: {script} swept/*/RUN.h5", said)
        self.assertTrue(os.access(script, os.X_OK), script)


class Environment(SwarmpiTest):
    """What stands in an env.sh, whatever it is of."""

    def write(self, programs="/opt/swarmpi/bin"):
        script = self.path("script.cmake")
        with open(script, "w", encoding="ascii") as file:
            text = WRITE_ENVIRONMENT.format(root=ROOT, folder=self.folder, programs=programs)
            file.write(text)
        return shell(f"cmake -P {script}")

    def test_modules_of_the_build_are_loaded_before_the_path_is_set(self):
        status, said = self.write()
        self.assertEqual(status, 0, said)
        modules = "module() { echo module $*; PATH=/modules:$PATH; }"
        status, said = shell(f'{modules}; . {self.path("env.sh")}; echo "$PATH"')
        self.assertEqual(status, 0, said)
        self.assertEqual(
            said,
            "module load gcc/13 openmpi/5.0\n"
            "/opt/swarmpi/bin:/opt/mpi/bin:/modules:/usr/bin:/bin\n",
        )

    def test_where_there_are_no_modules_none_are_loaded(self):
        self.write()
        status, said = shell(f'. {self.path("env.sh")}; echo "$SWARMPI_SHARE $SWARMPI_ENV"')
        self.assertEqual((status, said), (0, "/opt/share /opt/swarmpi/bin/env.sh\n"))

    def test_a_name_that_a_shell_would_read_is_refused(self):
        status, said = self.write(programs="/opt/$HOME/bin")
        self.assertNotEqual(status, 0)
        self.assertIn("a shell cannot be told", said)


class Recipes(unittest.TestCase):
    """What Spack and Apptainer are told, neither of which is here."""

    # By the names of CMake's packages; what comes with the compiler stands for nothing.
    SPACK = {
        "MPI": "mpi",
        "dnnl": "onednn",
        "HDF5": "hdf5",
        "CLI11": "cli11",
        "nlohmann_json": "nlohmann-json",
        "Kokkos": "kokkos",
        "Threads": "cxx",
        "OpenMP": "cxx",
    }

    def test_spack_knows_each_package_that_cmake_looks_for(self):
        recipe = ROOT / "packaging/spack/spack_repo/swarmpi/packages/swarmpi/package.py"
        text = recipe.read_text()
        compile(text, str(recipe), "exec")
        known = re.findall(r'depends_on\("([\w-]+)', text)
        wanted = (ROOT / "cmake/SwarmpiDependencies.cmake").read_text()
        for package in ["xxhash", *re.findall(r"^find_package\((\w+)", wanted, re.MULTILINE)]:
            self.assertIn(self.SPACK.get(package, package), known)

    def test_the_image_is_built_by_scripts_and_presets_that_are_there(self):
        text = (ROOT / "packaging/apptainer/swarmpi.def").read_text()
        post = text.split("%post", 1)[1].split("%environment", 1)[0]
        subprocess.run(["bash", "-n"], input=post, text=True, check=True)
        for script in re.findall(r"bash (\S+)", post):
            self.assertTrue((ROOT / script).exists(), script)


if __name__ == "__main__":
    unittest.main()
