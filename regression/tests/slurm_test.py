"""The job scripts under a real Slurm: preempted, queued again, gone on, complete, bitwise equal.

The program under test is $SWARMPI, its launcher $SWARMPI_MPIRUN.
"""

import glob
import os
import shlex
import shutil
import subprocess
import tempfile
import unittest

from harness import program, slurm_cluster, small_disks
from harness.program import BINARY, ROOT, train_arguments, with_settings
from harness.swarm import MPIRUN, reports_deaths
from harness.test_case import ReferenceTest

# The same bits take half a minute on any machine, or as many times as long.
SLOW = """
[devices.slow]
gflops = 1000
overhead_s = {overhead_s}
[[peers]]
peers = [0, 1, 2, 3]
device = "slow"
"""
SETTINGS = ("train.steps=3000", "output.validate_every=0", "output.checkpoint_every=100000")
RUN_S = 200


def has_ucx():
    """Whether the build's Open MPI can send by UCX."""
    tool = os.path.join(os.path.dirname(MPIRUN or ""), "ompi_info")
    if not os.path.exists(tool):
        return False
    said = subprocess.run([tool, "--parsable"], capture_output=True, text=True, check=False)
    return "mca:pml:ucx:" in said.stdout


@unittest.skipIf(slurm_cluster.missing(), slurm_cluster.missing())
@unittest.skipUnless(reports_deaths(), "there is no MPI that reports deaths")
class SlurmTest(ReferenceTest):
    """A job of four ranks on a cluster, beside the run of one process with the same settings."""

    def slow_down(self, slower=1):
        self.add_to_deck(SLOW.format(overhead_s=1e-3 * slower))

    def write_environment(self, more=""):
        with open(self.path("env.sh"), "w", encoding="utf-8") as file:
            binaries = f"{os.path.dirname(os.path.abspath(BINARY))}"
            file.write(f'export PATH="{binaries}:{os.path.dirname(MPIRUN)}:$PATH"\n')
            file.write("export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1\n")
            file.write(more)

    def submit(self, script, *options, nodes=1, more=(), **variables):
        """A job with as many nodes; `more` settings of the deck, variables of the script."""
        settings = (*self.settings, "swarm.stages=2", "compute.fidelity=emulated", *more)
        variables = {
            "DECK": self.deck,
            "RUN_DIR": self.path("run"),
            "SWARMPI_ENV": self.path("env.sh"),
            "SET": " ".join(settings),
            **variables,
        }
        return self.cluster.submit(
            ROOT,
            f"--nodes={nodes}",
            f"--ntasks-per-node={4 // nodes}",
            *options,
            os.path.join(ROOT, "jobscripts", script),
            **variables,
        )

    def log(self, job):
        return self.path("run", f"slurm-{job}.out")

    def said(self, job):
        try:
            with open(self.log(job), encoding="utf-8", errors="replace") as file:
                return file.read()[-3000:]
        except FileNotFoundError as error:
            return str(error)

    def wait_until_it_trains(self, job):
        self.cluster.wait_until(
            lambda: glob.glob(self.path("run", "RUN.h5.journal", "term-*"))
            and self.cluster.state_of(job) == "RUNNING",
            "the training",
        )

    def assert_completes(self, job):
        try:
            self.cluster.wait_until_completed(job, RUN_S)
        except (RuntimeError, TimeoutError) as error:
            self.fail(f"{error}\nIt said:\n{self.said(job)}\nSlurm said:\n{self.cluster.log()}")
        run = self.path("run", "RUN.h5")
        self.assert_complete(run, self.said(job))
        self.assert_same_run(self.reference, run)


