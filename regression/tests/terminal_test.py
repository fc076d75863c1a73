"""What a person sees of a run: in a terminal, with mpirun and without it, in a pipe, in a log."""

import os
import re
import signal
import subprocess
import unittest

from harness import program
from harness.processes import children
from harness.program import BINARY
from harness.swarm import MPIRUN, launch_environment, reports_deaths
from harness.terminal import Terminal
from harness.test_case import SwarmpiTest

PROGRESS = re.compile(r"step (\d+)/(\d+)  .*(loss|bits/byte)")
EVENT = re.compile(r" *\d+\.\d\d s  .*\b(kill|repair|join|spawn|leader|checkpoint)\b")
STEERING = re.compile(r"[\x00-\x08\x0b-\x1f]")  # all but tabs and newlines
SHOWN_WITHIN_S = 10  # of each other: lines that are 2 s apart, on a busy machine


class Shown(SwarmpiTest):
    ranks = 3

    def open_terminal(self, columns):
        terminal = Terminal(columns)
        self.addCleanup(terminal.close)
        return terminal

    def show_swarm(self, terminal, name, *settings):
        """Starts the swarm in the terminal; returns it and its run file."""
        arguments, run = self.training(name, *settings, quiet=False)
        environment = {**launch_environment(), "TERM": "xterm"}
        swarm = self.start_swarm(self.ranks, *arguments, env=environment, **terminal.popen)
        return swarm, run

    def read_to_end(self, terminal, process):
        ended = terminal.read_until(lambda: process.poll() is not None, 100)
        self.assertTrue(ended, terminal.text)
        while terminal.read(0.2):
            pass

    def steps_shown(self, terminal):
        """The time and the step of each line that shows progress."""
        found = [(when, PROGRESS.match(line)) for when, line in terminal.lines()]
        return [(when, int(match[1])) for when, match in found if match]

    def read_progress(self, terminal, lines):
        """Waits until so many lines have shown progress."""
        shown = terminal.read_until(lambda: len(self.steps_shown(terminal)) >= lines, 60)
        self.assertTrue(shown, terminal.text)

    def assert_progress(self, shown, since):
        """Steps that rise, and never a long time without one."""
        self.assertGreater(len(shown), 2, shown)
        steps = [step for _, step in shown]
        self.assertEqual(steps, sorted(set(steps)))
        for before, (when, step) in zip([since] + [when for when, _ in shown], shown):
            self.assertLess(when - before, SHOWN_WITHIN_S, f"nothing was shown before step {step}")

    def assert_whole_lines(self, lines, columns):
        """Each fits, steers nothing, and shows either progress or an event.

        Messages on stderr may be longer: each is one line.
        """
        for line in lines:
            if line.startswith("swarmpi: "):
                continue
            self.assertLessEqual(len(line), columns, line)
            self.assertIsNone(STEERING.search(line), repr(line))
            things = len(re.findall(r"step \d+/\d+", line)) + len(re.findall(r"\d\.\d\d s  ", line))
            self.assertLessEqual(things, 1, line)


