"""Several runs: `swarmpi sweep` trains them, `swarmpi info` compares them."""

import os
import re
import shutil
import signal
import subprocess
import unittest
from pathlib import Path

from harness.processes import wait_for
from harness.program import BINARY, ROOT
from harness.swarm import MPIRUN, launch_environment
from harness.test_case import SwarmpiTest, content

RATES = ("--vary", "train.lr=1e-3,3e-3")
FOLDERS = ("lr=1e-3", "lr=3e-3")


class SweepTest(SwarmpiTest):
    def sweep(self, *arguments, expect=0, **options):
        """Sweeps into FOLDER/swept; returns what was said on stdout and stderr."""
        command = ["sweep", self.deck, "--out", self.path("swept"), "--quiet", *arguments]
        options = {"env": self.without_python(), **options}
        status, out, err = self.run_program(*command, **options)
        self.assertEqual(status, expect, out + err)
        return out, err

    def without_python(self):
        """An environment whose python3 draws nothing: pictures take longer than these runs."""
        folder = self.path("bin")
        if not os.path.exists(folder):
            os.mkdir(folder)
            os.symlink("/bin/false", os.path.join(folder, "python3"))
        environment = {**launch_environment(), "PATH": f"{folder}:{os.environ['PATH']}"}
        environment.pop("SWARMPI_SHARE", None)  # that of another build
        return environment

    def run_file(self, folder):
        return self.path("swept", folder, "RUN.h5")

    def table(self, out):
        """The lines of the table, each split at blanks."""
        lines = [line.split() for line in out.splitlines()]
        first = next(i for i, line in enumerate(lines) if line[:1] == ["run"] and "loss" in line)
        last = next(i for i, line in enumerate(lines) if line[:2] == ["loss", "and"])
        return lines[first:last]


