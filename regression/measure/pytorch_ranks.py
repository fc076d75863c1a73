#!/usr/bin/env python3
"""Training speed and memory of several ranks of this machine beside PyTorch's over gloo, in fp32.

usage: pytorch_ranks.py --python PYTHON [--ranks N] [--shape a|b|c|d] [--microbatches N]
                        [--rounds N] [--steps N] [--only NAME ...] [--record FILE.json]

By turns, each on as many ranks with one thread each: the methods data_parallel and zero_offload of
swarmpi, and PyTorch's ddp, zero, fsdp and fsdp_gradients (pytorch_ranks_peer.py says what they
are); --only: some of these. All train one of the models of pytorch_speed.py with AdamW and the same
number of microbatches a step, which the ranks share evenly; nothing is clipped. PYTHON is one that
can import torch (tried with 2.15); the same mpirun starts both, and binds nobody to a core. A
step's time is that on the wall, the median of a run; the ratios are of one round each.

PyTorch is given a malloc that keeps its pages, fused AdamW and gradients that are views of buckets.
Memory is the largest peak of a rank: of SwarMPI the most that it ever took, of PyTorch, whose
libraries are included, the least of all rounds and of one with the usual malloc. What `import
torch` takes is said, to be subtracted by who wants to.

$SWARMPI and $SWARMPI_MPIRUN name the program and mpirun, if they are not build/swarmpi and on PATH.
Needs h5py. What fails is named and left out, and the exit status is 1 then. No figure fails it.
"""

import argparse
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where harness/ is

from harness import program, record
from harness.program import BINARY
from harness.swarm import MPIRUN, Swarm, launch_environment
from hdf5 import h5py
from measure import pytorch_speed
from measure.memory_use import peak_bytes
from measure.pytorch_speed import MALLOC, SHAPES, Failure, note, positive

METHODS = ("data_parallel", "zero_offload")
SHARINGS = ("ddp", "zero", "fsdp", "fsdp_gradients")
PEER = Path(__file__).with_name("pytorch_ranks_peer.py")
# What is measured of a method and a way of PyTorch.
RATIOS = ("speed", "least_speed", "most_speed", "memory")
# Some ten seconds or more each.
STEPS = {"a": 40, "b": 10, "c": 5, "d": 3}
WARM_UP_STEPS = 2
LINES_OF_DATA = 20000
WATCH_EVERY_S = 0.1
DEADLINE_S = 1800
DECK = """
[model]
layers = {layers}
width = {width}
heads = {heads}
context = {context}
vocab = {vocab}
precision = "fp32"
[data]
paths = ["{data}"]
validation_fraction = 0
[train]
steps = {steps}
microbatches = {microbatches}
microbatch_size = {sequences}
lr = 3e-4
clip = 0
[compute]
threads = 1
[output]
publish_every_s = 1e6
"""


