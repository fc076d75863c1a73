"""A slow link between emulated hosts, measured; and a swarm on three hosts, one of them behind it.

The link is the program $SLOW_LINK, the program under test $SWARMPI, its launcher $SWARMPI_MPIRUN.
"""

import ctypes
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

try:
    import h5py
except ImportError:
    h5py = None

from harness import emulated_hosts
from harness.emulated_hosts import DEADLINE_S, SLOW_LINK, EmulatedHosts, Link
from harness.hosts_case import OnHosts
from harness.processes import lives, wait_until_gone
from harness.program import built
from harness.swarm import Swarm, reports_deaths

TRANSPORT_CHECK = built("transport_check", "TRANSPORT_CHECK")
LINK = Link(delay_ms=25, rate_mbit=200)
CLONE_NEWNET = 0x40000000


class Arguments(unittest.TestCase):
    def test_mistakes_are_answered(self):
        for arguments, complaint in (
            ("a up b down 25 200", "7 arguments are needed, not 6"),
            ("a up b down soon 200 1000", 'DELAY_MS is "soon"'),
            ("a up b down -1 200 1000", 'DELAY_MS is "-1"'),
            ("a up b down 25 0 1000", 'RATE_MBIT is "0"'),
            ("a up b down 25 200 1000x", 'QUEUE_KB is "1000x"'),
            ("a sixteen-letters! b down 25 200 1000", '"sixteen-letters!" cannot be the name'),
        ):
            with self.subTest(arguments=arguments):
                answer = subprocess.run(
                    [SLOW_LINK, *arguments.split()],
                    capture_output=True,
                    text=True,
                    timeout=DEADLINE_S,
                    check=False,
                )
                self.assertEqual(answer.returncode, 2)
                self.assertIn(complaint, answer.stderr)
                self.assertIn("usage: slow_link", answer.stderr)


def most_in_a_second(arrived):
    """The most bytes that came within a second, of (when, how many by then) in order."""
    most, first = 0, 0
    for at_s, by_then in arrived:
        while at_s - arrived[first][0] > 1:
            first += 1
        most = max(most, by_then - arrived[first][1])
    return most


def enter(space):
    """This thread's network name space; sockets stay in the one where they were made."""
    with open(space, "rb") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"{space} cannot be entered")


def socket_on(host):
    own = f"/proc/self/task/{threading.get_native_id()}/ns/net"
    with open(own, "rb") as here:
        enter(f"/run/netns/{host}")
        try:
            made = socket.socket()
        finally:
            enter(f"/proc/self/fd/{here.fileno()}")
    made.settimeout(DEADLINE_S)
    return made


