"""Peers whose preemption is emulated: they fall silent, and others may come in their place; peers
behind emulated links, and peers that compute nothing.

Needs an MPI that reports deaths for one test only. The program under test is $SWARMPI, its
launcher $SWARMPI_MPIRUN.
"""

import os
import re
import signal
import statistics
import unittest

try:
    import h5py
except ImportError:
    h5py = None

from harness.swarm import MPIRUN, reports_deaths
from harness.test_case import DisturbedSwarmTest, ReferenceTest, SwarmpiTest

STEPS = 600
SETTINGS = (f"train.steps={STEPS}", "output.checkpoint_every=50", "output.validate_every=0")
# The same bits; a step takes about as long on any machine.
DEVICES = """
[devices.slow]
gflops = 1000
overhead_s = 1.5e-3
[[peers]]
peers = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
device = "slow"
"""


def seconds(out):
    """What a summary says that the run took."""
    return float(re.search(r"\nwall time +([0-9.]+) s\n", out)[1])


def median_step_s(run):
    """Where other programs want the cores too, some steps take longer."""
    with h5py.File(run) as file:
        ends_s = file["steps/time_s"][:]
    return statistics.median(ends_s[1:] - ends_s[:-1])


def sites(up_mbps, mbps):
    """Settings that put the first two of four peers at one site, and the others at another.

    All that leaves the first shares its uplink, and all between the two the route.
    """
    rows = (
        '{peers = [0, 1, 4, 5], device = "slow", site = "a"}',
        '{peers = [2, 3, 6, 7], device = "slow", site = "b"}',
    )
    return (
        f"sites.a={{up_mbps = {up_mbps}}}",
        "sites.b={}",
        f'routes=[{{sites = ["a", "b"], latency_s = 0.002, mbps = {mbps}}}]',
        f"peers=[{', '.join(rows)}]",
    )


class EmulatedTest(ReferenceTest):
    """Base of tests of swarms on two stages, whose devices are emulated."""

    settings = SETTINGS

    def setUp(self):
        super().setUp()
        self.add_to_deck(DEVICES)

    def trace(self, *events):
        """Settings that have these happen."""
        path = self.path("trace.csv")
        with open(path, "w", encoding="ascii") as file:
            file.write("".join(f"{event}\n" for event in events))
        return "faults.mode=emulated", f"faults.trace={path}"

    def at(self, *faults):
        """Has these (step, peer, event, point) happen."""
        for step, peer, event, point in faults:
            self.add_to_deck(
                f'[[faults.at]]\nstep = {step}\npeer = {peer}\n'
                f'event = "{event}"\npoint = "{point}"\n'
            )
        return ("faults.mode=emulated",)

    def swarm(self, *settings, ranks=4):
        """Status, output and errors of a swarm on two stages, and its run file."""
        emulated = ("swarm.stages=2", "compute.fidelity=emulated")
        arguments, run = self.training("swarm", *self.settings, *emulated, *settings, quiet=False)
        return *self.start_swarm(ranks, *arguments).result(60), run

    def assert_undisturbed(self, *settings, ranks=4):
        """It ends complete and equal; returns what it said."""
        _, out, err, run = self.swarm(*settings, ranks=ranks)
        self.assert_complete(run, out + err)
        self.assert_same_run(self.reference, run)
        return out


