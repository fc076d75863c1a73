#!/usr/bin/env python3
"""`swarmpi simulate` beside an independent witness: the same pipeline with churn in SimGrid.

A swarm is simulated here, and what its run file says of the size of the work (seconds of passes,
bytes of boundaries and reductions, how long newcomers take) is told to simgrid_witness.cpp, whose
network, order of work and answers to deaths are its own. Side by side: the time that all steps
take, messages a second of real time, memory.

usage: simgrid_witness.py [--cases NAME ...] [--record FILE.json]
The program is $SWARMPI, the witness $SIMGRID_WITNESS (`ninja -C build simgrid_witness`, where
SimGrid is installed). Needs h5py. Exit status: 1 if a run failed.
"""

import argparse
import collections
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where harness/ is

from harness import program, record
from harness.program import BINARY, built
from hdf5 import h5py

WITNESS = built("simgrid_witness", "SIMGRID_WITNESS")
DEADLINE_S = 590

# `faults`: (seconds, event, peer); peers that join have ids beyond the first ones.
Case = collections.namedtuple(
    "Case", "name peers stages microbatches steps gflops latency_s mbps faults"
)
DECK = """[model]
layers = 8
width = 512
heads = 8
context = 512
vocab = 256
[data]
paths = ["{data}"]
[train]
steps = {steps}
microbatches = {microbatches}
microbatch_size = 1
[swarm]
stages = {stages}
peers = {peers}
heartbeat_s = 1
suspect_after_s = 20
[output]
checkpoint_every_s = 0
[devices.one]
gflops = {gflops}
[links.one]
latency_s = {latency_s}
up_mbps = {mbps}
down_mbps = {mbps}
[[peers]]
device = "one"
link = "one"
"""
BOUNDARY_BYTES = 512 * 512 * 4


def churn(peers, deaths, period_s):
    """A death in each period, and a join half a period after it."""
    rows = []
    for i in range(deaths):
        rows.append(((i + 1) * period_s, "kill", (7 * i + 3) % peers))
        rows.append(((i + 1.5) * period_s, "join", peers + i))
    return tuple(rows)


CASES = (
    Case("eight", 8, 4, 32, 10, 200, 0.005, 200, ()),
    Case("eight-computing", 8, 4, 32, 10, 20, 0.005, 1000, ()),
    Case("sixteen-churn", 16, 4, 64, 20, 50, 0.005, 500, churn(16, 6, 30)),
    Case("hundred", 100, 4, 400, 5, 50, 0.005, 500, ()),
    Case("hundred-churn", 100, 4, 400, 10, 50, 0.005, 500, churn(100, 8, 15)),
)


