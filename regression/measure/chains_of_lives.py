#!/usr/bin/env python3
"""Runs that die again and again before they are complete, among files that dead runs leave.

A chain is one run of up to six lives, on one to three ranks. Each life but the last ends by a
SIGKILL: one rank dies before a drawn call of the file system (fatal_calls.cpp), the others a moment
later. Most chains have no checkpoint before the end. Files that some run of this deck may have left
are added before a life: marks, proofs, terms, temporary files, parts of checkpoints, in any
combination. No life may be refused, or hang, and the last must be complete and bitwise equal to one
undisturbed run. Numbers of terms must never fall, and each term that is over must have its mark.

usage: chains_of_lives.py [--chains N] [--minutes M] [--seed S] [--ranks LEAST MOST]
                          [--processes P] [--record FILE.json]
The program is $SWARMPI, the library $FATAL_CALLS; without an Open MPI with ULFM one rank is used.
A chain is drawn from the seed and its number. With --minutes no further chain begins after M.
Exit status: 1 a chain has failed: its folder stays, and is named.
"""

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where harness/ is

from harness import program, record
from harness.processes import end_tree, wait_for
from harness.program import BINARY, built
from harness.swarm import Swarm, reports_deaths

LIBRARY = built("libfatal_calls.so", "FATAL_CALLS")
SETTINGS = ("train.steps=24", "output.validate_every=7", "output.publish_every_s=0.1")
UPDATES = ("synchronous", "delayed")
CHECKPOINTS = ((), (), ("output.checkpoint_every=5",), ("output.checkpoint_every_s=0.3",))
MOST_LIVES = 6
LONGEST_LIFE_S = 60
SHOWN = 2000


class Failure(Exception):
    """What a chain did wrong."""


class Leftovers:
    """Adds files that a dead run of this deck may have left."""

    def __init__(self, run, rng, first_record):
        self.run, self.rng = Path(run), rng
        self.journal = Path(run + ".journal")
        self.checkpoints = Path(run.replace(".h5", ".checkpoints"))
        self.first_record = first_record
        self.added = Counter()

    def add(self, kind, path, content=""):
        if path.exists():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        self.added[kind] += 1

    def scatter(self):
        for kind in (self.marks, self.proofs, self.terms, self.ends, self.temporary, self.parts):
            if self.rng.random() < 0.4:
                kind()
        if self.rng.random() < 0.2:
            text = self.rng.choice(["", os.path.realpath(self.run)])
            self.add("owner", self.checkpoints / "owner", text)

    def term(self):
        return self.rng.randint(1, max(3, highest_term(self.journal) + 2))

    def marks(self):
        for _ in range(self.rng.randint(1, 3)):
            term = self.term()
            later = f"term {term + self.rng.randint(1, 2)}\n"
            self.add("mark", self.journal / f"over-{term}", self.rng.choice(["", later]))

    def proofs(self):
        term = self.term()
        later = f"term {term + 1}\n"
        self.add("proof", self.journal / f"proof-{term}", self.rng.choice(["", "", later]))

    def terms(self):
        """That of a leader that died as it wrote its first record."""
        half = self.first_record[: self.rng.randrange(len(self.first_record))]
        name = f"term-{highest_term(self.journal) + self.rng.randint(1, 2)}"
        self.add("term", self.journal / name, self.rng.choice([b"", half]))

    def ends(self):
        term = self.rng.randint(1, max(1, highest_term(self.journal)))
        if os.path.exists(self.journal / f"term-{term + 1}") or highest_term(self.journal) == 0:
            self.add("end", self.journal / "ended", f"run {term} term {term} status 3\nstopped\n")

    def temporary(self):
        mark = self.rng.choice(["complete", "ended", "over-1", "rows"])
        self.add("temporary", self.journal / f".{mark}.part-elsewhere-{self.term()}-0", "half")
        self.add("temporary", self.run.parent / f".{self.run.name}.part-elsewhere-1-0", "half")
        self.add("probe", self.journal / f"probe.peer-{self.rng.randint(0, 2)}")

    def parts(self):
        folder = self.checkpoints / f"step-{self.rng.randint(1, 30)}"
        if (folder / "manifest").exists():
            return
        self.add("part", folder / f"stage-0.term-{self.term()}.peer-0.h5", "half a file of HDF5")
        self.add("temporary", folder / ".manifest.part-elsewhere-1-0", "swarmpi checkpoint 3\nst")


