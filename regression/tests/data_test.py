"""Data: a validation set of its own, formats of tokens, prepared text; losses measured again."""

import json
import os
import struct
import unittest

try:
    import h5py
except ImportError:
    h5py = None

from harness.swarm import MPIRUN
from harness.test_case import SwarmpiTest


def last_validation(run):
    with h5py.File(run, "r") as file:
        return int(file["validation/step"][-1]), float(file["validation/loss"][-1])


class Validation(SwarmpiTest):
    def setUp(self):
        super().setUp()
        self.held_out = self.path("held_out.bin")
        with open(self.data, "rb") as file:
            text = file.read()
        with open(self.held_out, "wb") as file:
            file.write(text[::-1][:3001])
        self.own = f"data.validation_paths={self.held_out}"

    def evaluated(self, *arguments):
        status, out, err = self.run_program("evaluate", *arguments, "--json")
        self.assertEqual(status, 0, err)
        return json.loads(out)

    @unittest.skipUnless(h5py, "there is no h5py")
    def test_evaluate_gives_the_bits_of_the_run_file(self):
        for name, settings in (
            ("plain", ()),
            ("delayed", ("train.updates=delayed", "train.microbatch_size=3")),
            ("bf16", ("model.precision=bf16", "swarm.stages=2")),
            ("coded", ("swarm.stages=3", "swarm.compress_activations=blockwise8")),
            ("maxout", ("swarm.stages=2", "swarm.boundary=maxout")),
            ("reference", ("compute.kernels=reference",)),
        ):
            with self.subTest(name):
                step, loss = last_validation(self.train(name, self.own, *settings))
                found = self.evaluated(self.path(name), "--data", self.held_out)
                self.assertEqual((found["step"], found["loss"]), (step, loss))
                run_file = self.path(name, "RUN.h5")
                self.assertEqual(self.evaluated(run_file), found)
                other = self.evaluated(run_file, "--data", self.data)
                self.assertNotEqual(other["loss"], loss)

    @unittest.skipUnless(h5py, "there is no h5py")
    def test_what_is_held_out_of_the_data_is_found_again(self):
        step, loss = last_validation(self.train("split", "swarm.stages=2"))
        found = self.evaluated(self.path("split"))
        self.assertEqual((found["step"], found["loss"]), (step, loss))

    @unittest.skipUnless(MPIRUN, "there is no mpirun")
    def test_ranks_and_resumes_change_no_bit(self):
        whole = self.train("whole", self.own)
        self.assert_same_run(whole, self.train("ranks", self.own, ranks=3))
        self.train("half", self.own, "train.schedule=constant", "train.steps=6")
        checkpoints = os.path.dirname(self.evaluated(self.path("half"))["checkpoint"])
        half = self.train("half", self.own, "train.schedule=constant", resume=checkpoints)
        self.assert_same_run(self.train("constant", self.own, "train.schedule=constant"), half)

    def test_other_validation_data_are_refused_on_resume(self):
        self.train("half", self.own, "train.schedule=constant", "train.steps=6")
        checkpoints = os.path.dirname(self.evaluated(self.path("half"))["checkpoint"])
        for changed in ("data.validation_paths=[]", f"data.validation_paths={self.data}"):
            err = self.train(
                "half", changed, "train.schedule=constant", resume=checkpoints, expect=2
            )
            self.assertIn("data.hash", err)


class Formats(SwarmpiTest):
    def store(self, name, kind, header=b""):
        with open(self.data, "rb") as file:
            text = file.read()
        with open(self.path(name), "wb") as file:
            file.write(header + struct.pack(f"<{len(text)}{kind}", *text))
        return f"data.paths={self.path(name)}"

    def test_each_gives_the_same_run(self):
        count = os.path.getsize(self.data)
        bits16, bits32 = "data.format=tokens_u16", "data.format=tokens_u32"
        llama = struct.pack("<3i", 20240801, 7, count).ljust(1024, b"\0")
        runs = [
            self.train("bytes"),
            self.train("u16", bits16, self.store("u16.bin", "H")),
            self.train("u32", bits32, self.store("u32.bin", "I")),
            self.train("llama", bits32, self.store("llama.bin", "I", llama)),
        ]
        for run in runs[1:]:
            self.assert_same_run(runs[0], run)

    def test_tokens_that_are_read_as_bytes_draw_a_warning(self):
        tokens = self.store("u16.bin", "H")
        wanted = (
            f"data.paths: {self.path('u16.bin')} looks like 16-bit tokens, but is read as "
            'data.format = "bytes": if it is, set data.format = "tokens_u16"'
        )
        status, out, err = self.run_program("check", self.deck, "--set", tokens)
        self.assertEqual(status, 0, err)
        self.assertIn("WARNING            " + wanted, out)
        arguments, _ = self.training("warned", tokens)
        status, _, err = self.run_program(*arguments)
        self.assertEqual(status, 0, err)
        self.assertIn("swarmpi: warning: ", err)
        self.assertIn(wanted, err)
        arguments, _ = self.training("right")
        self.assertEqual(self.run_program(*arguments)[2], "")

    def test_samples_of_tokens_are_numbers(self):
        self.train("u16", "data.format=tokens_u16", self.store("u16.bin", "H"))
        status, out, err = self.run_program(
            "sample", self.path("u16"), "--tokens", "116 104 101", "-n", "9"
        )
        self.assertEqual(status, 0, err)
        self.assertEqual(out.split()[:3], ["116", "104", "101"])
        self.assertEqual([0 <= int(word) < 256 for word in out.split()], [True] * 12)
        status, _, err = self.run_program("sample", self.path("u16"), "--prompt", "the")
        self.assertEqual(status, 2)
        self.assertIn("--tokens", err)


class Prepare(SwarmpiTest):
    def test_a_text_is_not_taken_for_the_output(self):
        for name in ("a.txt", "b.txt"):
            with open(self.path(name), "w", encoding="ascii") as file:
                file.write("the text of " + name)
        status, out, err = self.run_program("prepare", self.path("a.txt"), self.path("b.txt"))
        self.assertEqual((status, out), (2, ""))
        self.assertIn("a.txt: exists, and is not what these texts give", err)
        with open(self.path("a.txt"), encoding="ascii") as file:
            self.assertEqual(file.read(), "the text of a.txt")
        for said in ("files that are not text\n", "; it was there already\n"):
            status, out, err = self.run_program(
                "prepare", self.path("out.bin"), self.path("a.txt"), self.path("b.txt")
            )
            self.assertEqual((status, err), (0, ""))
            self.assertTrue(out.endswith(said), out)

    def test_latin_1_is_named(self):
        with open(self.path("old.txt"), "w", encoding="latin-1") as file:
            file.write("d\xe9j\xe0 vu")
        status, _, err = self.run_program("prepare", self.path("out.bin"), self.path("old.txt"))
        self.assertEqual(status, 2)
        self.assertIn(f"iconv -f latin1 -t utf8 {self.path('old.txt')} > NEW.txt", err)


if __name__ == "__main__":
    unittest.main()
