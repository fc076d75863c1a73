#!/usr/bin/env python3
"""What happens when jobs, disks and hosts hang, and after how many seconds, at a deck's default
times: each case is a swarm of its own.

usage: hang_times.py [--list] [--only REGEX] [--ranks-at-once N] [--record FILE.json]
Times count from the moment at which the first rank hangs, until the line of an event has come
through mpirun. Every run, or where it has ended early the run that resumes it, is compared bitwise
with that of one process that nobody disturbs. Devices are emulated, so that cores are idle; cases
run side by side, --ranks-at-once ranks at a time.
The program is $SWARMPI, the library that makes calls hang $HANGING_CALLS; needs an Open MPI with
ULFM, and root for hosts and for file systems that are frozen. Takes about three quarters of an
hour: by hand, not in CTest. The table stands in docs/faults.md (generated_docs.py --write).
Exit status: 1 if a case has not ended as it must.
"""

import argparse
import concurrent.futures
import dataclasses
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where harness/ is

from harness import emulated_hosts, frozen_disks, journal, program, record
from harness.hanging_calls import DATA, JOURNAL, MANIFEST, PART, HangingCalls
from harness.markdown import cell, table
from harness.processes import children, lives, wait_for
from harness.program import BINARY
from harness.swarm import Swarm, reports_deaths

FIRST_CHECKPOINT = 20
SETTINGS = (
    "train.steps=300",
    f"output.checkpoint_every={FIRST_CHECKPOINT}",
    "output.validate_every=0",
)
EMULATED = ("compute.fidelity=emulated", "swarm.stages=2")
OVERHEAD_S = 2e-3
# Stages by rank: each has a second replica; only the leader, or only rank 1, serves its stage.
TWO_EACH, LEADER_ALONE, WORKER_ALONE = (0, 1, 0, 1), (0, 1, 1), (0, 1, 0)
HOSTS, RANKS_OF_A_HOST = 3, 2
# On these hosts: rank 1 alone serves its stage.
ALONE_ON_HOSTS = (0, 1, 0, 0, 0, 0)
AWAY_CALLS = "stat fsync pwrite open"
STOP_AFTER_S = 10
MOST_TO_STOP_S = 45  # three waits of 10 s, and 10 s for a thread that hangs
DEADLINE_S = 1000  # a job that hangs alone ends the run after 600 s
# mpirun waits for ranks whose calls do not return, or that are stopped, and is waited for so long.
PATIENCE_WITH_MPIRUN_S, PATIENCE_WITH_THE_STOPPED_S = 60, 5
# What is said of it on stderr.
HANGS = re.compile(r"swarmpi: warning: (?:\w[\w ]* of )?peer (\d+) (hangs: |does not answer)(.*)")
EVENT = re.compile(r" *\d+\.\d\d s  (?:step (-?\d+)|) +(?:peer (\d+)|) +(?:stage (\d+)|) +")
# Events that are recorded, in the words of the table.
TOLD = {
    "late": "peer {peer} late",
    "suspect": "peer {peer} suspected",
    "kill": "peer {peer} lost",
    "leader": "peer {peer} leads",
    "dropped": "checkpoint dropped",
    "incarnation": "back to a checkpoint",
    "notice": "peer {peer} asked to stop",
}

stopping = threading.Event()  # the user wants no more