class Sweep(SweepTest):
    def test_a_launcher_that_is_not_there_leaves_nothing(self):
        _, err = self.sweep(*RATES, "--launcher", "no-such-launcher -n 2", expect=2)
        self.assertIn("no-such-launcher", err)
        self.assertFalse(os.path.exists(self.path("swept")), err)

    def test_the_words_of_a_launcher_may_be_quoted(self):
        script = self.path("a launcher.sh")
        with open(script, "w", encoding="ascii") as file:
            file.write('echo "$1" >"$0.said"; shift; exec "$@"\n')
        self.sweep(*RATES, "--launcher", f"sh '{script}' two\\ words")
        self.assertEqual(Path(script + ".said").read_text("ascii"), "two words\n")
        for folder in FOLDERS:
            self.assert_complete(self.run_file(folder))

    def test_a_quote_that_is_not_closed_is_refused(self):
        _, err = self.sweep(*RATES, "--launcher", "echo 'a b", expect=2)
        self.assertIn("--launcher: `echo 'a b` has a ' that is not closed", err)
        self.assertFalse(os.path.exists(self.path("swept")), err)

    def test_of_devices_the_table_shows_what_differs(self):
        out, _ = self.sweep("--vary", "devices.x={gflops=1},{gflops=2}")
        heading, *rows = self.table(out)
        self.assertEqual(heading[:3], ["run", "devices.x.gflops", "steps"])
        self.assertEqual([row[1] for row in rows], ["1.0", "2.0"])

    def test_each_combination_is_the_run_that_it_says(self):
        out, _ = self.sweep(*RATES)
        for folder, rate in zip(FOLDERS, ("1e-3", "3e-3")):
            self.assert_complete(self.run_file(folder))
            alone = self.train(f"alone-{rate}", f"train.lr={rate}")
            self.assert_same_run(alone, self.run_file(folder))
        heading, *runs = self.table(out)
        self.assertEqual(heading[:4], ["run", "train.lr", "steps", "loss"])
        self.assertEqual(
            [run[:3] for run in runs],
            [
                [self.path("swept", "lr=1e-3"), "0.001", "12"],
                [self.path("swept", "lr=3e-3"), "0.003", "12"],
            ],
        )
        self.assertIn(f"postprocess/plot_run.py {self.path('swept')}/*/RUN.h5 -o ", out)

    def test_it_has_a_picture_drawn_of_all_runs(self):
        environment = self.without_python()
        python, picture = self.path("bin", "python3"), self.path("swept", "sweep.png")
        os.remove(python)
        with open(python, "w", encoding="ascii") as script:
            script.write('#!/bin/sh\nfor last; do :; done\nprintf "%s\\n" "$@" >"$last"\n')
        os.chmod(python, 0o755)
        out, _ = self.sweep(*RATES, env=environment)
        script = Path(BINARY).resolve().parents[1] / "postprocess" / "plot_run.py"
        if not script.exists():  # the program does not stand in a build folder of the project
            self.assertIn("postprocess/plot_run.py ", out)
            return
        self.assertIn(f"picture: {picture}\n", out)
        with open(picture, encoding="utf-8") as drawn:
            said = drawn.read().splitlines()
        self.assertEqual(said, [str(script), *map(self.run_file, FOLDERS), "-o", picture])

    def test_its_folder_shows_the_table_again(self):
        out, _ = self.sweep(*RATES)
        status, again, err = self.run_program("info", self.path("swept"))
        self.assertEqual(status, 0, err)
        self.assertEqual(self.table(again), self.table(out))

    def test_repeated_it_trains_nothing_and_shows_the_same(self):
        out, _ = self.sweep(*RATES, "--vary", "train.seed=1,2")
        before = content(self.path("swept"))
        again, _ = self.sweep(*RATES, "--vary", "train.seed=1,2")
        self.assertEqual(again.count(": is complete\n"), 4, again)
        self.assertEqual(self.table(again), self.table(out))
        self.assertEqual(content(self.path("swept")), before)

    def test_more_values_and_more_steps_are_trained_later(self):
        self.sweep("--vary", "train.lr=1e-3", "--set", "train.schedule=constant")
        out, _ = self.sweep(*RATES, "--set", "train.schedule=constant")
        self.assertIn("run 1 of 2: lr=1e-3: is complete", out)
        out, _ = self.sweep(*RATES, "--set", "train.schedule=constant", "--set", "train.steps=14")
        self.assertEqual([run[2] for run in self.table(out)[1:]], ["14", "14"])

    def test_a_mistake_in_any_combination_is_told_before_the_first_starts(self):
        for vary, said in (
            ("train.lr=1e-3,fast", "lr=fast: --set train.lr=fast"),
            ("train.lrr=1,2", "did you mean train.lr?"),
            ("train.lr=1e-3,0.001", "lr=1e-3 and lr=0.001 are the same run"),
            ("model.heads=2,3", "heads=3"),
            ("train.lr", "expected SECTION.KEY=VALUE"),
            ("data.paths=nowhere.bin,elsewhere.bin", "nowhere.bin: No such file"),
        ):
            with self.subTest(vary=vary):
                _, err = self.sweep("--vary", vary, expect=2)
                self.assertIn(said, err)
                self.assertEqual(err.count("\n"), 1, err)
                self.assertFalse(os.path.exists(self.path("swept")))

    def test_the_run_file_is_not_to_be_varied(self):
        status, _, err = self.run_program("sweep", self.deck, "--vary", "output.run=a.h5,b.h5")
        self.assertEqual(status, 2)
        self.assertIn("--vary output.run", err)

    def test_a_folder_with_runs_of_another_deck_is_refused(self):
        self.sweep(*RATES)
        before = content(self.path("swept"))
        _, err = self.sweep(*RATES, "--set", "train.seed=5", expect=2)
        self.assertIn("is the run of another deck (train.seed: 7 -> 5)", err)
        self.assertEqual(content(self.path("swept")), before)

    def test_runs_on_other_data_are_refused_though_they_are_complete(self):
        text = self.path("text.bin")
        shutil.copy(self.data, text)
        self.sweep(*RATES, "--set", f"data.paths={text}")
        with open(text, "r+b") as file:
            file.write(b"Q")
        for arguments in (RATES, (*RATES, "--print-slurm")):
            out, err = self.sweep(*arguments, "--set", f"data.paths={text}", expect=2)
            self.assertEqual(out, "")
            self.assertRegex(err, r"was begun on other data \(data.hash: \w{16} -> \w{16}\)")

    def test_one_that_fails_does_not_keep_the_others_from_running(self):
        vary = ("--vary", "train.lr=1e6,1e-3", "--set", "train.warmup_steps=0")
        for said in ("in ", "has failed"):
            out, err = self.sweep(*vary, "--set", "train.clip=0", expect=1)
            self.assertIn("1 run of the sweep failed", err)
            self.assertRegex(out, f"run 1 of 2: lr=1e6:? {said}")
            self.assert_complete(self.run_file("lr=1e-3"))
            self.assertEqual([run[-1] for run in self.table(out)], ["verdict", "invalid", "valid"])


