"""Bad input gets one clear message and status 2, before any work; nothing is written or harmed."""

import os
import shutil
import subprocess
import unittest

from harness import small_disks
from harness.program import BINARY, ROOT
from harness.test_case import SwarmpiTest, content


class Refused(SwarmpiTest):
    def refused(self, *settings, says, deck=None, resume=None, options=()):
        """Training must end with status 2, name all of `says`, and leave every file as it was."""
        os.makedirs(self.path("refused"), exist_ok=True)
        before = content(self.folder)
        err = self.train("refused", *settings, expect=2, deck=deck, resume=resume, options=options)
        self.assertEqual(len(err.strip().splitlines()), 1, err)
        for words in says:
            self.assertIn(words, err)
        self.assertEqual(content(self.folder), before)

    def deck_with(self, text):
        path = self.path("bad.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path


class Decks(Refused):
    def test_unknown_key(self):
        deck = self.deck_with("[model]\nlayers = 2\n\n[train]\nlearning_rate = 1e-3\nstep = 3\n")
        self.refused(deck=deck, says=[deck + ":5", "train.learning_rate"])
        deck = self.deck_with("[train]\nstep = 3\n")
        self.refused(deck=deck, says=[deck + ":2", "train.step", "did you mean", "train.steps"])

    def test_wrong_type_and_range(self):
        deck = self.deck_with('[model]\nlayers = "four"\n')
        self.refused(deck=deck, says=[deck + ":2", "model.layers", "four"])
        self.refused("train.lr=-1", says=["--set", "train.lr"])
        self.refused("train.schedule=cosin", says=["train.schedule", "cosine"])

    def test_not_toml(self):
        deck = self.deck_with("[model\nlayers = 4\n")
        self.refused(deck=deck, says=[deck + ":1"])

    def test_no_deck(self):
        self.refused(deck=self.path("none.toml"), says=[self.path("none.toml")])

    def test_stages_above_layers(self):
        self.refused("swarm.stages=5", says=["swarm.stages", "model.layers"])

    def test_stages_inside_groups_of_shared_layers(self):
        self.refused(
            "model.shared_groups=2", "swarm.stages=4", says=["swarm.stages", "shared_groups"]
        )

    def test_heads_that_do_not_divide_the_width(self):
        self.refused("model.heads=3", says=["model.heads", "model.width"])

    def test_what_this_version_cannot_do(self):
        for setting in (
            "train.reduction=fast",
            "swarm.compress_gradients=int4",
        ):
            with self.subTest(setting=setting):
                self.refused(setting, says=[setting.split("=")[0], "not available in this version"])

    def test_virtual_time(self):
        self.refused(
            "compute.fidelity=simulated", says=["compute.fidelity", "`swarmpi simulate`"]
        )

    def test_shadows_where_there_can_be_none(self):
        self.refused("swarm.shadows=1", says=["swarm.shadows = 1", "swarm.spares = 0"])
        spares = ("swarm.shadows=2", "swarm.spares=2")
        self.refused(*spares, "swarm.method=gpipe", says=['swarm.method = "swarm"'])
        self.refused(*spares, "swarm.recovery=off", says=["swarm.recovery"])

    def test_too_few_ranks(self):
        self.refused("swarm.spares=1", says=["--set swarm.spares=1", "not enough ranks"])
        self.refused("swarm.pins=[0, 0]", says=["--set swarm.pins", "2 peers pinned"])
        self.refused(
            'faults.at=[{step = 1, peer = 1, event = "flip"}]',
            says=["--set faults.at", "no peer 1 among 1 rank"],
        )

    def test_tables(self):
        self.refused("devices.slow={gflop = 1}", says=["--set devices.slow", "mean gflops"])
        self.refused(
            'peers=[{peers = [0], device = "slow"}]', says=["--set peers", "no [devices.slow]"]
        )

    def test_a_quiet_dry_run_says_nothing(self):
        arguments, _ = self.training("dry", options=["--dry-run"], quiet=True)
        self.assertEqual(self.run_program(*arguments), (0, "", ""))
        self.assertEqual(os.listdir(self.path("dry")), [])

    def test_a_dry_run_writes_nothing(self):
        os.makedirs(self.path("dry"))
        before = content(self.folder)
        self.train("dry", options=["--dry-run"])
        self.assertEqual(content(self.folder), before)


class Launchers(Refused):
    def test_an_mpirun_of_another_mpi(self):
        """Each of its ranks would be alone, and all would write the same files."""
        variables = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "0"}
        before = content(self.folder)
        status, _, err = self.run_program("train", self.deck, env={**os.environ, **variables})
        self.assertEqual(status, 2, err)
        self.assertIn("OMPI_COMM_WORLD_SIZE in the environment says that there are 4 ranks", err)
        self.assertEqual(content(self.folder), before)