@dataclasses.dataclass(frozen=True)
class Case:
    """What is done to a swarm, and how it must end."""

    what: str
    where: str
    pins: tuple = TWO_EACH
    calls: tuple = ()  # (calls, name of the files): they hang at `ranks`, else at all
    ranks: tuple = None
    frozen: str = None  # the folder below that of the run that lies on a frozen disk
    stopped: tuple = ()  # these ranks
    cut: int = None  # the number of this host
    lasts_s: float = None  # None: until the run is over
    kills_leader: bool = False  # in the beginning
    on_hosts: bool = False
    told_to_stop: bool = False
    status: int = 0
    lost: int = 0  # None: as it comes

    @property
    def swarm_size(self):
        return HOSTS * RANKS_OF_A_HOST if self.on_hosts else len(self.pins)

    @property
    def replicas(self):
        alone = (LEADER_ALONE, WORKER_ALONE, ALONE_ON_HOSTS)
        return "no" if self.pins in alone else "yes"

    @property
    def name(self):
        alone = "" if self.replicas == "yes" else ", no other replica"
        return f"{self.what}, {self.where}{alone}" + (", USR1" if self.told_to_stop else "")


def at_both(what, calls, **expected):
    """Cases of calls that hang at the leader or elsewhere, with and without another replica."""
    return [
        Case(what, where, pins, calls=calls, ranks=(rank,), **expected)
        for where, rank, alone in (("leader", 0, LEADER_ALONE), ("worker", 1, WORKER_ALONE))
        for pins in (TWO_EACH, alone)
    ]


def unless_replicated(cases, **expected):
    """The same cases, where those of a stage without another replica are expected to end so."""
    return [
        case if case.pins == TWO_EACH else dataclasses.replace(case, **expected) for case in cases
    ]


def at_leader(what, calls):
    """Cases of what only a leader does."""
    return [
        Case(what, "leader", pins, calls=calls, ranks=(0,)) for pins in (TWO_EACH, LEADER_ALONE)
    ]


def jobs():
    return unless_replicated(at_both("job", ("stat", DATA), lost=1), lost=0, status=3)


def of_all():
    away = (AWAY_CALLS, None)  # whatever lies in the folder of the run
    return [
        Case("the file server is away for 100 s", "all", calls=away, lasts_s=100, on_hosts=True),
        Case("the file server is away for ever", "all", calls=away, status=3),
        Case("frozen file system under the checkpoints", "all", frozen="RUN.checkpoints", status=3),
        Case("frozen file system under run file and checkpoints", "all", frozen="", status=3),
        Case("all processes are stopped for 60 s", "all", stopped=(0, 1, 2, 3), lasts_s=60),
        *(
            Case(what, where, stopped=ranks, lasts_s=60, on_hosts=True)
            for what, where, ranks in (
                ("a host is stopped for 60 s", "leader", (0, 3)),
                ("a host is stopped for 60 s", "worker", (1, 4)),
            )
        ),
        # TCP heals connections one by one: who speaks on one only may be killed.
        *(
            Case("a host is cut off for 60 s", at, cut=host, lasts_s=60, on_hosts=True, lost=None)
            for at, host in (("leader", 0), ("worker", 1))
        ),
    ]


def of_hosts_at_a_stop():
    """A host that does not go on before the run is over."""
    stops = {"told_to_stop": True, "status": 3, "on_hosts": True}
    return [
        Case("a host is stopped", "leader", stopped=(0, 3), **stops),
        Case("a host is stopped", "worker", stopped=(1, 4), **stops),
        Case("a host is stopped", "worker", ALONE_ON_HOSTS, stopped=(1, 4), **stops),
    ]


def all_cases():
    """Those that take longest come first."""
    # Where nobody can write it the last checkpoint, too, is missing at the end.
    parts = unless_replicated(
        at_both("write of a part of a checkpoint", ("pwrite", PART)), status=3
    )
    leaders = [
        *at_leader("sync of the journal", ("fsync", JOURNAL)),
        *at_leader("sync of the manifest", ("fsync", MANIFEST)),
    ]
    terms = [
        Case(
            "creation of the next term, the leader was killed",
            "successor",
            pins,
            calls=("create", JOURNAL + "/term-"),
            ranks=(1,),
            kills_leader=True,
            lost=1,
        )
        for pins in (TWO_EACH, LEADER_ALONE)
    ]
    created = unless_replicated(
        at_both("creation of a part of a checkpoint", ("create", PART)), status=3
    )
    everywhere = of_all()
    hangs = [*jobs(), *parts, *created, *leaders, *terms, *everywhere]
    stops = [
        dataclasses.replace(case, told_to_stop=True, status=3, lost=0)
        for case in (*jobs(), *parts, *leaders, *everywhere[1:4])
    ]
    stops += of_hosts_at_a_stop()
    return sorted([*hangs, *stops], key=lambda case: (case.what != "job", case.told_to_stop))


