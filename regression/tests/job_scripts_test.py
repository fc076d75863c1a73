"""What the job scripts conclude from journal, log and disk: their functions alone, without a Slurm.

slurm_test.py has whole jobs.
"""

import os
import shutil
import subprocess
import unittest

from harness.program import DEADLINE_S, ROOT
from harness.test_case import SwarmpiTest

FIND_RUN = (
    "set -u; run=$PWD/run journal=$PWD/run/RUN.h5.journal started=$PWD/started "
    "fruitless=$PWD/fruitless"
)


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

    def test_the_probe_follows_no_link(self):
        self.write("precious", "mine")
        os.symlink(self.path("precious"), self.path("run", "probe.7"))
        self.bash(f"{FIND_RUN}; probe_s=1; trouble_of $run")
        with open(self.path("precious"), encoding="ascii") as file:
            self.assertEqual(file.read(), "mine")

    def test_a_full_folder_for_sessions_is_named(self):
        self.fake("dd", "echo 'dd: error writing: No space left on device' >&2; exit 1")
        said = self.bash(
            f"{FIND_RUN}; launch=(echo started); (start_training; wait); echo $?",
            DECK=self.deck,
            TMPDIR="/full",
        )
        self.assertEqual(said, "3")
        with open(self.path("log"), encoding="ascii") as file:
            self.assertIn("no room left in /full, where mpirun keeps its session", file.read())

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


class Request(JobScript):
    """What a job asks for by its variables."""

    def setUp(self):
        super().setUp()
        self.say_version("mpirun (Open MPI) 5.0.11")

    def say_version(self, version):
        self.fake("mpirun", f"echo '{version}'")

    def launch(self, **variables):
        return self.bash('choose_options; echo "${launch[*]}"', **variables)

    def test_peers_share_cores_and_survive_the_lost_where_nothing_is_asked(self):
        self.assertEqual(self.launch(), "mpirun --with-ft ulfm --map-by node:oversubscribe")
        self.say_version("mpirun (Open MPI) 4.1.4")
        self.assertEqual(self.launch(), "mpirun --oversubscribe --map-by node")
        self.say_version("HYDRA build details:")
        self.assertEqual(self.launch(RANKS="3", BIND="core"), "mpirun -n 3")

    def test_a_peer_that_is_bound_has_a_core_for_each_thread(self):
        bound = "mpirun --with-ft ulfm --map-by node:oversubscribe:pe={} --bind-to core"
        self.assertEqual(self.launch(BIND="core"), bound.format(1))
        self.assertEqual(self.launch(BIND="core", THREADS="4"), bound.format(4))
        self.assertTrue(self.launch(BIND="numa").endswith("node:oversubscribe --bind-to numa"))

    def test_options_of_ones_own_come_last_and_their_mapping_replaces_ours(self):
        said = self.launch(MPIRUN_OPTIONS=" --tag-output  --map-by core", RANKS="2")
        self.assertEqual(said, "mpirun --with-ft ulfm -n 2 --tag-output --map-by core")

    def test_ucx_goes_without_fault_tolerance(self):
        show = 'echo "${launch[*]} $OMPI_MCA_pml ${OMPI_MCA_btl-unset}"'
        said = self.bash(
            f"choose_options; choose_network; {show}",
            NETWORK="ucx",
            OMPI_MCA_pml="ob1",
            OMPI_MCA_btl="self,sm,tcp",
        )
        self.assertEqual(said, "mpirun --map-by node:oversubscribe ucx unset")

    def refused(self, **variables):
        """What is said of a request that ends the job with status 2."""
        job = {"SLURM_NTASKS": "8", "SLURM_CPUS_PER_TASK": "2", **variables}
        self.assertEqual(self.bash("(check_request >/dev/null); echo $?", **job), "2")
        with open(self.path("log"), encoding="ascii") as file:
            return file.read().splitlines()[-1]

    def test_more_than_the_job_has_is_refused(self):
        self.assertIn("RANKS=9 are more peers than the job's tasks, 8", self.refused(RANKS="9"))
        self.assertIn("THREADS=4 are more than the CPUs of a task", self.refused(THREADS="4"))

    def test_what_is_no_number_or_no_network_is_refused(self):
        self.assertIn("RANKS must be a number above 0, not two", self.refused(RANKS="two"))
        self.assertIn("THREADS must be a number above 0", self.refused(THREADS="0"))
        self.assertIn("NETWORK is tcp or ucx, not ib", self.refused(NETWORK="ib"))

    def test_what_the_job_has_is_said(self):
        job = {"SLURM_NTASKS": "8", "SLURM_JOB_NUM_NODES": "2", "SLURM_CPUS_PER_TASK": "4"}
        said = self.bash("check_request", **job)
        self.assertIn("8 peers on 2 nodes; for each 4 CPUs, as the deck says threads", said)
        said = self.bash("check_request", RANKS="6", THREADS="4", BIND="core", **job)
        self.assertIn("6 peers on 2 nodes; for each 4 CPUs, 4 threads; bound to core", said)

    def test_an_environment_that_is_missing_is_named_with_those_that_are_there(self):
        self.write("build-cluster/env.sh")
        self.bash("enter_environment", SWARMPI_ENV="gone/env.sh")
        with open(self.path("log"), encoding="ascii") as file:
            said = file.read()
        self.assertIn("cannot read gone/env.sh: source the env.sh of your build", said)
        self.assertIn("there is build-cluster/env.sh", said)