def numbers(folder, prefix):
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return {int(name.removeprefix(prefix)) for name in names if re.fullmatch(prefix + r"\d+", name)}


def highest_term(journal):
    return max(numbers(journal, "term-"), default=0)


class Chains:
    """Makes chains in a folder of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.deck, _ = program.write_deck(folder)
        self.references, self.calls = {}, {}

    def arguments(self, run, updates, *settings):
        update = f"train.updates={updates}"
        return program.train_arguments(self.deck, run, *SETTINGS, update, *settings)

    def prepare(self, most_ranks):
        """The undisturbed runs, and how many calls a rank makes in one."""
        for updates in UPDATES:
            run = self.run_file(f"reference-{updates}")
            program.run(*self.arguments(run, updates))
            self.references[updates] = run
        for ranks in range(1, most_ranks + 1):
            for rank in range(ranks):
                run = self.run_file(f"counted-{ranks}-{rank}")
                count = os.path.join(self.folder, f"count-{ranks}-{rank}")
                status, said = self.live(
                    run, ranks, [], rank, self.fatal(run, rank, FATAL_COUNT=count), None
                )
                if status != 0:
                    raise Failure(f"an undisturbed run on {ranks} ranks: {said}")
                self.calls[ranks, rank] = int(Path(count).read_text(encoding="ascii"))
        with open(self.references["synchronous"] + ".journal/term-1", "rb") as file:
            head = file.read(1 << 16)
        self.first_record = head[: head.index(b"SWJ", 4)]

    def run_file(self, name):
        os.makedirs(os.path.join(self.folder, name))
        return os.path.join(self.folder, name, "RUN.h5")

    @staticmethod
    def fatal(run, rank, **variables):
        variables = {"FATAL_FOLDER": os.path.dirname(run) + "/", **variables}
        variables["LD_PRELOAD"] = LIBRARY
        return ["env", *(f"{name}={value}" for name, value in variables.items())]

    def live(self, run, ranks, settings, rank, prefix, mark, lingers_s=0.0, updates=UPDATES[0]):
        """One life. Returns its status, None where it was killed, and what it said."""
        os.makedirs(run.replace(".h5", ".checkpoints"), exist_ok=True)
        words = [BINARY, *self.arguments(run, updates, *settings)]
        words += ["--resume", run.replace(".h5", ".checkpoints")]
        if ranks == 1:
            done = subprocess.run(
                [*prefix, *words],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=LONGEST_LIFE_S,
                check=False,
            )
            killed = mark is not None and os.path.exists(mark)
            return None if killed else done.returncode, done.stdout + done.stderr
        if prefix:
            prefix = [*prefix[:1], f"FATAL_RANK={rank}", *prefix[1:]]
        command = [*prefix, *words]
        limits = {"bind": False, "deadline_s": LONGEST_LIFE_S}
        with Swarm(ranks, command, stderr=subprocess.STDOUT, **limits) as swarm:
            if mark is not None:
                wait_for(
                    lambda: os.path.exists(mark) or swarm.poll() is not None,
                    "a death, or the end",
                    LONGEST_LIFE_S,
                )
                if os.path.exists(mark):
                    time.sleep(lingers_s)
                    end_tree(swarm)
                    swarm.communicate(timeout=LONGEST_LIFE_S)
                    return None, ""
            status, out, _ = swarm.result(LONGEST_LIFE_S)
            return status, out

    def chain(self, seed, number, least, most):
        """One chain; returns what it was made of."""
        rng = random.Random(f"{seed} {number}")
        name = f"chain{number}"
        run = self.run_file(name)
        updates = rng.choice(UPDATES)
        settings = list(rng.choice(CHECKPOINTS))
        leftovers = Leftovers(run, rng, self.first_record)
        lives = rng.randint(2, MOST_LIVES)
        killed, said, last_term = 0, [], 0
        for life in range(1, lives + 1):
            if rng.random() < 0.4:
                leftovers.scatter()
            last_term = max(last_term, highest_term(run + ".journal"))
            ranks = rng.randint(least, most)
            stages = [f"swarm.stages={rng.randint(1, 2)}"]
            rank = rng.randrange(ranks)
            calls = self.calls[ranks, rank]
            at = rng.randint(1, calls) if rng.random() < 0.6 else int(calls ** rng.random())
            mark = os.path.join(self.folder, f"{name}-killed-{life}")
            prefix = self.fatal(run, rank, FATAL_AT=at, FATAL_MARK=mark)
            if life == lives:
                prefix, mark = [], None
            what = f"life {life} of {lives}, {ranks} ranks, rank {rank} dies before call {at}"
            lingers_s = rng.choice([0, 0.1, 1]) * rng.random()
            try:
                status, out = self.live(
                    run, ranks, settings + stages, rank, prefix, mark, lingers_s, updates
                )
            except (TimeoutError, subprocess.TimeoutExpired) as error:
                raise Failure(f"{what}: it hangs: {error}") from error
            said.append(f"{what}: status {status}")
            if status not in (None, 0):
                raise Failure("\n".join([*said, out[-SHOWN:]]))
            killed += status is None
            term = highest_term(run + ".journal")
            if term < last_term:
                raise Failure("\n".join([*said, f"term {term} after term {last_term}"]))
            last_term = term
        self.check(run, updates, said)
        shutil.rmtree(os.path.dirname(run))
        return killed, leftovers.added

    def check(self, run, updates, said):
        journal = Path(run + ".journal")
        wrong = []
        newest = highest_term(journal)
        if not (journal / "complete").exists():
            wrong.append("not complete")
        elif (journal / "complete").read_text(encoding="ascii") != f"term {newest}\n":
            wrong.append("complete names an earlier term")
        for term in sorted(numbers(journal, "term-") - {newest}):
            mark = journal / f"over-{term}"
            if not mark.exists() or not mark.read_text(encoding="ascii").startswith("term "):
                wrong.append(f"term {term} is not marked over")
        compared = program.run("compare", self.references[updates], run, check=False)
        if compared.returncode != 0:
            wrong.append(compared.stdout + compared.stderr)
        if wrong:
            raise Failure("\n".join([*said, *wrong]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chains", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ranks", type=int, nargs=2, default=(1, 3), metavar=("LEAST", "MOST"))
    parser.add_argument("--processes", type=int, default=1, metavar="P")
    record.add_option(parser)
    options = parser.parse_args()
    least, most = options.ranks if reports_deaths() else (1, 1)
    started = time.monotonic()
    folder = tempfile.mkdtemp(prefix="swarmpi-lives-")
    chains = Chains(folder)
    chains.prepare(most)

    def one(number):
        if time.monotonic() - started > options.minutes * 60:
            return None
        try:
            return chains.chain(options.seed, number, least, most)
        except Failure as failure:
            print(f"chain {number} FAILED ({folder}/chain{number}): {failure}", flush=True)
            return failure

    with ThreadPoolExecutor(options.processes) as pool:
        results = [result for result in pool.map(one, range(options.chains)) if result]
    failed = sum(isinstance(result, Failure) for result in results)
    ended = [result for result in results if not isinstance(result, Failure)]
    killed = [lives for lives, _ in ended]
    added = sum((leftovers for _, leftovers in ended), Counter())
    print(
        f"{len(results)} chains on {least} to {most} ranks, seed {options.seed}: {failed} failed, "
        f"{sum(killed)} lives killed; leftovers added: "
        + ", ".join(f"{kind} {count}" for kind, count in sorted(added.items()))
    )
    record.write(
        options.record,
        "Chains of lives that die before a drawn call of the file system, among files that dead "
        f"runs leave, compared bitwise with an undisturbed run; seed {options.seed}.",
        {
            "chains": len(results),
            "failed_chains": failed,
            "lives_killed": sum(killed),
            **{f"leftovers_{kind}": count for kind, count in sorted(added.items())},
            "wall_s": round(time.monotonic() - started),
        },
        {"lives_killed_in_chain": killed},
    )
    if not failed:
        shutil.rmtree(folder)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