def steps_in(path):
    """How many rows of steps a file of the journal has."""
    return sum(kind == journal.STEP for kind, _ in journal.records(path))


class Trial:
    """One case, in a folder of its own."""

    def __init__(self, case, folder):
        self.case = case
        self.folder = folder
        self.run = os.path.join(folder, "run", "RUN.h5")
        self.checkpoints = os.path.join(folder, "run", "RUN.checkpoints")
        self.deck, _ = program.write_deck(
            folder, program.slow_devices(OVERHEAD_S, case.swarm_size)
        )
        calls, file = case.calls or ("", "")
        self.calls = HangingCalls(
            os.path.join(folder, "hangs"), calls, folder if file is None else file, case.ranks
        )
        self.mark = os.path.join(folder, "swarm")
        self.pids = {}  # of the ranks
        self.hosts = self.swarm = self.disk = self.begun = self.ended = None
        self.frozen = self.held_mpirun = False
        self.lines = []  # with the time of each
        self.loads = []
        # Rows of steps in the journal, since when, and the longest time without a new one.
        self.steps, self.grown, self.longest_s = 0, time.time(), 0

    def result(self, reference):
        """What has happened, as a row of the record."""
        try:
            self.prepare()
            with self.start() as self.swarm:
                try:
                    self.disturb()
                    self.wait_for_end()
                finally:
                    self.go_on()
            return self.row(reference)
        finally:
            self.clear_up()

    def row(self, reference):
        complete = os.path.exists(self.run + ".journal/complete")
        row = {
            "what": self.case.what,
            "where": self.case.where,
            "other_replica": self.case.replicas,
            "told_to_stop": self.case.told_to_stop,
            "complete": complete,
            "mpirun_status": self.swarm.returncode,
            "end_s": self.since_begun(self.ended),
            "held_mpirun": self.held_mpirun,
            "events": self.events(),
            "said": self.complaints(),
            "no_step_for_s": round(self.longest_s, 1),
            "last_checkpoint": self.last_checkpoint(),
            "lost": self.lost(),
            "load": round(max(self.loads), 1),
            "equal": self.equals(reference, complete),
        }
        row["as_expected"] = self.as_expected(row)
        return row

    # ---- The swarm

    def prepare(self):
        os.makedirs(os.path.dirname(self.run))
        if self.case.frozen is not None:
            folder = os.path.join(os.path.dirname(self.run), self.case.frozen)
            shutil.rmtree(folder, ignore_errors=True)
            self.disk = frozen_disks.make(folder, os.path.join(self.folder, "image"))
        if self.case.on_hosts:
            self.hosts = emulated_hosts.EmulatedHosts(self.folder, HOSTS)

    def start(self):
        default = self.hosts and self.case.pins == TWO_EACH
        pins = [] if default else [f"swarm.pins={list(self.case.pins)}"]
        settings = (*SETTINGS, *EMULATED, *pins)
        arguments = program.train_arguments(self.deck, self.run, *settings, quiet=False)
        placed = self.hosts.options(RANKS_OF_A_HOST, self.mark) if self.hosts else {"bind": False}
        return Swarm(
            self.case.swarm_size,
            [*self.calls.command(), BINARY, *arguments],
            stderr=subprocess.STDOUT,
            on_line=self.hear,
            deadline_s=DEADLINE_S,
            **placed,
        )

    def hear(self, line):
        self.lines.append((time.time(), line.rstrip("\n")))

    def is_over(self):
        return stopping.is_set() or self.swarm.poll() is not None

    def wait_for(self, condition, what, timeout_s):
        """Like that of harness.processes, but returns as well when the swarm has ended."""
        wait_for(lambda: self.is_over() or condition(), what, timeout_s)

    def sleep(self, until):
        """Looks meanwhile at the machine's load, and whether steps are made."""
        while time.time() < until and not self.is_over():
            self.loads.append(os.getloadavg()[0])
            self.look_at_journal()
            time.sleep(min(0.1, max(0, until - time.time())))

    def steps_made(self):
        return sum(map(steps_in, Path(self.run + ".journal").glob("term-*")))

    def look_at_journal(self):
        steps = self.steps_made()
        if steps != self.steps:
            self.steps, self.grown = steps, time.time()
        self.longest_s = max(self.longest_s, time.time() - self.grown)

    # ---- What is done to it

    def disturb(self):
        first = os.path.join(self.checkpoints, f"step-{FIRST_CHECKPOINT}", "manifest")
        self.wait_for(lambda: os.path.exists(first), "the first checkpoint", 60)
        self.pids = emulated_hosts.marked(self.mark) if self.hosts else self.swarm.ranks()
        if set(self.pids) != set(range(self.case.swarm_size)):
            raise RuntimeError("the swarm has ended too early")
        if self.case.stopped and self.case.told_to_stop:  # there is more to save
            self.wait_for(lambda: self.steps_made() > FIRST_CHECKPOINT + 3, "more steps", 60)
        self.begin()
        if self.case.told_to_stop:
            self.sleep(self.begun + STOP_AFTER_S)
            os.kill(children(self.swarm)[0], signal.SIGUSR1)
        if self.case.lasts_s is not None:
            self.sleep(self.begun + self.case.lasts_s)
            self.go_on()

    def begin(self):
        if self.case.calls:
            self.calls.begin()
        if self.case.kills_leader:
            os.kill(self.pids[0], signal.SIGKILL)
        if self.disk:
            frozen_disks.freeze(self.disk)
            self.frozen = True
        for rank in self.case.stopped:
            os.kill(self.pids[rank], signal.SIGSTOP)
        if self.case.cut is not None:
            self.hosts.cut(self.hosts.names[self.case.cut])
        self.begun = time.time()
        if self.case.calls:
            self.wait_for(self.calls.begun, "a rank that hangs", 60)
            self.begun = min(self.calls.begun().values())
        self.grown = self.begun
        self.loads.append(os.getloadavg()[0])

    def go_on(self):
        self.calls.end()
        if self.frozen:
            frozen_disks.thaw(self.disk)
            self.frozen = False
        for rank in self.case.stopped:
            if rank in self.pids and lives(self.pids[rank]):
                os.kill(self.pids[rank], signal.SIGCONT)
        if self.case.cut is not None:
            self.hosts.heal(self.hosts.names[self.case.cut])

    def wait_for_end(self):
        """What keeps processes, and so mpirun, ends at last: they thaw, or go on."""
        holds = self.frozen or (self.case.stopped and self.case.lasts_s is None)
        patience_s = PATIENCE_WITH_MPIRUN_S if self.frozen else PATIENCE_WITH_THE_STOPPED_S
        while not self.is_over():
            self.sleep(time.time() + 1)
            if time.time() > self.begun + DEADLINE_S:
                raise TimeoutError(f"no end after {DEADLINE_S} s")
            if holds and self.told_the_end() < time.time() - patience_s:
                self.held_mpirun, holds = True, False
                self.go_on()
        if stopping.is_set():
            raise InterruptedError("stopped by the user")
        self.ended = self.told_the_end() if self.held_mpirun else time.time()
        self.swarm.wait(DEADLINE_S)
        self.swarm.reader.join(DEADLINE_S)

    def told_the_end(self):
        """When it said what is said at the end; in the future if it has not."""
        last = re.compile(r"swarmpi: (?!warning)|lost |verdict")
        said = [at for at, line in self.lines if last.match(line)]
        return min(said, default=float("inf"))

    def clear_up(self):
        if self.hosts:
            emulated_hosts.end_marked(self.mark)
            self.hosts.remove()
        if self.disk:
            frozen_disks.remove(self.disk)

    def since_begun(self, at):
        return round(at - self.begun, 1)

    # ---- What has become of it

    def events(self):
        """Those that were told since it began."""
        found = []
        for at, line in self.lines:
            head, hangs = EVENT.match(line), HANGS.match(line)
            if hangs and at >= self.begun:
                event = {"at_s": self.since_begun(at), "kind": "late", "peer": int(hangs[1])}
                found.append({**event, "stage": None, "detail": (hangs[2] + hangs[3]).strip()})
            if not head or at < self.begun:
                continue
            kind, _, detail = line[head.end() :].partition(" ")
            if kind in TOLD:
                peer = int(head[2]) if head[2] else None
                stage = int(head[3]) if head[3] else None
                event = {"at_s": self.since_begun(at), "kind": kind, "peer": peer}
                found.append({**event, "stage": stage, "detail": detail.strip()})
        return found

    def complaints(self):
        said = (
            line
            for _, line in self.lines
            if line.startswith("swarmpi: ") and not HANGS.match(line)
        )
        return list(dict.fromkeys(line.replace(self.folder + "/", "") for line in said))

    def lost(self):
        return sorted({event["peer"] for event in self.events() if event["kind"] == "kill"})

    def last_checkpoint(self):
        """Its step; before a run is resumed."""
        manifests = Path(self.checkpoints).glob("step-*/manifest")
        return max((int(path.parent.name.removeprefix("step-")) for path in manifests), default=-1)

    def equals(self, reference, complete):
        """Whether all losses are those of the reference, of the resumed run where it is none."""
        if not complete:
            arguments = program.train_arguments(self.deck, self.run, *SETTINGS)
            resumed = program.run(*arguments, "--resume", self.checkpoints, check=False)
            if resumed.returncode != 0:
                self.hear("resume: " + resumed.stderr)
                return False
        return program.run("compare", reference, self.run, check=False).returncode == 0

    def as_expected(self, row):
        case = self.case
        status_fits = row["complete"] if case.status == 0 else row["mpirun_status"] == case.status
        in_time = not case.told_to_stop or row["end_s"] < STOP_AFTER_S + MOST_TO_STOP_S
        lost_fits = case.lost is None or len(row["lost"]) == case.lost
        return row["equal"] and status_fits and in_time and lost_fits