class Slurm(SlurmTest):
    """Each has a cluster of its own."""

    settings = SETTINGS

    def start_cluster(self, nodes, signals, slower=1):
        self.slow_down(slower)
        self.cluster = slurm_cluster.SlurmCluster(self.path("slurm"), nodes, signals)
        self.addCleanup(self.cluster.stop)
        self.write_environment()

    def preempt(self, nodes, signals):
        self.start_cluster(nodes, signals)
        if nodes > 1 and not signals and self.cluster.track != "cgroup":
            self.skipTest(
                "without tracking by cgroups Slurm ends the daemons of other nodes itself"
            )
        job = self.submit("preemptible.slurm", nodes=nodes)
        self.wait_until_it_trains(job)
        other = self.cluster.submit(
            "/",
            *("--partition=high", f"--nodes={nodes}", "--ntasks-per-node=8"),
            *("--output=/dev/null", "--wrap=sleep 1"),
        )
        # It made room of its own accord, with a checkpoint, long before the grace was over.
        self.cluster.wait_until(lambda: self.cluster.state_of(job) == "PENDING", "room")
        self.assertTrue(glob.glob(self.path("run", "checkpoints", "step-*")), self.said(job))
        self.assert_unfinished(self.path("run", "RUN.h5"))
        self.cluster.wait_until(lambda: self.cluster.state_of(other) == "COMPLETED", "the other")
        self.assert_completes(job)

    def test_preempted_on_one_node(self):
        self.preempt(1, signals=True)

    def test_preempted_on_two_nodes(self):
        self.preempt(2, signals=True)

    def test_preempted_on_one_node_of_a_plain_site(self):
        self.preempt(1, signals=False)

    def test_preempted_on_two_nodes_of_a_plain_site(self):
        self.preempt(2, signals=False)

    def test_a_time_limit_comes(self):
        self.start_cluster(1, signals=True, slower=3)
        job = self.submit("train.slurm", "--time=1", "--signal=B:USR1@20")
        self.wait_until_it_trains(job)
        self.cluster.wait_until(
            lambda: self.cluster.state_of(job) == "PENDING", "its signal and its end", RUN_S
        )
        self.assert_unfinished(self.path("run", "RUN.h5"))
        self.assert_completes(job)

    def test_asked_for_a_checkpoint_it_goes_on(self):
        self.start_cluster(1, signals=True)
        job = self.submit("train.slurm")
        self.wait_until_it_trains(job)
        self.cluster.run("scancel", "-b", "-s", "USR1", job)
        self.cluster.wait_until(lambda: self.cluster.state_of(job) == "PENDING", "its checkpoint")
        self.assert_completes(job)


class Sweep(SlurmTest):
    """The array that `swarmpi sweep --print-slurm` prints."""

    settings = ("train.steps=1000", "output.validate_every=0")

    def print_array(self):
        settings = (*self.settings, "swarm.stages=2", "compute.fidelity=emulated")
        arguments = with_settings(["sweep", self.deck, "--print-slurm"], settings)
        choice = ("--ranks", "4", "--vary", "train.seed=1,2", "--out", self.path("swept"))
        status, out, err = self.run_program(*arguments, *choice)
        self.assertEqual(status, 0, err)
        with open(self.path("array.slurm"), "w", encoding="utf-8") as script:
            script.write(out)

    def test_each_task_is_queued_again_by_itself_and_completes(self):
        self.slow_down()
        self.cluster = slurm_cluster.SlurmCluster(self.path("slurm"), 1, True)
        self.addCleanup(self.cluster.stop)
        self.write_environment()
        self.print_array()
        array = self.cluster.submit(ROOT, self.path("array.slurm"), SWARMPI_ENV=self.path("env.sh"))
        first, second = f"{array}_0", f"{array}_1"
        self.cluster.wait_until(
            lambda: len(glob.glob(self.path("swept", "*", "RUN.h5.journal", "term-*"))) == 2,
            "the training of both",
        )
        self.cluster.run("scancel", "-b", "-s", "USR1", first)
        self.cluster.wait_until(lambda: self.cluster.state_of(first) == "PENDING", "a checkpoint")
        for task in (second, first):
            self.cluster.wait_until_completed(task, RUN_S)
        for seed in (1, 2):
            reference = self.train(f"reference-{seed}", *self.settings, f"train.seed={seed}")
            run = self.path("swept", f"seed={seed}", "RUN.h5")
            self.assert_complete(run)
            self.assert_same_run(reference, run)
        _, out, _ = self.run_program("info", self.path("swept", "seed=1", "RUN.h5"))
        self.assertIn("resumed 1 time", out)
        (log,) = glob.glob(self.path("swept", "seed=1", "slurm-*.out"))
        with open(log, encoding="utf-8", newline="") as file:
            self.assertNotRegex(file.read(), "[\r\x1b]", "a log is nothing but lines")