def start(options, command, tunables=None):
    """The swarm of all ranks of a command, with these tunables of malloc."""
    variables = {**launch_environment(), "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    variables.pop("GLIBC_TUNABLES", None)
    if tunables:
        variables["GLIBC_TUNABLES"] = tunables
    return Swarm(options.ranks, command, bind=False, deadline_s=DEADLINE_S, env=variables)


def peaks_of_ranks(swarm, ranks):
    """Waits for the end of a swarm; returns the peaks of its ranks in bytes."""
    pids, peaks = {}, {}
    while swarm.poll() is None:
        if len(pids) < ranks:
            pids = swarm.ranks()
        for rank, pid in pids.items():
            peaks[rank] = max(peaks.get(rank, 0), peak_bytes(pid))
        time.sleep(WATCH_EVERY_S)
    return [peaks[rank] for rank in sorted(peaks)]


def output_of(swarm):
    """Waits for the end of a swarm; returns what it has printed."""
    try:
        status, output, complaint = swarm.result(DEADLINE_S + 10)
    except TimeoutError as error:
        raise Failure(f"no end after {DEADLINE_S} s") from error
    if status != 0:
        lines = complaint.strip().splitlines() or ["it said nothing"]
        # A traceback ends with what is wrong; mpirun may add lines of its own.
        errors = [line for line in lines if line.startswith("swarmpi: ") or "Error: " in line]
        raise Failure(f"status {status}: {(errors or lines)[-1].strip()}")
    return output


def run_swarmpi(options, method):
    settings = {
        **SHAPES[options.shape]._asdict(),
        "steps": WARM_UP_STEPS + options.steps,
        "microbatches": options.microbatches,
    }
    with tempfile.TemporaryDirectory(prefix="swarmpi-ranks-") as folder:
        data = program.write_data(folder, LINES_OF_DATA)
        deck, run = (os.path.join(folder, name) for name in ("deck.toml", "RUN.h5"))
        Path(deck).write_text(DECK.format(data=data, **settings), encoding="ascii")
        command = [BINARY, *program.train_arguments(deck, run, f"swarm.method={method}")]
        with start(options, command) as swarm:
            peaks = peaks_of_ranks(swarm, options.ranks)
            output_of(swarm)
        with h5py.File(run) as file:
            ends_s = file["steps/time_s"][:].tolist()
    step_s = [after - before for before, after in zip(ends_s, ends_s[1:])][-options.steps :]
    return {"step_s": step_s, "peak_memory_bytes": peaks}


def run_pytorch(options, sharing, steps, tunables):
    settings = {
        **SHAPES[options.shape]._asdict(),
        "steps": steps,
        "microbatches": options.microbatches // options.ranks,
        "sharing": sharing,
    }
    command = [options.python, str(PEER)]
    for key, value in settings.items():
        command += [f"--{key}", str(value)]
    with tempfile.TemporaryDirectory(prefix="swarmpi-ranks-") as folder:
        command += ["--rendezvous", os.path.join(folder, "rendezvous")]
        with start(options, command, tunables) as swarm:
            output = output_of(swarm)
    try:
        return json.loads(output.splitlines()[-1])
    except (IndexError, json.JSONDecodeError) as error:
        raise Failure("it printed no JSON") from error


def run(options, name):
    """Runs it once; returns its step times and peaks, with tokens/s."""
    if name in METHODS:
        answer = run_swarmpi(options, name)
    else:
        answer = run_pytorch(options, name, options.steps, MALLOC)
    shape = SHAPES[options.shape]
    tokens = options.microbatches * shape.sequences * shape.context
    return {"tokens_per_s": tokens / statistics.median(answer["step_s"]), **answer}


def take_turns(options):
    """Returns {name: answers} of those that never failed, and {name: why} of the others."""
    answers, failures = {name: [] for name in options.only}, {}
    for number in range(options.rounds):
        for name in list(answers):
            try:
                answers[name].append(run(options, name))
            except Failure as failure:
                failures[name] = str(failure)
                del answers[name]
                note(f"{name} FAILED: {failure}")
            else:
                note(f"round {number + 1}: {name} {answers[name][-1]['tokens_per_s']:.0f} tokens/s")
    return answers, failures


def usual_malloc(options, answers):
    """The answers of PyTorch's ways with the usual malloc, in one step: more take no more."""
    found = {}
    for name in answers:
        if name in SHARINGS:
            try:
                found[name] = [run_pytorch(options, name, 1, None)]
            except Failure as failure:
                note(f"{name} with the usual malloc is left out: {failure}")
    return found


def rates(answers):
    return [answer["tokens_per_s"] for answer in answers]


def peak(name, answers, usual):
    """Bytes of the largest rank: the most of SwarMPI's rounds, the least of PyTorch's."""
    peaks = [max(answer["peak_memory_bytes"]) for answer in [*answers, *usual.get(name, [])]]
    return max(peaks) if name in METHODS else min(peaks)


def figures_of(answers, usual):
    """Speed and memory of all, and of each method over each of PyTorch's ways."""
    figures = {}
    for name, of in answers.items():
        figures[f"{name}_tokens_per_s"] = statistics.median(rates(of))
        figures[f"{name}_peak_bytes"] = peak(name, of, usual)
    for ours in (name for name in METHODS if name in answers):
        for theirs in (name for name in SHARINGS if name in answers):
            ratios = [a / b for a, b in zip(rates(answers[ours]), rates(answers[theirs]))]
            memory = figures[f"{ours}_peak_bytes"] / figures[f"{theirs}_peak_bytes"]
            of_pair = (statistics.median(ratios), min(ratios), max(ratios), memory)
            for what, ratio in zip(RATIOS, of_pair):
                figures[f"{ours}_over_{theirs}_{what}_ratio"] = ratio
    return figures


def show(options, figures, answers, imported):
    shape = SHAPES[options.shape]
    print(
        f"{options.ranks} ranks, shape {options.shape}, {options.microbatches} microbatches of "
        f"{shape.sequences} x {shape.context} tokens a step; {options.steps} steps, "
        f"{options.rounds} rounds\n\n"
        f"{'':<15}  tokens/s   least    most   peak of a rank, MiB"
    )
    for name, of in answers.items():
        print(
            f"{name:<15} {figures[f'{name}_tokens_per_s']:9.1f} {min(rates(of)):7.0f} "
            f"{max(rates(of)):7.0f} {figures[f'{name}_peak_bytes'] / 2**20:21.0f}"
        )
    print(f"\n{'':<32}   speed   least    most  memory")
    for label in (key[: -len("_memory_ratio")] for key in figures if "_memory_ratio" in key):
        ratios = [figures[f"{label}_{what}_ratio"] for what in RATIOS]
        print(f"{label.replace('_over_', ' over '):<32}", *(f"{ratio:7.2f}" for ratio in ratios))
    print(
        f"\nPyTorch {imported['version']}; `import torch` alone takes "
        f"{imported['peak_memory_bytes'] / 2**20:.0f} MiB"
    )


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", required=True, help="one that can import torch")
    parser.add_argument("--ranks", type=positive, default=2)
    parser.add_argument("--shape", choices=SHAPES, default="b")
    parser.add_argument("--microbatches", type=positive, default=8, help="of all ranks, a step")
    parser.add_argument("--rounds", type=positive, default=5)
    parser.add_argument("--steps", type=positive, help=f"default: {STEPS}")
    parser.add_argument("--only", nargs="+", choices=METHODS + SHARINGS, default=METHODS + SHARINGS)
    record.add_option(parser)
    options = parser.parse_args()
    options.steps = options.steps or STEPS[options.shape]
    if options.microbatches % options.ranks:
        parser.error("--microbatches must be a multiple of --ranks")
    return options


def measure(options):
    """Measures and prints all, writes the record; returns whether nothing failed."""
    imported = pytorch_speed.answer_of([options.python, str(pytorch_speed.PEER)])
    answers, failures = take_turns(options)
    usual = usual_malloc(options, answers)
    figures = figures_of(answers, usual)
    figures["import_torch_peak_bytes"] = imported["peak_memory_bytes"]
    show(options, figures, answers, imported)
    record.write(
        options.record,
        f"Tokens a second and peak memory of a rank on {options.ranks} ranks of one machine, fp32, "
        "one thread a rank: SwarMPI's methods beside PyTorch's over gloo, by turns.",
        figures,
        {
            "shape": {"name": options.shape, **SHAPES[options.shape]._asdict()},
            "ranks": options.ranks,
            "microbatches": options.microbatches,
            "pytorch_version": imported["version"],
            "malloc": MALLOC,
            "answers": answers,
            "usual_malloc": usual,
            "failures": failures,
        },
    )
    for name, why in failures.items():
        print(f"FAILED: {name}: {why}")
    return not failures


def main():
    options = parse_arguments()
    if not MPIRUN:
        print("not run: there is no mpirun")
        return 77
    # What runs under mpirun is ended by ours: so end it, whatever ends us.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        return 0 if measure(options) else 1
    except Failure as failure:
        sys.exit(f"pytorch_ranks.py: {options.python}: {failure}")


if __name__ == "__main__":
    sys.exit(main())