# ---- All of them


class Room:
    """For so many ranks at a time, and for one case on hosts."""

    def __init__(self, ranks):
        self.ranks = self.left = ranks
        self.hosts_taken = False
        self.changed = threading.Condition()

    def enter(self, case):
        def fits():
            return case.swarm_size <= self.left and not (case.on_hosts and self.hosts_taken)

        with self.changed:
            self.changed.wait_for(lambda: stopping.is_set() or fits())
            if stopping.is_set():
                raise InterruptedError("stopped by the user")
            self.left -= case.swarm_size
            self.hosts_taken |= case.on_hosts
            return self.ranks - self.left

    def leave(self, case):
        with self.changed:
            self.left += case.swarm_size
            self.hosts_taken &= not case.on_hosts
            self.changed.notify_all()


def measured(case, room, reference):
    """The row of a case; None if it could not be measured, which is said."""
    beside = room.enter(case)
    try:
        with tempfile.TemporaryDirectory(
            prefix="swarmpi-hangs-", ignore_cleanup_errors=True
        ) as folder:
            trial = Trial(case, folder)
            row = {**trial.result(reference), "ranks_at_start": beside}
    except Exception as error:  # the others go on
        said = "\n".join(line for _, line in trial.lines)
        print(f"FAILED {case.name}: {error!r}\n{said}", flush=True)
        return None
    finally:
        room.leave(case)
    verdict = "good" if row["as_expected"] else "NOT AS EXPECTED"
    print(f"{verdict}: {case.name}: {story(row)}; {end_of(row)}", flush=True)
    if not row["as_expected"]:
        print("\n".join(line for _, line in trial.lines), flush=True)
    return row