@unittest.skipUnless(MPIRUN, "there is no mpirun")
class UnderMpirun(Shown):
    """mpirun hands on whole lines only."""

    def setUp(self):
        super().setUp()
        self.add_to_deck(program.slow_devices(4e-3, peers=8))

    def settings(self, steps):
        """Of a run whose steps take some 25 ms: its devices are emulated."""
        emulated = ("compute.fidelity=emulated", "swarm.stages=2")
        return (f"train.steps={steps}", "output.validate_every=0", *emulated)

    def watch(self, columns, kinds, *settings):
        """Kills a rank once there is progress, unless none may be lost.

        Stops the run when there was more, and events of these kinds; returns the lines.
        """
        terminal = self.open_terminal(columns)
        swarm, _ = self.show_swarm(terminal, "swarm", *self.settings(100000), *settings)
        self.read_progress(terminal, 1)
        if reports_deaths():
            os.kill(swarm.ranks()[self.ranks - 1], signal.SIGKILL)
        self.read_progress(terminal, 5)
        terminal.read_until(lambda: self.kinds_shown(terminal) >= kinds, 30)
        self.assertGreaterEqual(self.kinds_shown(terminal), kinds, terminal.text)
        os.kill(children(swarm)[0], signal.SIGUSR1)
        self.read_to_end(terminal, swarm)
        self.assertIn("stopped; go on with --resume", terminal.text)
        lines = [line for _, line in terminal.lines()]
        self.assert_whole_lines(lines, columns)
        shown = self.steps_shown(terminal)
        self.assert_progress(shown, shown[0][0])
        self.assertTrue(terminal.text.endswith("\n"), repr(terminal.text[-80:]))
        return lines

    def kinds_shown(self, terminal):
        """The kinds of events that have lines of their own."""
        return {found[1] for _, line in terminal.lines() if (found := EVENT.match(line))}

    def test_80_columns(self):
        lines = self.watch(80, {"kill", "repair"} if reports_deaths() else set())
        longest = max(len(line) for line in lines if PROGRESS.match(line))
        self.assertGreater(longest, 60, "much was left out")

    @unittest.skipUnless(reports_deaths(), "this MPI does not report lost ranks")
    def test_200_columns_with_a_new_process(self):
        lines = self.watch(200, {"kill", "spawn", "join"}, "swarm.spawn=true")
        self.assertTrue(any("loss" in line and "bits/byte" in line for line in lines), lines)

    def test_ctrl_c_leaves_the_prompt_on_a_line_of_its_own(self):
        terminal = self.open_terminal(80)
        swarm, _ = self.show_swarm(terminal, "stopped", *self.settings(100000))
        self.read_progress(terminal, 1)
        os.write(terminal.master, b"\x03")
        self.read_to_end(terminal, swarm)
        # The terminal shows ^C; mpirun may say no more, and a shell then begins a line.
        said, _, rest = terminal.text.partition("^C")
        self.assertTrue(said.endswith("\n"), repr(said[-80:]))
        self.assertTrue(rest == "" or rest.endswith("\n"), repr(rest[-80:]))

    def test_a_pipe_gets_whole_lines_more_rarely(self):
        arguments, run = self.training("piped", *self.settings(40), quiet=False)
        status, out, err = self.start_swarm(self.ranks, *arguments).result()
        self.assertEqual(status, 0, err)
        self.assert_complete(run, out)
        self.assert_whole_lines(out.split("\n"), 200)
        shown = [line for line in out.splitlines() if PROGRESS.match(line)]
        self.assertLess(len(shown), 8, "the first, the last, perhaps some between")
        self.assertTrue(out.endswith("\n"))

    def test_a_log_file_is_a_pipe(self):
        arguments, run = self.training("logged", *self.settings(40), quiet=False)
        with open(self.path("log"), "w", encoding="utf-8") as log:
            swarm = self.start_swarm(self.ranks, *arguments, stdout=log, stderr=log)
            swarm.result()
        self.assert_complete(run)
        with open(self.path("log"), encoding="utf-8", newline="") as log:
            said = log.read()
        self.assert_whole_lines(said.split("\n"), 200)
        self.assertLess(len(re.findall("^step ", said, re.MULTILINE)), 8, said)


class Alone(Shown):
    """One process renews its line."""

    def show(self, columns, steps):
        """Starts a run in a terminal; returns both."""
        terminal = self.open_terminal(columns)
        arguments, _ = self.training(f"{columns}", f"train.steps={steps}", quiet=False)
        environment = {**os.environ, "TERM": "xterm"}
        process = subprocess.Popen([BINARY, *arguments], env=environment, **terminal.popen)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return terminal, process

    def test_every_step_in_one_line(self):
        for columns in (80, 200):
            with self.subTest(columns=columns):
                terminal, process = self.show(columns, 200)
                self.read_to_end(terminal, process)
                self.assertEqual(process.returncode, 0, terminal.text)
                renewed = re.findall(r"\r\x1b\[K(step [^\r\n]*)", terminal.text)
                self.assertGreater(len(renewed), 100)
                self.assertLess(max(map(len, renewed)), columns, "a line that wraps is not renewed")
                self.assertTrue(terminal.text.endswith("\n"))

    def test_ctrl_c_leaves_the_prompt_on_a_line_of_its_own(self):
        terminal, process = self.show(80, 1000000)
        self.assertTrue(terminal.read_until(lambda: "step 50/" in terminal.text, 60))
        os.write(terminal.master, b"\x03")
        self.read_to_end(terminal, process)
        self.assertEqual(process.returncode, 3, terminal.text)
        self.assertTrue(terminal.text.endswith("\n"), repr(terminal.text[-80:]))


class Divergence(SwarmpiTest):
    def test_is_one_line_with_advice(self):
        arguments, _ = self.training(
            "run", "train.lr=1e6", "train.clip=0", "train.warmup_steps=0", quiet=False
        )
        status, out, err = self.run_program(*arguments)
        self.assertEqual(status, 1, out + err)
        skips = [line for line in out.splitlines() if "overflowing gradients" in line]
        events = [line for line in skips if "skip" in line]
        self.assertEqual(len(events), 1, out)
        self.assertIn("lower train.lr (1e+06)", events[0])
        self.assertLess(len(events[0]), 300)
        self.assertIn("try a lower train.lr", err)
        self.assertEqual(err.count("\n"), 1, err)


if __name__ == "__main__":
    unittest.main()