@unittest.skipUnless(MPIRUN, "there is no mpirun")
class Emulated(EmulatedTest):
    """A swarm some of whose peers are gone for a while, or for good."""

    def assert_ends_and_resumes(self, *settings, ranks=4):
        """It ends with status 3 and goes on, bit for bit; returns what it said."""
        status, _, err, run = self.swarm(*settings, ranks=ranks)
        self.assertEqual(status, 3, err)
        self.assert_unfinished(run)
        resumed = self.train("swarm", *SETTINGS, resume=self.path("swarm", "RUN.checkpoints"))
        self.assert_same_run(self.reference, resumed)
        return err

    def test_peers_fall_silent_and_newcomers_take_their_places(self):
        out = self.assert_undisturbed(
            *self.trace("0.2,kill,1", "0.4,kill,0", "0.5,join,4", "0.6,join,5", "0.8,kill,2")
        )
        for said in (r"peer 1 +kill", r"peer 0 +kill", r"peer 4 +join", r"peer 5 +join"):
            self.assertRegex(out, said)
        self.assertRegex(out, r"\nlost +3 peers")

    def test_all_who_were_there_at_the_start_are_gone(self):
        events, time_s = [], 0.2
        for peer in range(4):
            events += [f"{time_s:.2f},kill,{peer}", f"{time_s + 0.1:.2f},join,{peer + 4}"]
            time_s += 0.6
        events += [f"{time_s:.2f},kill,4", f"{time_s + 0.1:.2f},join,8"]
        out = self.assert_undisturbed(*self.trace(*events))
        self.assertRegex(out, r"peer 5 +leader")
        self.assertRegex(out, r"peer 8 +join")

    def test_many_come_and_go(self):
        path = self.path("made.csv")
        model = "--peers 6 --hours 0.003 --mtbf-s 2 --return-s 0.3 --seed 2"
        status, _, err = self.run_program("trace", path, *model.split())
        self.assertEqual(status, 0, err)
        out = self.assert_undisturbed("faults.mode=emulated", f"faults.trace={path}", ranks=6)
        for event in ("kill", "join"):
            self.assertGreater(len(re.findall(rf"peer \d+ +{event}", out)), 4, out)

    def test_the_leader_falls_at_any_point(self):
        out = self.assert_undisturbed(
            *self.at((7, 0, "kill", "commit"), (12, 1, "kill", "reduce")),
            *self.at((50, 2, "kill", "checkpoint")),
        )
        for peer in (0, 1, 2):
            self.assertRegex(out, rf"peer {peer} +kill")

    def test_whoever_hears_of_it_before_leaves_in_good_order(self):
        out = self.assert_undisturbed(
            *self.trace("9,kill,1", "9.1,join,4"), "swarm.notice_s=8.7", ranks=3
        )
        self.assertRegex(out, r"peer 1 +leave")
        self.assertNotRegex(out, r"peer 1 +kill")

    def test_peers_move_to_the_stage_where_work_waits(self):
        out = self.assert_undisturbed(
            *("swarm.pins=[0,0,0,1]", "swarm.rebalance=paper", "swarm.rebalance_period_s=0.3"),
            *("swarm.rebalance_load=mean", "faults.mode=emulated"),
        )
        # The leader stays or goes like any other: whoever waits least goes.
        self.assertRegex(out, r"peer [012] +stage 1 +migrate +moves from stage 0")
        self.assertRegex(out, r"peer [012] +stage 0 +migrate +no longer serves the stage")
        self.assertRegex(out, r"stage 1 +migrate +end of a move: it has moved")

    def test_peers_move_while_others_die_and_come(self):
        out = self.assert_undisturbed(
            *("swarm.rebalance=paper", "swarm.rebalance_period_s=0.2", "swarm.newcomers=loaded"),
            *self.trace("0.4,kill,3", "0.9,kill,0", "1,join,6", "1.3,kill,2", "1.6,join,7"),
            ranks=6,
        )
        self.assertRegex(out, r"migrate +moves from stage")
        self.assertRegex(out, r"migrate +end of a move: it has moved")

    def test_stopped_for_less_than_the_deadline_costs_nobody(self):
        out = self.assert_undisturbed(
            *self.trace("0.3,stop,0", "0.8,continue,0", "1,stop,3", "1.4,continue,3")
        )
        self.assertNotIn("kill ", out)
        for peer in (0, 3):
            self.assertRegex(out, rf"peer {peer} +stop +faults.trace in the deck\n")
            self.assertRegex(out, rf"peer {peer} +continue +faults.trace in the deck\n")

    def test_stopped_for_longer_is_a_death(self):
        out = self.assert_undisturbed(
            *self.trace("0.3,stop,0", "0.3,stop,3"), "swarm.suspect_after_s=1"
        )
        for peer in (0, 3):
            self.assertRegex(out, rf"peer {peer} +suspect +peer \d had not heard it for \d")
            self.assertRegex(out, rf"peer {peer} +kill .*; it was killed because peer \d had not")

    def test_a_spare_takes_its_time(self):
        out = self.assert_undisturbed(
            *self.trace("0.5,kill,1"), "swarm.spares=1", "swarm.spare_delay_s=1"
        )
        killed, serves = (
            float(re.search(rf"([0-9.]+) s .*peer {event}", out)[1])
            for event in ("1 +kill", "3 .* migrate")
        )
        self.assertGreater(serves - killed, 0.98)  # both are told to hundredths

    def test_the_run_ends_before_all_have_come(self):
        out = self.assert_undisturbed(
            *self.trace("0.2,kill,1", "0.3,kill,2", "1000,join,4", "1001,join,5")
        )
        self.assertNotIn("join", out)

    def test_a_link_is_cut_and_healed(self):
        out = self.assert_undisturbed(
            *self.trace("0.3,cut,2", "0.8,heal,2", "1,cut,0", "1.4,heal,0")
        )
        self.assertNotIn("kill ", out)
        for peer in (0, 2):
            self.assertRegex(out, rf"peer {peer} +cut +faults.trace in the deck\n")
            self.assertRegex(out, rf"peer {peer} +heal +faults.trace in the deck\n")

    def test_a_newcomer_inherits_no_order_to_kill(self):
        # The others order the kill of the silent peer 2 when it is dead, which they hear only once
        # its link is healed.
        out = self.assert_undisturbed(
            *self.trace("0.3,cut,2", "0.4,kill,2", "2,heal,2", "2.2,join,4"),
            "swarm.suspect_after_s=1",
        )
        self.assertRegex(out, r"peer 4 +join")
        self.assertNotRegex(out, r"peer 4 +kill")

    def test_a_link_is_cut_for_good(self):
        err = self.assert_ends_and_resumes(
            *self.trace("0.3,cut,2"), "swarm.suspect_after_s=1", "swarm.give_up_after_s=2"
        )
        self.assertIn("peer 2 does not answer, and cannot be killed", err)

    def test_nobody_is_left(self):
        err = self.assert_ends_and_resumes(*self.trace(*(f"0.5,kill,{peer}" for peer in range(4))))
        self.assertIn("no peer is left", err)

    def test_a_peer_that_is_alone(self):
        arguments, _ = self.training(
            "swarm", *SETTINGS, "compute.fidelity=emulated", *self.trace("0.5,kill,0")
        )
        status, _, err = self.run_program(*arguments)
        self.assertEqual(status, 3, err)
        self.assertIn("no peer is left", err)
        resumed = self.train("swarm", *SETTINGS, resume=self.path("swarm", "RUN.checkpoints"))
        self.assert_same_run(self.reference, resumed)