@unittest.skipIf(emulated_hosts.missing(True), emulated_hosts.missing(True))
class Measured(unittest.TestCase):
    """What a connection sees: the first host is near, the second behind the link."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="swarmpi-test-")
        self.addCleanup(folder.cleanup)
        self.hosts = EmulatedHosts(folder.name, 2, {1: LINK})
        self.addCleanup(self.hosts.remove)

    def connection(self, start, end):
        """Its two ends, on these hosts."""
        with socket_on(self.hosts.names[end]) as listener:
            listener.bind((self.hosts.address(end), 0))
            listener.listen()
            near = socket_on(self.hosts.names[start])
            self.addCleanup(near.close)
            near.connect(listener.getsockname())
            far, _ = listener.accept()
            self.addCleanup(far.close)
        far.settimeout(DEADLINE_S)
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return near, far

    def test_a_round_trip_takes_twice_the_delay(self):
        near, far = self.connection(0, 1)
        times_ms = []
        for _ in range(20):
            sent = time.monotonic()
            near.sendall(b"?")
            far.sendall(far.recv(1))
            near.recv(1)
            times_ms.append(1e3 * (time.monotonic() - sent))
        print(f"round trip {min(times_ms):.2f} to {max(times_ms):.2f} ms", flush=True)
        self.assertGreaterEqual(min(times_ms), 2 * LINK.delay_ms)
        # Where other programs want the cores too, some take longer.
        self.assertLess(min(times_ms), 2 * LINK.delay_ms + 5)

    def test_no_more_than_the_rate_comes_through_and_not_much_less(self):
        size_bytes = 60_000_000
        for start, end in ((0, 1), (1, 0)):
            with self.subTest(start=start, end=end):
                near, far = self.connection(start, end)
                begun = time.monotonic()
                sender = threading.Thread(target=near.sendall, args=(bytes(size_bytes),))
                sender.start()
                self.addCleanup(sender.join, DEADLINE_S)
                arrived = [(begun, 0)]  # when, and how many bytes by then
                while arrived[-1][1] < size_bytes:
                    piece = far.recv(1 << 20)
                    self.assertTrue(piece, "the other end has closed")
                    arrived.append((time.monotonic(), arrived[-1][1] + len(piece)))
                rate_mbit = 8e-6 * size_bytes / (arrived[-1][0] - begun)
                # Where other programs want the cores too, some of the time nothing is forwarded.
                best_mbit = 8e-6 * most_in_a_second(arrived)
                print(f"{rate_mbit:.0f} Mbit/s, at best {best_mbit:.0f}", flush=True)
                self.assertLess(rate_mbit, LINK.rate_mbit)
                self.assertGreater(best_mbit, 0.7 * LINK.rate_mbit)

    def test_it_ends_with_its_parent(self):
        arguments = (self.hosts.names[0], "one", self.hosts.names[1], "other", "25", "200", "1250")
        parent = subprocess.Popen(
            ["sh", "-c", '"$@" & echo $!; wait', "sh", SLOW_LINK, *arguments],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(parent.communicate)
        self.addCleanup(parent.kill)
        # The shell and the link write into the same pipe: either may be first.
        said = {parent.stdout.readline() for _ in range(2)}
        self.assertIn("ready\n", said)
        link = int((said - {"ready\n"}).pop())
        self.assertTrue(lives(link))
        parent.kill()
        wait_until_gone([link], "the link")


@unittest.skipIf(emulated_hosts.missing(True), emulated_hosts.missing(True))
class Crowded(unittest.TestCase):
    """Sixteen pairs of ranks share a line, on which each has what one of 400 has at 200 Mbit/s."""

    link = Link(delay_ms=10, rate_mbit=8, queue_kb=8000)
    ranks_of_a_host = 4
    burst_s = 4  # twice

    def assert_pings_come(self, *ways):
        folder = tempfile.mkdtemp(prefix="swarmpi-test-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        hosts = EmulatedHosts(folder, 2, {1: self.link})
        self.addCleanup(hosts.remove)
        ranks = 2 * self.ranks_of_a_host
        arguments = [TRANSPORT_CHECK, "crowded", folder, str(self.burst_s), *ways]
        options = hosts.options(self.ranks_of_a_host, folder)
        with Swarm(ranks, arguments, deadline_s=90, **options) as swarm:
            status, out, err = swarm.result(100)
        self.assertEqual(status, 0, out + err)
        found = {}
        for rank in range(ranks):
            with open(f"{folder}/rank-{rank}", encoding="utf-8") as file:
                found[rank] = file.read()
        print(*found.values(), flush=True)
        for rank, report in found.items():
            self.assertIn(f"on {hosts.names[rank % 2]}: ", report, "ranks of a host would be near")
        reports = "".join(found.values())
        ages_s = [float(age) for age in re.findall(r"pings was ([0-9.]+) s", reports)]
        carried_bytes = sum(int(size) for size in re.findall(r": ([0-9]+) bytes", reports))
        self.assertLess(max(ages_s), 2.75)  # s; by default the leader suspects after 3
        line_bytes = 2 * self.burst_s * self.link.rate_mbit * 1e6 / 8 * (len(ways) + 1)
        self.assertGreater(carried_bytes, 0.5 * line_bytes, "the line stands still")

    def test_pings_come_within_the_leaders_patience(self):
        self.assert_pings_come()

    def test_so_they_do_where_large_messages_go_both_ways(self):
        self.assert_pings_come("both")


@unittest.skipIf(emulated_hosts.missing(True), emulated_hosts.missing(True))
@unittest.skipUnless(reports_deaths(), "this MPI reports no deaths")
class BehindSlowLink(OnHosts):
    """Ranks 2 and 5 are behind the link. A step takes some ten times its delay: few will do."""

    slow_links = {2: LINK}
    settings = ("train.steps=100", "output.checkpoint_every=20", "output.validate_every=0")

    def test_ranks_of_each_host_are_killed_in_turn(self):
        swarm, pids, run = self.start_on_hosts("turn")
        os.kill(pids[5], signal.SIGKILL)
        for rank, step in ((4, 40), (0, 60)):
            self.wait_for_checkpoint("turn", step)
            os.kill(pids[rank], signal.SIGKILL)
        out = self.assert_undisturbed(swarm, run)
        print(*re.findall(r"\n(.* repair .*|tokens .*)", out), sep="\n", flush=True)
        self.assertEqual(re.findall(r"peer (\d) +kill", out), ["5", "4", "0"])
        self.assertRegex(out, r"peer 1 +leader +term 2")

    def test_all_ranks_behind_the_link_are_killed(self):
        swarm, pids, run = self.start_on_hosts("behind")
        for rank in (2, 5):
            os.kill(pids[rank], signal.SIGKILL)
        self.assert_undisturbed(swarm, run)

    def test_a_leader_behind_the_link_has_processes_started(self):
        swarm, pids, run = self.start_on_hosts("spawn", "swarm.spawn=true")
        for rank in (0, 1):
            os.kill(pids[rank], signal.SIGKILL)
        self.assert_replaced(self.assert_undisturbed(swarm, run), 2)

    @unittest.skipUnless(h5py, "there is no h5py")
    def test_the_peer_behind_the_link_counts_what_its_transfers_take(self):
        # Replicas of one stage, on a host each: a reduction moves megabytes over the link.
        big = ("model.width=256", "train.steps=6", "train.microbatches=3", "swarm.spares=3")
        arguments, run = self.training("big", "swarm.stages=1", "output.validate_every=0", *big)
        status, out, err = self.swarm_on_hosts("big", arguments).result(60)
        self.assertEqual(status, 0, out + err)
        with h5py.File(run) as file:
            rows = {name: column[:] for name, column in file["peers"].items()}
        behind = (rows["peer"] == 2) & (rows["step"] > 1)
        total = {name: column[behind].sum() for name, column in rows.items()}
        least_s = 8e-6 * total["bytes_received"] / LINK.rate_mbit
        waited_s = total["idle_s"] + total["communication_s"]
        print(
            f"{total['transfer_s']:.2f} s of transfers, {least_s:.2f} s by the link's rate, of "
            f"{waited_s:.2f} s without a job",
            flush=True,
        )
        self.assertGreater(least_s, 1)
        self.assertGreater(total["transfer_s"], 0.8 * least_s)
        self.assertLess(total["transfer_s"], waited_s)


if __name__ == "__main__":
    unittest.main()
