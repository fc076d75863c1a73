"""Tests what measure/collective_kills.py makes of lines and rows: no GPU is needed for that."""

import os
import struct
import tempfile
import unittest

from harness import journal
from harness.journal import Event, Step
from measure import collective_kills
from measure.collective_kills import Heard, Kill

BEGIN = "swarmpi: peer 0: the collective of stage 0: 4 replicas add up by it from step 3 on"
ENDED = "swarmpi: peer {}: the collective of stage 0: ended {} ms into the sums of step {}: lost"


def event(time_s, kind, step, peer=0, cost_s=0.0):
    return Event(time_s, step, kind, peer, -1, cost_s, "")


def heard(*lines):
    found = Heard()
    found.lines = list(lines)
    return found


class Kills(unittest.TestCase):
    def kill(self, at_s=100.0):
        return Kill(ranks=4, rank=2, at_s=at_s, told_s=0.2, repaired_s=0.25)

    def test_is_in_the_middle_of_sums_that_began_before_it(self):
        kill = self.kill()
        lines = heard((100.21, ENDED.format(1, 200, 9)), (100.25, ENDED.format(0, 600, 9)))
        collective_kills.find_sums(kill, lines, 200)
        self.assertTrue(kill.in_the_middle())
        self.assertEqual(kill.step, 9)
        self.assertAlmostEqual(kill.into_s, 0.35)

    def test_is_not_where_sums_may_have_begun_after_it(self):
        kill = self.kill()
        collective_kills.find_sums(kill, heard((100.21, ENDED.format(1, 200, 9))), 200)
        self.assertFalse(kill.in_the_middle())
        other = self.kill()
        collective_kills.find_sums(other, heard((300.0, ENDED.format(1, 200, 9))), 200)
        self.assertFalse(other.in_the_middle(), "it is the next one's")

    def test_counts_until_the_step_that_was_broken_off_is_committed(self):
        kill = self.kill()
        kill.step = 9
        steps = {8: Step(8, 4.9), 9: Step(9, 6.0)}
        collective_kills.find_commit(kill, steps, [event(5.0, "kill", 8, peer=2)])
        self.assertAlmostEqual(kill.committed_s, 0.2 + 1.0)

    def test_without_collectives_it_is_the_first_step_after_the_death(self):
        kill = self.kill()
        steps = {8: Step(8, 4.9), 9: Step(9, 5.5), 10: Step(10, 5.6)}
        collective_kills.find_commit(kill, steps, [event(5.0, "kill", 8, peer=2)])
        self.assertEqual(kill.step, 9)

    def test_a_death_that_the_journal_does_not_know_is_a_failure(self):
        with self.assertRaises(collective_kills.Failure):
            collective_kills.find_commit(self.kill(), {}, [event(5.0, "kill", 8, peer=1)])

    def test_undisturbed_steps_lie_between_the_beginning_and_the_kill(self):
        kill = self.kill()
        kill.step, kill.into_s = 6, 0.1
        steps = {number: Step(number, 0.5 * number) for number in range(1, 10)}
        commits = [event(0.5 * number, "commit", number, cost_s=0.4) for number in steps]
        found = collective_kills.steady_steps(heard((90.0, BEGIN)), [kill], steps, commits)
        self.assertEqual(found, [(0.5, 0.4)] * 2, "steps 4 and 5")
        found = collective_kills.steady_steps(heard((110.0, BEGIN)), [kill], steps, commits)
        self.assertEqual(len(found), 6, "to the end: nobody was killed after that")


class Journals(unittest.TestCase):
    @staticmethod
    def frame(kind, payload):
        return struct.pack("<4sIQQQ", b"SWJ4", kind, len(payload), 0, 0) + payload

    def test_of_a_step_that_terms_have_made_twice_the_newest_row_counts(self):
        def step(number, time_s):
            row = journal.STEP_ROW.pack(number, 0, 0, 0, 0, 8, time_s, 0, 0, 1, 0)
            return self.frame(journal.STEP, row)

        death = struct.pack("<dqQ4sqqdQ", 1.5, 1, 4, b"kill", 2, -1, 0, 0)
        with tempfile.TemporaryDirectory() as folder:
            for term, records in ((1, step(1, 1.0) + step(2, 2.0)), (10, step(2, 3.0))):
                with open(os.path.join(folder, f"term-{term}"), "wb") as file:
                    file.write(records + self.frame(journal.EVENT, death)[: 10 * term])
            steps, events = journal.rows(folder)
        self.assertEqual(steps, {1: Step(1, 1.0), 2: Step(2, 3.0)})
        self.assertEqual(events, [event(1.5, "kill", 1, peer=2)], "one of them is torn")


if __name__ == "__main__":
    unittest.main()