class EndOfAJob(SlurmTest):
    """What a job that has not completed its run becomes; all share a cluster."""

    settings = ("train.steps=60", "output.validate_every=0")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = tempfile.mkdtemp(prefix="swarmpi-test-")
        cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
        cls.cluster = slurm_cluster.SlurmCluster(os.path.join(folder, "slurm"), 2, True)
        cls.addClassCleanup(cls.cluster.stop)

    def setUp(self):
        super().setUp()
        self.write_environment()

    def wait_until_over(self, job):
        """Its state, once it does not run and no requeue is under way."""
        over = ("PENDING", "COMPLETED", *slurm_cluster.ENDED_BADLY)
        self.cluster.wait_until(lambda: self.cluster.state_of(job) != "PENDING", "its start")
        self.cluster.wait_until(lambda: self.cluster.state_of(job) in over, "its end")
        return self.cluster.state_of(job)

    def assert_fails(self, job, status):
        self.assertEqual(self.wait_until_over(job), "FAILED", self.said(job))
        self.assertEqual(self.cluster.field_of(job, "ExitCode"), f"{status}:0", self.said(job))

    def pretend(self, ended):
        """Another mpirun, which ends with status 1, after the run has marked its end or not."""
        journal = self.path("run", "RUN.h5.journal")
        mark = f"printf 'run 1 term 1 status 1\\nnot a number\\n' >{journal}/ended"
        deeds = f"mkdir -p {journal}; {mark if ended else ':'}"
        self.write_environment(
            f"mpirun() {{ [ $1 != --version ] || return 0; {deeds}; return 1; }}\n"
        )

    def test_values_with_blanks_and_wildcards_and_the_log_in_the_folder_of_the_run(self):
        folder = self.path("data *")
        os.makedirs(folder)
        data = os.path.join(folder, "a  b, *.bin")
        shutil.copy(self.data, data)
        os.makedirs(self.path("data of others"))
        shutil.copy(self.deck, self.path("data of others", "a  b, *.bin"))
        job = self.submit(
            "train.slurm",
            more=(f'data.paths=["{data}"]',),
            MPIRUN_OPTIONS="--bind-to none --tag-output",
        )
        self.assert_completes(job)
        with open(self.log(job), encoding="utf-8", errors="replace") as file:
            said = file.read()
        self.assertRegex(said, r"\[\S+,0\]<stdout>:", "as --tag-output has it")
        self.assertFalse(os.path.exists(os.path.join(ROOT, f"slurm-{job}.out")))

    @unittest.skipUnless(has_ucx(), "this MPI has no UCX")
    def test_over_ucx_to_the_same_bits(self):
        # Without InfiniBand Open MPI takes UCX only where it is told that any device will do.
        for name in ("tls", "devices"):
            setting = f"export OMPI_MCA_opal_common_ucx_{name}=any\n"
            with open(self.path("env.sh"), "a", encoding="utf-8") as file:
                file.write(setting)
        job = self.submit(
            "train.slurm", NETWORK="ucx", MPIRUN_OPTIONS="--mca pml_base_verbose 10"
        )
        self.assert_completes(job)
        with open(self.log(job), encoding="utf-8", errors="replace") as file:
            self.assertIn("component ucx selected", file.read())

    def test_more_peers_than_tasks_are_refused(self):
        job = self.submit("train.slurm", RANKS="5")
        self.assert_fails(job, 2)
        self.assertIn("RANKS=5 are more peers than the job's tasks, 4", self.said(job))

    def test_from_another_folder_with_what_an_environment_exports(self):
        folder = self.path("elsewhere")
        os.makedirs(folder)
        shutil.copy(self.deck, os.path.join(folder, "deck.toml"))
        variables = {"DECK": "deck.toml", "SWARMPI_SHARE": str(ROOT)}
        job = self.submit("train.slurm", f"--chdir={folder}", **variables)
        self.assert_completes(job)
        self.assertIn("4 peers on 1 nodes; for each 1 CPUs", self.said(job))

    def test_an_output_that_was_asked_for_is_kept(self):
        asked = self.path("asked for.out")
        job = self.submit("train.slurm", f"--output={asked}", SET="train.steps=no")
        self.assert_fails(job, 2)
        self.assertFalse(os.path.exists(self.log(job)))
        with open(asked, encoding="utf-8") as file:
            self.assertIn("train.steps", file.read())

    def test_a_job_that_cannot_be_queued_again_fails_and_says_what_to_do(self):
        self.slow_down(10)
        job = self.submit("train.slurm", "--no-requeue")
        self.wait_until_it_trains(job)
        self.cluster.run("scancel", "-b", "-s", "USR1", job)
        self.assert_fails(job, 3)
        self.assertIn("could not be queued again", self.said(job))
        self.assertIn("submit it again", self.said(job))
        self.assert_completes(self.submit("train.slurm", "--no-requeue"))

    def test_a_daemon_that_does_not_start_is_no_end_of_the_run(self):
        self.write_environment(
            '[ "${SLURM_RESTART_COUNT:-0}" != 0 ] || export PRTE_MCA_prte_launch_agent=/bin/false\n'
        )
        job = self.submit("train.slurm", nodes=2)
        self.assertEqual(self.wait_until_over(job), "PENDING", self.said(job))
        self.assert_completes(job)

    def test_status_1_is_of_the_run_only_if_the_run_says_so(self):
        self.pretend(ended=False)
        job = self.submit("train.slurm")
        self.assertEqual(self.wait_until_over(job), "PENDING", self.said(job))
        self.cluster.run("scancel", job)
        self.pretend(ended=True)
        job = self.submit("train.slurm")
        self.assert_fails(job, 1)
        self.assertIn("not a number", self.said(job))
        # What an earlier start has said is not said of this one.
        self.pretend(ended=False)
        job = self.submit("train.slurm")
        self.assertEqual(self.wait_until_over(job), "PENDING", self.said(job))
        self.cluster.run("scancel", job)

    def srun(self, *command):
        """Status, and what was said."""
        limit = ("timeout", "-k", "5", str(program.DEADLINE_S))
        done = subprocess.run(
            [*limit, *command],
            env=self.cluster.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=program.DEADLINE_S + 10,
            check=False,
        )
        return done.returncode, done.stdout

    def assert_refused_once(self, status, said):
        self.assertEqual(status, 2, said)
        self.assertEqual(said.count("swarmpi: "), 1, said)
        self.assertIn(MPIRUN, said)
        self.assertFalse(os.path.exists(self.path("RUN.h5.journal")))

    def test_srun_without_a_way_to_mpi_is_refused(self):
        for mpi in ("none", "pmi2"):
            with self.subTest(mpi=mpi):
                training = (BINARY, *train_arguments(self.deck, self.path("RUN.h5")))
                self.assert_refused_once(*self.srun("srun", "-n2", f"--mpi={mpi}", *training))

    def test_in_a_shell_of_two_tasks_one_process_trains_alone_and_no_srun(self):
        training = shlex.join((BINARY, *train_arguments(self.deck, self.path("RUN.h5"))))

        def in_a_shell(command):
            # The first task has the terminal, which `script` makes; the others' shells end at once.
            line = f'[ "$SLURM_PROCID" = 0 ] || exit 0; {command}; exit $?'
            shell = shlex.join(("srun", "-n2", "--pty", "bash", "-c", line))
            return self.srun("script", "-qefc", shell, "/dev/null")

        self.assert_refused_once(*in_a_shell(f"srun --overlap -n2 --mpi=none {training}"))
        status, said = in_a_shell(training)
        self.assertEqual(status, 0, said)
        self.assert_complete(self.path("RUN.h5"), said)

    @unittest.skipIf(small_disks.missing(), small_disks.missing())
    def test_a_full_disk_is_not_queued_again(self):
        self.slow_down(10)
        disk = self.path("run")
        small_disks.make(disk, 32 << 20)
        self.addCleanup(small_disks.remove, disk)
        job = self.submit("train.slurm")
        self.wait_until_it_trains(job)
        small_disks.fill(disk)
        self.cluster.run("scancel", "-b", "-s", "USR1", job)
        self.assert_fails(job, 3)
        beside = os.path.join(ROOT, f"slurm-{job}.out")
        self.addCleanup(lambda: os.path.exists(beside) and os.remove(beside))
        said = self.said(job)
        if os.path.exists(beside):
            with open(beside, encoding="utf-8") as file:
                said += file.read()
        self.assertIn("no room left", said)
        small_disks.enlarge(disk, 512 << 20)
        self.assert_completes(self.submit("train.slurm"))


if __name__ == "__main__":
    unittest.main()