def story(row):
    """The events of a row in a line, with the seconds after which each was told first."""
    told = {}
    for event in row["events"]:
        told.setdefault(TOLD[event["kind"]].format(**event), event["at_s"])
    return "; ".join(f"{what} {at_s:g}" for what, at_s in told.items())


def end_of(row):
    """How and when the run of a row has ended."""
    what = "a thaw" if "frozen" in row["what"] else "the stopped"
    waits = f"; mpirun waited for {what}" if row["held_mpirun"] else ""
    if not row["complete"]:
        says_why = any("there is no checkpoint" in line for line in row["said"])
        without = ", says why there is no newer checkpoint" if says_why else ""
        return f"status {row['mpirun_status']} after {row['end_s']:g}{without}, resumed{waits}"
    return f"complete after {row['end_s']:g}; no step for {row['no_step_for_s']:g}{waits}"


def shown(rows):
    """The rows of a record as a Markdown table; all numbers are seconds, or peers."""
    return table(
        ("what hangs", "where", "other replica", "what happens after", "the run", "lost", "bits"),
        [
            (
                cell(row["what"]) + (f"; USR1 after {STOP_AFTER_S}" if row["told_to_stop"] else ""),
                row["where"],
                row["other_replica"],
                cell(story(row)),
                cell(end_of(row)),
                str(len(row["lost"])),
                "equal" if row["equal"] else "NOT EQUAL",
            )
            for row in rows
        ],
    )


