"""The transport between real MPI processes: traffic, deaths, idleness.

transport_check tells the stories; here it is started under mpirun and what its ranks found is read.
mpirun's own status proves nothing: a rank that ended well has left a file that says so.
"""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

from harness import DEADLINE_S, MPIRUN, launch

CHECK = os.environ.get("TRANSPORT_CHECK", "build/regression/transport_check")


@unittest.skipUnless(MPIRUN, "there is no mpirun")
class TransportTest(unittest.TestCase):
    def tell(self, ranks, story, *arguments, dying=()):
        """Runs a story; returns what each surviving rank wrote, all of which must be good."""
        folder = tempfile.mkdtemp(prefix="swarmpi-transport-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        environment = dict(
            os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1"
        )
        process = subprocess.run(
            [*launch(ranks), CHECK, story, folder, *map(str, arguments)],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=DEADLINE_S + 30,
            env=environment,
            check=False,
        )
        reports = {}
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                reports[int(name.removeprefix("rank-"))] = file.read()
        said = f"status {process.returncode}\n{process.stderr}\n{process.stdout}\n{reports}"
        self.assertEqual(sorted(reports), sorted(set(range(ranks)) - set(dying)), said)
        for report in reports.values():
            self.assertTrue(report.endswith("good\n"), said)
        if not dying:
            self.assertEqual(process.returncode, 0, said)
        return reports

    def test_all_that_is_sent_arrives_whole_once_and_in_order(self):
        for ranks, messages in ((1, 50), (2, 150), (4, 150), (7, 100)):
            with self.subTest(ranks=ranks):
                self.tell(ranks, "traffic", messages, ranks)

    def test_a_killed_rank_is_reported_to_all_others_and_they_go_on(self):
        if "ulfm" not in launch(5):
            self.skipTest("this MPI does not report lost ranks")
        for victims in ((2,), (0,), (1, 3)):
            with self.subTest(victims=victims):
                reports = self.tell(5, "deaths", 2, 1, *victims, dying=victims)
                for report in reports.values():
                    self.assertEqual(report.count("was reported lost"), len(victims), report)

    def test_idle_ranks_sleep(self):
        reports = self.tell(8, "idle", 3)
        shares = [float(re.search(r"idle ([0-9.]+) %", text)[1]) for text in reports.values()]
        print(f"idle ranks: {min(shares):.2f} to {max(shares):.2f} % of a core each", flush=True)
        self.assertLess(max(shares), 2)


if __name__ == "__main__":
    unittest.main()