class Stopped(SweepTest):
    """Asked to stop a sweep hands that on, and the same command goes on."""

    steps = ("--set", "train.steps=1500", "--set", "train.schedule=constant")

    def assert_goes_on(self, how, *arguments):
        command = ["sweep", self.deck, "--out", self.path("swept"), *RATES, *self.steps, *arguments]
        sweep = self.start(*command, env=launch_environment())
        self.addCleanup(sweep.kill)
        journal = self.run_file(FOLDERS[0]) + ".journal/term-1"
        wait_for(lambda: os.path.exists(journal) and os.path.getsize(journal) > 50000, "steps")
        out, err = self.stop(sweep, how)
        self.assertEqual(sweep.returncode, 3, out + err)
        self.assertIn("0 of 2 runs are complete; the same command goes on", err)
        self.assertTrue(os.listdir(self.path("swept", FOLDERS[0], "checkpoints")), out + err)
        self.assertFalse(os.path.exists(self.path("swept", FOLDERS[1])))
        out, _ = self.sweep(*RATES, *self.steps, *arguments)
        self.assertIn("run 2 of 2: lr=3e-3 in ", out)
        whole = self.train("whole", "train.lr=1e-3", *self.steps[1::2])
        self.assert_same_run(whole, self.run_file(FOLDERS[0]))
        _, said, _ = self.run_program("info", self.run_file(FOLDERS[0]))
        self.assertIn("resumed 1 time", said)

    def test_by_ctrl_c(self):
        self.assert_goes_on(signal.SIGINT)

    def test_as_a_run_ends(self):
        """That one is complete: it is the next one that is not started."""
        launcher = self.path("launcher.sh")
        with open(launcher, "w", encoding="ascii") as file:
            file.write('"$@"; trap "" USR1; kill -TERM $PPID; sleep 0.5\n')
        asked = ("--launcher", "sh " + launcher)
        out, err = self.sweep(*RATES, *asked, expect=3)
        self.assertIn("sweep stopped: 1 of 2 runs are complete", err)
        self.assertFalse(os.path.exists(self.path("swept", FOLDERS[1])))
        out, _ = self.sweep(*RATES, *asked)  # where none is left there is nothing to stop
        self.assertIn("run 1 of 2: lr=1e-3: is complete", out)
        self.assert_complete(self.run_file(FOLDERS[1]))

    @unittest.skipUnless(MPIRUN, "there is no mpirun")
    def test_under_mpirun(self):
        self.assert_goes_on(signal.SIGTERM, "--ranks", "2")