def cannot_run(case):
    """Why a case cannot be measured here; "" if it can."""
    if case.on_hosts and emulated_hosts.missing():
        return emulated_hosts.missing()
    return frozen_disks.missing() if case.frozen is not None else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="name the cases")
    parser.add_argument("--only", default="", help="cases whose names match")
    parser.add_argument("--ranks-at-once", type=int, default=8)
    record.add_option(parser)
    options = parser.parse_args()
    cases = [case for case in all_cases() if re.search(options.only, case.name)]
    if options.list:
        print("\n".join(case.name for case in cases))
        return 0
    if not reports_deaths():
        print("not measured: there is no MPI that reports deaths")
        return 77
    for case in cases:
        if cannot_run(case):
            print(f"not measured: {case.name}: {cannot_run(case)}")
    cases = [case for case in cases if not cannot_run(case)]
    room = Room(options.ranks_at_once)
    with tempfile.TemporaryDirectory(prefix="swarmpi-hangs-") as folder:
        deck, _ = program.write_deck(folder)
        reference = os.path.join(folder, "RUN.h5")
        program.run(*program.train_arguments(deck, reference, *SETTINGS))
        with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
            try:
                rows = list(pool.map(lambda case: measured(case, room, reference), cases))
            except BaseException:
                stopping.set()
                raise
    rows = [row for row in rows if row]
    good = [row for row in rows if row["as_expected"]]
    print(f"{shown(rows)}\n{len(cases)} cases, {len(good)} as expected")
    record.write(
        options.record,
        "What happens when jobs, disks and hosts hang, at a deck's default times; seconds since "
        "the first rank hangs.",
        {
            "cases": len(cases),
            "as_expected": len(good),
            "ranks_at_once": options.ranks_at_once,
            "largest_load": max((row["load"] for row in rows), default=0),
        },
        rows,
    )
    return 0 if len(good) == len(cases) else 1


if __name__ == "__main__":
    sys.exit(main())