class Scripts(JobScript):
    """Whole scripts, up to the program that they start, or instead of it."""

    def run_script(self, name, **variables):
        job = {"SWARMPI_SHARE": str(ROOT), "SLURM_JOB_ID": "7", "DECK": self.deck, **variables}
        path = self.path("bin") + ":" + os.environ["PATH"]
        return subprocess.run(
            ["bash", ROOT / "jobscripts" / name],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**os.environ, "PATH": path, **job},
            timeout=DEADLINE_S,
            check=False,
            text=True,
        )

    def test_a_simulation_has_settings_with_blanks_and_wildcards(self):
        self.fake("swarmpi", 'printf "%s\\n" "$@"')
        settings = (
            "train.steps=5",
            "links.region={latency_s = 0.01, up_mbps = 20, down_mbps = 20}",
            'data.paths=["*"]',
        )
        run = self.path("a run")
        for given in (settings, ()):
            variables = {"SWARMPI_ENV": "", "RUN_DIR": run, "SET": " ".join(given)}
            done = self.run_script("simulate.slurm", **variables)
            self.assertEqual(done.returncode, 0, done.stderr)
            told = ["simulate", self.deck, "--out", f"{run}/RUN.h5"]
            told += [word for setting in given for word in ("--set", setting)]
            self.assertEqual(done.stdout.splitlines(), told)

    def test_on_several_nodes_a_folder_with_a_blank_is_refused_where_the_agent_lies_in_it(self):
        refusal, environment = "my run, which has a blank", "cannot read gone/env.sh"
        for script, nodes, said in (
            ("preemptible.slurm", "2", refusal),
            ("preemptible.slurm", "1", environment),
            ("train.slurm", "2", environment),
        ):
            with self.subTest(script=script, nodes=nodes):
                job = {"SLURM_JOB_NUM_NODES": nodes, "SWARMPI_ENV": "gone/env.sh"}
                done = self.run_script(script, RUN_DIR=self.path("my run"), **job)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(said, done.stderr)


class Fruitless(JobScript):
    """A start that ends without notice, and without a new checkpoint, may do so for ever."""

    def end_of_a_start(self, noticed=""):
        """Status of the job after the start has ended with status 9 of mpirun."""
        fakes = "queue_again() { exit 0; }; disk_is_full() { false; }"
        setup = f"{FIND_RUN}; crash_pause_s=0 log_begin=0; {fakes}"
        return self.bash(f"{setup}; noticed={noticed}; (go_on_or_end 9); echo $?")

    def test_the_third_in_a_row_is_not_queued_again(self):
        self.assertEqual([self.end_of_a_start() for _ in range(3)], ["0", "0", "3"])
        with open(self.path("log"), encoding="ascii") as file:
            self.assertIn("3 starts in a row have ended before they have made", file.read())
        self.assertEqual(self.end_of_a_start(), "0", "submitted again it counts anew")

    def test_hours_that_were_wished_for_are_not_gone_beyond(self):
        mark = "run 1 term 1 status 3\ntrain.max_hours = 2 are over\n"
        self.write("run/RUN.h5.journal/ended", mark)
        os.utime(self.path("started"), (1, 1))
        self.assertEqual(self.end_of_a_start(), "3")
        with open(self.path("log"), encoding="ascii") as file:
            self.assertIn("train.max_hours = 2 are over: submit it again", file.read())

    def test_a_checkpoint_or_a_notice_ends_the_row(self):
        self.assertEqual([self.end_of_a_start() for _ in range(2)], ["0", "0"])
        self.assertEqual(self.end_of_a_start(noticed="yes"), "0")
        self.assertEqual([self.end_of_a_start() for _ in range(2)], ["0", "0"])
        os.utime(self.path("started"), (1, 1))
        self.write("run/checkpoints/step-8/manifest")
        self.assertEqual([self.end_of_a_start() for _ in range(4)], ["0"] * 4)