class Data(Refused):
    def test_missing(self):
        self.refused(
            f"data.paths={self.path('nothing.bin')}", says=["--set data.paths", "nothing.bin"]
        )
        os.rename(self.data, self.path("moved.bin"))
        self.refused(says=[self.deck + ":9", "data.paths", self.data])

    def test_too_short(self):
        short = self.path("short.bin")
        with open(short, "wb") as file:
            file.write(b"a few words only")
        self.refused(f"data.paths={short}", says=["data"])

    def test_vocabulary_too_small(self):
        self.refused("model.vocab=64", says=["model.vocab", self.data])

    def test_other_data_than_the_deck_names(self):
        self.refused("data.hash=0123456789abcdef", says=["data.hash"])


class Outputs(Refused):
    def test_an_existing_run(self):
        self.train("refused")
        self.refused(says=["RUN.h5", "exists", "--resume"])

    def test_a_journal_without_run_file(self):
        self.train("refused")
        os.remove(self.path("refused", "RUN.h5"))
        shutil.rmtree(self.path("refused", "RUN.checkpoints"))
        self.refused(says=["RUN.h5.journal"])

    def test_checkpoints_of_an_earlier_run(self):
        self.train("refused")
        os.remove(self.path("refused", "RUN.h5"))
        shutil.rmtree(self.path("refused", "RUN.h5.journal"))
        self.refused(says=["checkpoint", "step-12"])

    def test_a_complete_run_and_a_folder_without_checkpoints(self):
        self.train("refused")
        os.makedirs(self.path("empty"))
        os.rename(self.path("refused", "RUN.checkpoints"), self.path("elsewhere"))
        self.refused(resume=self.path("empty"), says=["complete", "empty"])

    def test_checkpoints_of_a_run_beside_a_folder_without_any(self):
        self.train("refused")
        os.makedirs(self.path("empty"))
        self.refused(resume=self.path("empty"), says=["step-12"])

    def test_a_folder_of_checkpoints_that_was_mistyped(self):
        self.train("refused")
        self.refused(
            resume=self.path("refused", "typo"), says=["typo: there is no such folder", os.getcwd()]
        )

    def test_a_runs_folder_in_the_place_of_its_checkpoints(self):
        self.train("mine")
        self.refused(resume=self.path("mine"), says=[self.path("mine", "RUN.checkpoints")])

    def test_another_runs_file_without_its_journal(self):
        other = self.train("refused", "train.lr=1e-4")
        shutil.rmtree(other + ".journal")
        shutil.rmtree(self.path("refused", "RUN.checkpoints"))
        self.train("mine")
        self.refused(resume=self.path("mine", "RUN.checkpoints"), says=["train.lr"])

    def test_the_data_as_run_file(self):
        before = content(self.folder)
        status, _, err = self.run_program(
            "train", self.deck, "--out", self.data, "--resume", self.path("none")
        )
        self.assertEqual(status, 2, err)
        self.assertEqual(content(self.folder), before)

    def test_names_a_working_directory_that_is_gone(self):
        gone = self.path("gone")
        os.mkdir(gone)

        def leave_nowhere():
            os.chdir(gone)
            os.rmdir(gone)

        status, _, err = self.run_program(
            "train", self.deck, "--out", "RUN.h5", preexec_fn=leave_nowhere
        )
        self.assertEqual(status, 2, err)
        self.assertIn("the working directory: No such file or directory", err)

    def test_a_folder_as_run_file(self):
        before = content(self.folder)
        folder = self.path("refused") + os.sep
        status, _, err = self.run_program("train", self.deck, "--out", folder)
        self.assertEqual(status, 2, err)
        self.assertIn(folder + " is a folder: name a file", err)
        self.assertEqual(content(self.folder), before)

    def test_checkpoints_in_the_place_of_the_run_file(self):
        other_name = os.path.join("..", "refused", "RUN.h5")
        for name in ("RUN.h5", "RUN.h5.journal", "RUN.h5" + os.sep, other_name):
            with self.subTest(name=name):
                folder = os.path.join(self.path("refused"), name)
                self.refused(f"output.checkpoint={folder}", says=["is the run file or its journal"])

    def test_a_name_that_leaves_no_room_for_those_of_its_own_files(self):
        before = content(self.folder)
        name = self.path("n" * 245 + ".h5")
        status, _, err = self.run_program("train", self.deck, "--out", name)
        self.assertEqual(status, 2, err)
        self.assertIn("output.run: the name n", err)
        self.assertEqual(content(self.folder), before)

    def test_a_folder_that_cannot_be_made(self):
        with open(self.path("refused"), "w", encoding="ascii") as file:
            file.write("in the way")
        before = content(self.folder)
        status, _, err = self.run_program(
            "train", self.deck, "--out", self.path("refused", "RUN.h5")
        )
        self.assertEqual(status, 2, err)
        self.assertIn("refused", err)
        self.assertEqual(content(self.folder), before)

    def test_no_memory(self):
        self.refused("model.width=32768", "model.heads=2", "model.layers=4096", says=["memory"])

    def test_no_memory_for_a_simulation(self):
        deck = str(ROOT / "inputs" / "simulate" / "thousand.toml")
        more = "--set swarm.peers=60000 --set faults.trace= --set faults.mode=none"
        out = self.path("refused.h5")
        limit = f"ulimit -v 1000000; exec {BINARY} simulate {deck} {more} --out {out}"
        ended = subprocess.run(
            ["bash", "-c", limit], capture_output=True, text=True, timeout=60, check=False
        )
        self.assertEqual(ended.returncode, 1, ended.stderr)
        self.assertIn("simulate: this takes more memory than this process may have", ended.stderr)

    def test_no_room(self):
        small = self.path("small")
        os.mkdir(small)
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", small],
            capture_output=True,
            check=False,
        )
        if mounted.returncode != 0:
            self.skipTest(small_disks.missing() or "this machine does not let us mount anything")
        self.addCleanup(subprocess.run, ["umount", small], check=True)
        self.refused(f"output.checkpoint={small}/checkpoints", says=["output.checkpoint", "room"])