def run_apart(*command):
    """Started by a shell: a process has the peak memory of the one that forked it, too."""
    return subprocess.run(
        ["sh", "-c", '"$@"; exit $?', "sh", *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


class Failure(Exception):
    """What a run did wrong."""


def write_deck(folder, case):
    data, deck = program.write_data(folder, 1000), Path(folder, "deck.toml")
    text = DECK.format(data=data, **case._asdict())
    if case.faults:
        trace = Path(folder, "trace.csv")
        rows = "".join(f"{time_s},{event},{peer}\n" for time_s, event, peer in case.faults)
        trace.write_text("time_s,event,peer\n" + rows, "ascii")
        text += f'[faults]\nmode = "emulated"\ntrace = "{trace}"\n'
    deck.write_text(text, "ascii")
    return str(deck)


def simulate(folder, case):
    """Figures, and what the witness is to know."""
    run = f"{folder}/RUN.h5"
    done = run_apart(BINARY, "simulate", write_deck(folder, case), "--out", run)
    if done.returncode != 0:
        raise Failure(done.stdout + done.stderr)
    said = re.search(r"^events +(\d+), .*, ([0-9.]+) us each$", done.stdout, re.MULTILINE)
    memory = re.search(r"^memory +([0-9.]+) (MiB|GiB)", done.stdout, re.MULTILINE)
    with h5py.File(run) as file:
        figures = {
            "makespan_s": float(file["steps/time_s"][-1]),
            "wall_s": 1e-6 * float(said[2]) * int(said[1]),
            "events": int(said[1]),
            "peak_memory_mb": float(memory[1]) * (1.048576 if memory[2] == "MiB" else 1073.74),
        }
        return figures, scene_of(case, file)


def scene_of(case, file):
    """The size of the work, from a run file: the means over all stages."""
    rows = {name: column[:] for name, column in file["peers"].items()}
    done = rows["microbatches"] > 0
    passes_s = (rows["compute_s"][done] / rows["microbatches"][done]).mean()
    # Those of the stages between others, in a step that nothing happened in: a reduction's parts go
    # to all other replicas and come back to them.
    of_step = (rows["step"] == 1) & (rows["stage"] == 1)
    replicas = int(of_step.sum())
    boundaries = 2 * BOUNDARY_BYTES * rows["microbatches"][of_step]
    reduced = (rows["bytes_sent"][of_step] - boundaries).mean() * replicas / (replicas - 1) / 2
    return {
        "peers": case.peers,
        "stages": case.stages,
        "steps": case.steps + 1,  # step 0 is one more
        "microbatches": case.microbatches,
        "window": max(2 * case.stages, case.peers),
        "forward_s": passes_s / 3,
        "backward_s": passes_s * 2 / 3,
        "boundary_bytes": BOUNDARY_BYTES,
        "reduction_bytes": reduced,
        "latency_s": 2 * case.latency_s,
        "bytes_per_s": case.mbps * 1e6 / 8,
        "join_s": joining_s(case, file["goodput"]),
    }


def joining_s(case, ledger):
    """From a newcomer's coming until it serves: the median."""
    peers, start_s = ledger["peer"][:], ledger["start_s"][:]
    newcomers = {int(peer) for peer in peers if peer >= case.peers}
    return statistics.median([start_s[peers == p].sum() for p in newcomers]) if newcomers else 0


def witness(folder, case, scene):
    """Its figures. A host of its own comes back where one has died: the one that died last."""
    path, dead = Path(folder, "scene"), []
    lines = [f"{name} {value}" for name, value in scene.items()]
    for time_s, event, peer in case.faults:
        if event == "kill":
            dead.append(peer)
        lines.append(f"{'death' if event == 'kill' else 'join'} {time_s} {dead[-1]}")
    path.write_text("\n".join(lines) + "\n", "ascii")
    done = run_apart(WITNESS, str(path))
    if done.returncode != 0:
        raise Failure(done.stderr)
    found = json.loads(done.stdout)
    if found["steps"] != scene["steps"]:
        raise Failure(f"it stood still after {found['steps']} steps\n{done.stderr[:3000]}")
    return {
        "makespan_s": found["makespan_s"],
        "wall_s": found["wall_s"],
        "messages": found["messages"],
        "peak_memory_mb": found["peak_memory_bytes"] / 1e6,
    }


def compare(case):
    with tempfile.TemporaryDirectory(prefix="swarmpi-witness-") as folder:
        ours, scene = simulate(folder, case)
        theirs = witness(folder, case, scene)
    row = {"name": case.name, **scene, "deaths": sum(e == "kill" for _, e, _ in case.faults)}
    row.update({f"swarmpi_{name}": value for name, value in ours.items()})
    row.update({f"simgrid_{name}": value for name, value in theirs.items()})
    row["difference_percent"] = 100 * (ours["makespan_s"] / theirs["makespan_s"] - 1)
    print(
        "{name}: {swarmpi_makespan_s:.1f} s, witness {simgrid_makespan_s:.1f} s "
        "({difference_percent:+.1f} %); {swarmpi_events} events in {swarmpi_wall_s:.2f} s, "
        "{simgrid_messages} messages in {simgrid_wall_s:.2f} s; {swarmpi_peak_memory_mb:.0f} and "
        "{simgrid_peak_memory_mb:.0f} MB; a newcomer takes {join_s:.2f} s".format(**row),
        flush=True,
    )
    return row


def figures_of(rows):
    figures = {}
    for row in rows:
        of = row["name"].replace("-", "_")
        for who, what in (("swarmpi", "events"), ("simgrid", "messages")):
            figures[f"{of}_{who}_makespan_s"] = row[f"{who}_makespan_s"]
            figures[f"{of}_{who}_{what}_per_s"] = row[f"{who}_{what}"] / row[f"{who}_wall_s"]
            figures[f"{of}_{who}_memory_mb"] = row[f"{who}_peak_memory_mb"]
        figures[f"{of}_difference_percent"] = row["difference_percent"]
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", default=[case.name for case in CASES])
    record.add_option(parser)
    options = parser.parse_args()
    if not os.path.exists(WITNESS):
        print(f"not run: there is no {WITNESS}")
        return 77
    rows, good = [], True
    for case in CASES:
        if case.name not in options.cases:
            continue
        try:
            rows.append(compare(case))
        except (Failure, subprocess.SubprocessError) as failure:
            print(f"{case.name} FAILED: {failure}", flush=True)
            good = False
    record.write(
        options.record,
        "The same pipeline with churn, by swarmpi simulate and by a program for SimGrid: the time "
        "that all steps take, events or messages a second of real time, memory.",
        figures_of(rows),
        rows,
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