class WriteWhole(JobScript):
    """Files that a script makes of what a command prints."""

    def contents(self):
        found = {}
        for name in os.listdir(self.path("run")):
            if name != "checkpoints":
                with open(self.path("run", name), encoding="ascii") as file:
                    found[name] = file.read()
        return found

    def test_a_failed_command_leaves_the_old_file(self):
        for command in ("echo old", "{ echo half; false; }"):
            self.bash(f"made() {{ {command}; }}; write_whole run/file made")
            self.assertEqual(self.contents(), {"file": "old\n"})

    def test_a_link_is_replaced_and_not_written_through(self):
        self.write("precious", "mine")
        os.symlink(self.path("precious"), self.path("run", "file"))
        self.bash("umask 027; write_whole run/file echo new")
        self.assertEqual(self.contents(), {"file": "new\n"})
        self.assertEqual(os.stat(self.path("run", "file")).st_mode & 0o777, 0o640)
        with open(self.path("precious"), encoding="ascii") as file:
            self.assertEqual(file.read(), "mine")


class Workstation(JobScript):
    """workstation.sh in a checkout whose programs are made up."""

    SWARMPI = """
case $1 in
  train) mkdir "$4.journal"; echo "term 1" >"$4.journal/complete"; : >"$4.journal/term-1" >"$4" ;;
  info) echo "wall time 12.5 s"; echo "lost 3 peers" ;;
  sample) echo "a sample" ;;
esac"""
    # As awk is where a language has decimal commas.
    AWK = """case $LC_ALL in C) exec {awk} "$@" ;; esac
{awk} "$@" | sed 's/\\([0-9]\\)\\.\\([0-9]\\)/\\1,\\2/g'"""

    def setUp(self):
        super().setUp()
        for name in ("workstation.sh", "run_marks.sh"):
            shutil.copy(ROOT / "jobscripts" / name, self.path_of("root/jobscripts/" + name))
        for name in ("jobscripts/setup.sh", "build/env.sh"):
            self.write("root/" + name)
        for name in ("inputs/quickstart.toml", "build/data/quickstart.bin"):
            self.write("root/" + name, "# something\n")
        self.fake("swarmpi", self.SWARMPI)
        self.fake("mpirun", 'case $1 in --version) echo "mpirun (Open MPI) 5.0.11"; exit ;; esac\n'
                  'while [ "$1" != swarmpi ]; do shift; done\nexec "$@"')
        self.fake("python3", "exit 0")
        self.fake("awk", self.AWK.format(awk=shutil.which("awk")))

    def path_of(self, name):
        path = self.path(*name.split("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def run_script(self, *arguments, **variables):
        path = f"{self.path('bin')}:{os.environ['PATH']}"
        return subprocess.run(
            ["bash", self.path("root", "jobscripts", "workstation.sh"), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**os.environ, "PATH": path, **variables},
            timeout=DEADLINE_S,
            check=False,
            text=True,
        )

    def deaths(self):
        done = self.run_script(LC_ALL="de")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path_of("root/runs/quickstart/deaths/deaths.csv"), encoding="ascii") as file:
            return file.read().splitlines()

    def test_decks_have_decimal_points_when_the_language_has_commas(self):
        rows = ["time_s,event,peer", "0.62,kill,3", "0.62,kill,4", "1.25,kill,0"]
        self.assertEqual(self.deaths(), rows)

    def test_a_trace_that_no_run_has_used_is_made_again(self):
        self.write("root/runs/quickstart/deaths/deaths.csv", "time_s,event,peer\n0,62,kill,3\n")
        self.assertIn("0.62,kill,3", self.deaths())

    def test_a_full_folder_for_sessions_is_named(self):
        self.fake("dd", "echo 'dd: error writing: No space left on device' >&2; exit 1")
        done = self.run_script("-n", "2", TMPDIR="/full")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("no room left in /full, where mpirun keeps its session", done.stderr)

    def test_a_trace_that_a_run_has_used_is_kept(self):
        self.write("root/runs/quickstart/deaths/deaths.csv", "kept\n")
        self.write("root/runs/quickstart/deaths/RUN.h5.journal/term-1")
        self.write("root/runs/quickstart/deaths/RUN.h5.journal/complete", "term 1\n")
        self.assertEqual(self.deaths(), ["kept"])


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