class Checkpoints(Refused):
    def setUp(self):
        super().setUp()
        self.train("refused", "output.checkpoint_every=6")
        self.checkpoints = self.path("refused", "RUN.checkpoints")
        self.newest = os.path.join(self.checkpoints, "step-12")

    def stage_file(self):
        return next(
            os.path.join(self.newest, n) for n in os.listdir(self.newest) if n.startswith("stage-0")
        )

    def test_another_model(self):
        self.refused("model.width=64", resume=self.checkpoints, says=["model.width", "32", "64"])

    def test_other_training(self):
        self.refused("train.lr=1e-4", resume=self.checkpoints, says=["train.lr"])

    def test_cut_off(self):
        path = self.stage_file()
        os.truncate(path, os.path.getsize(path) - 100)
        self.refused(resume=self.newest, says=[self.newest, os.path.basename(path)])

    def test_one_flipped_bit(self):
        path = self.stage_file()
        with open(path, "r+b") as file:
            file.seek(os.path.getsize(path) // 2)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 4]))
        self.refused(resume=self.newest, says=[self.newest, os.path.basename(path)])

    def test_foreign(self):
        with open(os.path.join(self.newest, "manifest"), "w", encoding="ascii") as file:
            file.write("someone else's file\n")
        self.refused(resume=self.newest, says=["manifest"])

    def test_missing(self):
        self.refused(
            resume=self.path("refused", "no-such-folder", "step-3"), says=["no-such-folder"]
        )

    def test_an_earlier_checkpoint_than_the_newest(self):
        self.refused(resume=os.path.join(self.checkpoints, "step-6"), says=["step-12", "step-6"])

    def test_another_checkpoint_of_the_step_to_resume_from_where_the_run_writes_its_own(self):
        self.train("other", "train.lr=1e-4", "output.checkpoint_every=6")
        folder = f"output.checkpoint={self.path('other', 'RUN.checkpoints')}"
        self.refused(
            folder,
            resume=self.checkpoints,
            says=["is another checkpoint than", "step-12", "choose another folder"],
        )

    def test_other_bits(self):
        self.refused("compute.kernels=reference", resume=self.checkpoints, says=["fingerprint"])


if __name__ == "__main__":
    unittest.main()