class SlurmArray(SweepTest):
    """The script that --print-slurm prints, with a train.slurm that only says what it is told."""

    def test_each_task_is_one_run(self):
        out, _ = self.sweep("--print-slurm", "--ranks", "4", *RATES, "--set", 'output.run="it\'s"')
        self.assertFalse(os.path.exists(self.path("swept")))
        self.assertIn("#SBATCH --array=0-1\n", out)
        self.assertIn("--ntasks-per-node=4", out)
        os.mkdir(self.path("jobscripts"))
        with open(self.path("jobscripts", "train.slurm"), "w", encoding="ascii") as script:
            script.write('printf "%s\\n" "$DECK" "$RUN_DIR" "$SET"\n')
        # From the project's folder; or from any with what env.sh exports.
        unset = {key: value for key, value in os.environ.items() if key != "SWARMPI_SHARE"}
        places = (
            {"cwd": self.folder, "env": unset},
            {"cwd": "/", "env": {**unset, "SWARMPI_SHARE": self.folder}},
        )
        for task, (folder, rate) in enumerate(zip(FOLDERS, ("1e-3", "3e-3"))):
            place = places[task]
            place["env"]["SLURM_ARRAY_TASK_ID"] = str(task)
            said = subprocess.run(
                ["bash", "-s"],
                input=out,
                capture_output=True,
                text=True,
                check=True,
                **place,
            ).stdout
            settings = f'output.run="it\'s" train.lr={rate}'
            self.assertEqual(said.splitlines(), [self.deck, self.path("swept", folder), settings])

    def test_it_asks_slurm_for_what_train_slurm_does(self):
        """But for the number of nodes and tasks, and the array."""
        out, _ = self.sweep("--print-slurm", *RATES)
        own = set(re.findall("^#SBATCH (.*)$", out, re.MULTILINE))
        with open(ROOT / "jobscripts" / "train.slurm", encoding="ascii") as script:
            needed = set(re.findall("^#SBATCH (.*)$", script.read(), re.MULTILINE))
        missing = {line for line in needed - own if "--nodes" not in line and "name" not in line}
        self.assertEqual(missing, set())


class Info(SwarmpiTest):
    def test_a_run_is_found_by_whatever_names_it(self):
        run = self.train("run", "output.checkpoint_every=4")
        folder = os.path.dirname(run)
        checkpoints = os.path.join(folder, "RUN.checkpoints")
        for named, steps in (
            (run, "12 of 12"),
            (run + ".journal", "12 of 12"),
            (folder, "12 of 12"),
            (folder + "/", "12 of 12"),
            (checkpoints, "12 of 12"),
            (os.path.join(checkpoints, "step-8"), "8 of 12"),
            (os.path.join(checkpoints, "step-8") + "/", "8 of 12"),
        ):
            with self.subTest(named=named):
                status, out, err = self.run_program("info", named)
                self.assertEqual(status, 0, err)
                self.assertRegex(out, rf"(?m)^steps +{steps}$")
                self.assertEqual("after step" in out, checkpoints in named, out)

    def test_a_folder_that_names_no_run_is_refused_with_what_is_there(self):
        os.mkdir(self.path("empty"))
        status, _, err = self.run_program("info", self.path("empty"))
        self.assertEqual(status, 2)
        self.assertIn("is a folder without a run (RUN.h5)", err)
        run = self.train("two")
        shutil.copy(run, self.path("two", "B.h5"))
        status, _, err = self.run_program("info", self.path("two"))
        self.assertEqual(status, 2)
        for name in ("B.h5", "RUN.h5"):
            self.assertIn(self.path("two", name), err)

    def test_what_is_not_there_is_named_with_the_working_directory(self):
        for arguments in (
            ["info", "none.h5"],
            ["compare", "none.h5", "none.h5"],
            ["train", "none.toml"],
            ["check", "none.toml"],
            ["sample", "none", "--prompt", "a"],
            ["check", self.deck, "--set", "data.paths=none.bin"],
            ["prepare", "out.bin", "none.txt"],
        ):
            with self.subTest(arguments=arguments):
                status, _, err = self.run_program(*arguments, cwd=self.folder)
                self.assertEqual(status, 2)
                self.assertIn(f"the working directory is {os.path.realpath(self.folder)}", err)

    def test_several_runs_stand_beside_each_other(self):
        a, b = self.train("a"), self.train("b", "train.lr=1e-2", "swarm.stages=2")
        status, out, err = self.run_program("info", a, os.path.dirname(b))
        self.assertEqual(status, 0, err)
        heading, first, second = (line.split() for line in out.splitlines()[:3])
        self.assertEqual(heading[:4], ["run", "train.lr", "swarm.stages", "steps"])
        self.assertEqual(first[:4], [self.path("a"), "0.003", "1", "12"])
        self.assertEqual(second[:4], [self.path("b"), "0.01", "2", "12"])
        status, _, err = self.run_program("info", a, self.path("none.h5"))
        self.assertEqual(status, 2)
        self.assertIn("none.h5", err)


if __name__ == "__main__":
    unittest.main()
