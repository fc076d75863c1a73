"""A real Slurm on this machine, to test job scripts: munge, slurmctld, and a slurmd for each node.

All nodes are at 127.0.0.1, each with a host name of its own, so that mpirun takes them for hosts
and starts its daemons through srun. Several clusters may run side by side. Partition low is
preempted by high, with a grace. Needs root and Debian's slurm-wlm and munge; what it starts lies in
one folder, and ends with stop().
"""

import os
import random
import shutil
import signal
import socket
import subprocess
import time

DEADLINE_S = 60
REVOKED_S = 2
FREEZER = "/sys/fs/cgroup/freezer"
ENDED_BADLY = ("FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL")
DAEMONS = ("munged", "slurmctld", "slurmd", "sbatch")
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={state}/munge.socket
CredType=cred/munge
StateSaveLocation={state}/ctld
SlurmctldPidFile={state}/slurmctld.pid
SlurmctldLogFile={state}/slurmctld.log
SlurmdSpoolDir={state}/spool.%n
SlurmdPidFile={state}/slurmd.%n.pid
SlurmdLogFile={state}/slurmd.%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/{track}
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=5
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
KillWait=5
PartitionName=low Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=1 GraceTime=10
PartitionName=high Nodes=ALL MaxTime=INFINITE PriorityTier=10 PreemptMode=OFF
"""


def missing():
    """Why there can be no cluster here; "" if there can."""
    if os.geteuid() != 0:
        return "a test cluster needs root"
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    absent = [daemon for daemon in DAEMONS if shutil.which(daemon, path=path) is None]
    return "not installed: " + " ".join(absent) if absent else ""


def free_port():
    """A port below those that the kernel takes for outgoing connections of other tests."""
    while True:
        port = random.randrange(10000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


class SlurmCluster:
    """`signals`: the site sends a preempted job the signal that it has asked for."""

    def __init__(self, state, nodes, signals):
        self.state = state
        # The nodes of other clusters are in the same folder of cgroups.
        self.nodes = [f"p{os.getpid()}node{i}" for i in range(nodes)]
        self.queued_at_s = None
        self.environment = {
            **os.environ,
            "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin",
            "SLURM_CONF": f"{state}/slurm.conf",
        }
        os.makedirs(f"{state}/ctld")
        os.makedirs(f"{state}/munge", mode=0o700)
        self.configure(signals)
        self.start()

    def configure(self, signals):
        self.track = track = "cgroup" if os.access(FREEZER, os.W_OK) else "linuxproc"
        text = CONFIGURATION.format(
            host=socket.gethostname().split(".")[0],
            port=free_port(),
            state=self.state,
            track=track,
        )
        if signals:
            text += "SlurmctldParameters=preempt_send_user_signal\n"
        for node in self.nodes:
            text += (
                f"NodeName={node} NodeAddr=127.0.0.1 Port={free_port()} CPUs=8 "
                "SocketsPerBoard=1 CoresPerSocket=8 ThreadsPerCore=1 State=UNKNOWN\n"
            )
        with open(f"{self.state}/slurm.conf", "w", encoding="ascii") as file:
            file.write(text)
        with open(f"{self.state}/cgroup.conf", "w", encoding="ascii") as file:
            file.write(
                "CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\nCgroupAutomount=no\n"
            )
        with open(f"{self.state}/munge/key", "wb") as file:
            os.chmod(file.name, 0o600)
            file.write(os.urandom(1024))

    def start(self):
        state = self.state
        self.run(
            *("munged", "--force", f"--socket={state}/munge.socket"),
            *(f"--key-file={state}/munge/key", f"--pid-file={state}/munged.pid"),
            *(f"--seed-file={state}/munge/seed", f"--log-file={state}/munged.log"),
        )
        self.run("slurmctld")
        for node in self.nodes:
            os.makedirs(f"{state}/spool.{node}")
            self.run("unshare", "-u", "bash", "-c", f"hostname {node}; exec slurmd -N {node}")
        self.wait_until(self.idle, "idle nodes")

    def idle(self):
        """Whether all nodes have done with all jobs."""
        idle = self.run("sinfo", "-h", "-p", "low", "-t", "idle", "-o", "%D").strip()
        return idle == str(len(self.nodes))

    def log(self):
        """The end of what the controller has written."""
        with open(f"{self.state}/slurmctld.log", encoding="utf-8", errors="replace") as file:
            return file.read()[-3000:]

    def run(self, *command, **variables):
        """Its output. Daemons go on in the background, with no hold on it."""
        done = subprocess.run(
            command,
            env={**self.environment, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
        return done.stdout

    def wait_until(self, condition, what, timeout_s=DEADLINE_S):
        end = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError(f"waited {timeout_s} s for {what}:\n{self.run('squeue')}")
            time.sleep(0.1)

    def submit(self, folder, *arguments, **variables):
        """The number of the job, which starts in `folder`."""
        command = ["sbatch", "--parsable", f"--chdir={folder}"]
        return self.run(*command, *arguments, **variables).strip().split(";")[0]

    def field_of(self, job, name):
        """What `scontrol show job` says after NAME=; "?" if nothing."""
        for field in self.run("scontrol", "show", "job", job).split():
            if field.startswith(name + "="):
                return field.partition("=")[2]
        return "?"

    def state_of(self, job):
        """RUNNING, PENDING, COMPLETED, ..."""
        return self.field_of(job, "JobState")

    def hurry(self, job):
        """Has a job that was queued again start soon: it would wait for two minutes.

        Not before its nodes have done with its last part, and not in the same second: they take the
        credential of the next for that of the last, which was revoked.
        """
        if self.state_of(job) != "PENDING" or not self.idle():
            self.queued_at_s = None
            return
        if self.queued_at_s is None:
            self.queued_at_s = time.monotonic()
        if time.monotonic() < self.queued_at_s + REVOKED_S:
            return
        try:  # refused while the controller still ends the last part
            self.run("scontrol", "update", f"jobid={job}", "StartTime=now")
        except RuntimeError:
            pass

    def wait_until_completed(self, job, timeout_s):
        """However often it is queued again. RuntimeError if it ends in another way."""

        def completed():
            self.hurry(job)
            state = self.state_of(job)
            if state in ENDED_BADLY:
                raise RuntimeError(
                    f"job {job} is {state}:\n{self.run('scontrol', 'show', 'job', job)}"
                )
            return state == "COMPLETED"

        self.wait_until(completed, f"the completion of job {job}", timeout_s)

    def stop(self):
        try:
            self.run("scancel", "--user=root")
            self.wait_until(lambda: not self.run("squeue", "-h").strip(), "the end of all jobs")
        finally:
            names = [f"slurmd.{node}" for node in self.nodes] + ["slurmctld", "munged"]
            for name in names:
                self.end(f"{self.state}/{name}.pid")
            for node in self.nodes:  # what a tracker of processes leaves
                for folder, _, _ in os.walk(f"{FREEZER}/slurm_{node}", topdown=False):
                    os.rmdir(folder)

    @staticmethod
    def end(pid_file):
        if not os.path.exists(pid_file):
            return
        with open(pid_file, encoding="ascii") as file:
            pid = int(file.read())
        for how in (signal.SIGTERM, signal.SIGKILL):
            end = time.monotonic() + 10
            try:
                os.kill(pid, how)
                while time.monotonic() < end:
                    os.kill(pid, 0)
                    time.sleep(0.05)
            except ProcessLookupError:
                return