@unittest.skipUnless(MPIRUN, "there is no mpirun")
class Links(EmulatedTest):
    """Messages that take their time: no bit depends on it."""

    settings = ("train.steps=30", "output.checkpoint_every=10", "output.validate_every=0")
    # Forth and back over one cut, a report, the seal, its answer and the commit: each goes one way.
    ways_of_a_step = 6

    def behind(self, **link):
        """Settings that put all peers behind such a link."""
        keys = ", ".join(f"{key} = {value}" for key, value in link.items())
        listed = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
        peers = f'{{peers = {listed}, device = "slow", link = "home"}}'
        return f"links.home={{{keys}}}", f"peers=[{peers}]"

    def test_a_step_waits_for_the_latency(self):
        out = self.assert_undisturbed(*self.behind(latency_s=0.01))
        self.assertNotIn("suspect", out)
        self.assertGreaterEqual(seconds(out), 30 * self.ways_of_a_step * 0.02)

    def test_a_jittery_link_keeps_the_order(self):
        out = self.assert_undisturbed(*self.behind(latency_s=0.002, jitter_s=0.01))
        self.assertNotIn("suspect", out)

    def test_a_narrow_link_is_not_taken_for_a_death(self):
        out = self.assert_undisturbed(
            *self.behind(up_mbps=2, down_mbps=4), "swarm.suspect_after_s=1.5"
        )
        self.assertNotIn("suspect", out)

    def test_peers_die_and_come_behind_slow_links(self):
        out = self.assert_undisturbed(
            *self.behind(latency_s=0.005, up_mbps=20, down_mbps=20),
            *self.trace("0.6,kill,1", "0.9,kill,0", "1.1,join,4", "1.3,join,5"),
        )
        for said in (r"peer 1 +kill", r"peer 0 +kill", r"peer 4 +join", r"peer 5 +join"):
            self.assertRegex(out, said)

    def test_peers_die_and_come_that_share_a_line(self):
        out = self.assert_undisturbed(
            *sites(up_mbps=20, mbps=15),
            *self.trace("0.6,kill,1", "0.9,kill,2", "1.1,join,4", "1.3,join,6"),
        )
        for said in (r"peer 1 +kill", r"peer 2 +kill", r"peer 4 +join", r"peer 6 +join"):
            self.assertRegex(out, said)


