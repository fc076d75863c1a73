"""Hosts on one machine, for tests: network name spaces on one bridge, each with an address and a
host name of its own, so that mpirun takes them for hosts. Needs root, iproute2 and util-linux.

A host may be behind a slow link: the program $SLOW_LINK, which needs /dev/net/tun.
"""

import collections
import functools
import os
import select
import shutil
import signal
import subprocess

from harness.processes import environment_of, runs
from harness.program import BINARY, built
from harness.swarm import launch_environment, rank_in

DEADLINE_S = 20
NETWORK = "10.78.0"
SLOW_LINK = built("slow_link", "SLOW_LINK")

# Of each direction; the round trip is twice the delay. A queue of None KB: see make_slow_link().
Link = collections.namedtuple("Link", "delay_ms rate_mbit queue_kb", defaults=(None,))


@functools.cache
def missing(slow_links=False):
    """Why there can be no such hosts here, or none behind slow links; "" if there can."""
    if os.geteuid() != 0:
        return "emulated hosts need root"
    absent = [tool for tool in ("ip", "unshare") if shutil.which(tool) is None]
    if absent:
        return "not installed: " + " ".join(absent)
    name = f"probe{os.getpid()}"
    try:
        for probe in (
            ("unshare", "-un", "true"),
            ("ip", "netns", "add", name),
            ("ip", "netns", "exec", name, "ip", "link", "add", "br0", "type", "bridge"),
        ):
            done = subprocess.run(
                probe, capture_output=True, text=True, timeout=DEADLINE_S, check=False
            )
            if done.returncode != 0:
                return f"this machine allows no hosts: {' '.join(probe)}: {done.stderr.strip()}"
    finally:
        subprocess.run(
            ["ip", "netns", "del", name], capture_output=True, timeout=DEADLINE_S, check=False
        )
    if slow_links and not opens("/dev/net/tun"):
        return "there is no /dev/net/tun"
    return ""


def opens(device):
    try:
        os.close(os.open(device, os.O_RDWR))
    except OSError:
        return False
    return True


class EmulatedHosts:
    """Their names, and what makes mpirun use them.

    `slow_links` has the Link of each host, by number, whose access to the others is slow.
    """

    def __init__(self, folder, count, slow_links=None):
        self.switch = f"sw{os.getpid()}"
        self.names = [f"host{os.getpid()}-{i}" for i in range(count)]
        self.slow_links = slow_links or {}
        self.link_programs = []
        self.agent = os.path.join(folder, "agent.sh")
        self.environment = {
            **launch_environment(),
            "PRTE_MCA_plm_ssh_agent": self.agent,
            "PRTE_MCA_prte_if_include": f"{NETWORK}.0/24",
            "OMPI_MCA_btl_tcp_if_include": f"{NETWORK}.0/24",
        }
        # What mpirun calls in place of ssh.
        with open(self.agent, "w", encoding="ascii") as file:
            file.write(
                '#!/bin/bash\nhost=$1\nshift\nexec ip netns exec "$host" '
                'unshare -u /bin/bash -c "hostname $host; $*"\n'
            )
        os.chmod(self.agent, 0o755)
        try:
            self.make()
        except BaseException:
            self.remove()
            raise

    def make(self):
        ip("netns", "add", self.switch)
        self.in_switch("link", "add", "br0", "type", "bridge")
        self.in_switch("link", "set", "br0", "up")
        for i, name in enumerate(self.names):
            ip("netns", "add", name)
            up, down = f"up{os.getpid()}-{i}", f"dn{os.getpid()}-{i}"
            if i in self.slow_links:
                self.make_slow_link(self.slow_links[i], name, up, down)
            else:
                ip(
                    *("link", "add", up, "netns", name, "type", "veth"),
                    *("peer", "name", down, "netns", self.switch),
                )
            inside = ("netns", "exec", name, "ip")
            ip(*inside, "link", "set", "lo", "up")
            ip(*inside, "addr", "add", f"{self.address(i)}/24", "dev", up)
            ip(*inside, "link", "set", up, "up")
            self.in_switch("link", "set", down, "master", "br0")
            self.in_switch("link", "set", down, "up")
            os.makedirs(f"/etc/netns/{name}")
            with open(f"/etc/netns/{name}/hosts", "w", encoding="ascii") as file:
                file.write("127.0.0.1 localhost\n")
                for j, other in enumerate(self.names):
                    file.write(f"{self.address(j)} {other}\n")

    def address(self, number):
        return f"{NETWORK}.{10 + number}"

    def make_slow_link(self, link, name, up, down):
        """A program carries its packets, and its devices are there as long as that lives.

        Its queue holds what the line carries in a round trip, so that one connection can fill it,
        where the link has no other size.
        """
        round_trip_kb = max(1, link.rate_mbit * 2 * link.delay_ms / 8)
        queue_kb = round_trip_kb if link.queue_kb is None else link.queue_kb
        numbers = [str(number) for number in (link.delay_ms, link.rate_mbit, queue_kb)]
        process = subprocess.Popen(
            [SLOW_LINK, name, up, self.switch, down, *numbers], stdout=subprocess.PIPE, text=True
        )
        self.link_programs.append(process)
        told, _, _ = select.select([process.stdout], [], [], DEADLINE_S)
        if not told or process.stdout.readline() != "ready\n":
            raise RuntimeError("there is no slow link: " + " ".join(process.args))

    def in_switch(self, *arguments):
        ip("netns", "exec", self.switch, "ip", *arguments)

    def cut(self, name):
        """No packet reaches this host any more, nor leaves it."""
        place = self.names.index(name)
        self.in_switch("link", "set", f"dn{os.getpid()}-{place}", "down")

    def heal(self, name):
        place = self.names.index(name)
        self.in_switch("link", "set", f"dn{os.getpid()}-{place}", "up")

    def launch(self, command):
        """`command` of mpirun, to be run on the first host."""
        first = self.names[0]
        script = 'hostname "$0"; exec ip netns exec "$0" "$@"'
        return ["unshare", "-u", "bash", "-c", script, first, *command]

    def options(self, ranks_of_a_host, mark, first=0):
        """What class Swarm is to be given for so many ranks on each host: see marked().

        `first`: the host of rank 0; mpirun runs on host 0.
        """
        names = self.names[first:] + self.names[:first]
        places = ",".join(f"{host}:{ranks_of_a_host}" for host in names)
        return {
            "bind": False,
            "options": ("-x", "SWARMPI_TEST", "--host", places),
            "within": self.launch,
            "env": {**self.environment, "SWARMPI_TEST": mark},
        }

    def remove(self):
        for process in self.link_programs:
            process.terminate()
            process.communicate(timeout=DEADLINE_S)
        for name in (*self.names, self.switch):
            subprocess.run(
                ["ip", "netns", "del", name], capture_output=True, timeout=DEADLINE_S, check=False
            )
            shutil.rmtree(f"/etc/netns/{name}", ignore_errors=True)


def marked(mark):
    """The process number of each rank of the swarm that was given this mark.

    The daemons of the other hosts, whose children those ranks are, do not stem from mpirun.
    """
    ranks = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        variables = environment_of(pid)
        if variables.get("SWARMPI_TEST") == mark and runs(pid, BINARY):
            ranks[rank_in(variables)] = int(pid)
    ranks.pop(None, None)
    return ranks


def end_marked(mark):
    for pid in marked(mark).values():
        os.kill(pid, signal.SIGKILL)


def ip(*arguments):
    subprocess.run(
        ["ip", *arguments], capture_output=True, text=True, timeout=DEADLINE_S, check=True
    )
