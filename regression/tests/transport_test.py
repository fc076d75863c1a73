"""The transport between real MPI processes: traffic, deaths, idleness.

transport_check has the scenarios; here they run under mpirun, and what the ranks found is read.
mpirun's own status proves nothing: a rank that ended well has left a file that says so.
"""

import os
import re
import shutil
import tempfile
import unittest

from harness.program import DEADLINE_S, built
from harness.swarm import MPIRUN, Swarm, reports_deaths

CHECK = built("transport_check", "TRANSPORT_CHECK")


@unittest.skipUnless(MPIRUN, "there is no mpirun")
class TransportTest(unittest.TestCase):
    def run_scenario(self, ranks, scenario, *arguments, dying=()):
        """Runs a scenario; returns what each surviving rank wrote, all of which must be good."""
        folder = tempfile.mkdtemp(prefix="swarmpi-transport-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        with Swarm(ranks, [CHECK, scenario, folder, *map(str, arguments)]) as swarm:
            status, out, err = swarm.result(DEADLINE_S + 30)
        reports = {}
        for name in os.listdir(folder):
            if not name.startswith("rank-"):
                continue
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                reports[int(name.removeprefix("rank-"))] = file.read()
        said = f"status {status}\n{err}\n{out}\n{reports}"
        self.assertEqual(sorted(reports), sorted(set(range(ranks)) - set(dying)), said)
        for report in reports.values():
            self.assertTrue(report.endswith("good\n"), said)
        if not dying:
            self.assertEqual(status, 0, said)
        return reports

    def test_all_that_is_sent_arrives_whole_once_and_in_order(self):
        for ranks, messages in ((1, 50), (2, 150), (4, 150), (7, 100)):
            with self.subTest(ranks=ranks):
                self.run_scenario(ranks, "traffic", messages, ranks)

    def test_a_killed_rank_is_reported_to_all_others_and_they_go_on(self):
        if not reports_deaths():
            self.skipTest("this MPI does not report lost ranks")
        for victims in ((2,), (0,), (1, 3)):
            with self.subTest(victims=victims):
                reports = self.run_scenario(5, "deaths", 2, 1, *victims, dying=victims)
                told = r"rank (\d+) was reported lost after ([0-9.]+) ms"
                after_ms = {victim: [] for victim in victims}
                for report in reports.values():
                    found = re.findall(told, report)
                    self.assertEqual(sorted(int(victim) for victim, _ in found), sorted(victims))
                    for victim, ms in found:
                        after_ms[int(victim)].append(float(ms))
                # Of several ranks one may have no core just then.
                for victim, times in after_ms.items():
                    print(f"rank {victim}: {min(times)} to {max(times)} ms", flush=True)
                    self.assertLess(min(times), 1000, f"the death of rank {victim}")

    def test_a_heartbeat_waits_behind_no_large_message_and_a_pong_does(self):
        self.run_scenario(2, "overtaking")

    def test_idle_ranks_sleep(self):
        reports = self.run_scenario(8, "idle", 3)
        shares = [float(re.search(r"idle ([0-9.]+) %", text)[1]) for text in reports.values()]
        print(f"idle ranks: {min(shares):.2f} to {max(shares):.2f} % of a core each", flush=True)
        self.assertLess(max(shares), 2)


if __name__ == "__main__":
    unittest.main()