@unittest.skipUnless(MPIRUN, "there is no mpirun")
@unittest.skipUnless(reports_deaths(), "this MPI reports no deaths")
class KilledAtASite(DisturbedSwarmTest):
    """Ranks that share a line with others, until they are killed or stopped."""

    settings = ("train.steps=100", "output.checkpoint_every=10", "output.validate_every=0")

    def test_the_others_go_on(self):
        self.add_to_deck(DEVICES)
        shared = sites(up_mbps=40, mbps=30)
        swarm, pids, run = self.started("sites", "compute.fidelity=emulated", *shared)
        os.kill(pids[1], signal.SIGKILL)
        self.wait_for_checkpoint("sites", 50, swarm)
        os.kill(pids[2], signal.SIGSTOP)
        out = self.assert_undisturbed(swarm, run)
        self.assertRegex(out, r"peer 2 +kill")


@unittest.skipUnless(MPIRUN, "there is no mpirun")
class Hollow(EmulatedTest):
    """Peers that compute nothing: wide stages fit, and nothing can be taken for learning."""

    settings = ("train.steps=20", "output.checkpoint_every=5", "output.validate_every=0")

    def hollow(self, *settings, ranks=4):
        """What a swarm said whose kernels are none, and its run file."""
        status, out, err, run = self.swarm("compute.kernels=none", *settings, ranks=ranks)
        self.assertEqual(status, 0, out + err)
        self.assert_complete(run, out + err)
        self.assertIn("verdict      simulated, complete", out)
        return out, run

    def test_it_ends_and_says_that_nothing_was_learned(self):
        out, run = self.hollow()
        self.assertIn("loss nan", out)
        status, _, err = self.run_program("compare", run, self.reference)
        self.assertEqual(status, 2, err)
        self.assertIn("is simulated and", err)
        self.assertEqual(self.run_program("compare", run, run)[0], 0)

    @unittest.skipUnless(h5py, "there is no h5py")
    def test_lines_that_peers_share_carry_as_much_as_in_virtual_time(self):
        shared = sites(up_mbps=10, mbps=6)
        out, run = self.hollow(*shared)
        arguments, simulated = self.training(
            "simulated", *self.settings, *shared, "swarm.stages=2", "swarm.peers=4",
            "compute.kernels=none", "compute.fidelity=emulated", quiet=False,
        )
        status, known, err = self.run_program("simulate", *arguments[1:])
        self.assertEqual(status, 0, err)
        self.assertGreater(seconds(out), 0.95 * seconds(known))
        real_s, known_s = median_step_s(run), median_step_s(simulated)
        print(f"a step takes {real_s:.3f} s, in virtual time {known_s:.3f} s", flush=True)
        self.assertGreater(real_s, 0.95 * known_s)
        self.assertLess(real_s, 1.2 * known_s)

    def test_wide_stages_fit(self):
        self.hollow("model.width=4096", "model.heads=32", "train.steps=3", ranks=8)

    def test_peers_die_and_come(self):
        out, _ = self.hollow(
            "train.steps=300", *self.trace("0.3,kill,1", "0.5,kill,0", "0.6,join,4", "0.8,join,5")
        )
        for said in (r"peer 1 +kill", r"peer 0 +kill", r"peer 4 +join", r"peer 5 +join"):
            self.assertRegex(out, said)

    def test_a_stage_that_is_lost_goes_back_to_the_checkpoint(self):
        out, _ = self.hollow(
            "train.steps=300",
            *self.trace("0.5,kill,0", "0.5,kill,2"),
            "swarm.spares=2",
            ranks=6,
        )
        self.assertRegex(out, r"incarnation")

    def test_it_is_not_resumed(self):
        self.hollow()
        arguments, _ = self.training(
            *("swarm", *self.settings, "compute.fidelity=emulated", "compute.kernels=none"),
            resume=self.path("swarm", "RUN.checkpoints"),
        )
        status, _, err = self.run_program(*arguments)
        self.assertEqual(status, 2, err)
        self.assertIn("computed nothing that could be resumed", err)


class WithoutEmulation(SwarmpiTest):
    def test_devices_have_no_effect_and_that_is_said(self):
        self.add_to_deck(DEVICES)
        arguments, _ = self.training("run", "train.steps=4")
        status, _, err = self.run_program(*arguments)
        self.assertEqual(status, 0, err)
        self.assertRegex(err, r"warning: .*devices.slow: of no effect")


if __name__ == "__main__":
    unittest.main()
