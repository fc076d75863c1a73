#!/usr/bin/env python3
"""Training speed and memory beside PyTorch: four shapes, fp32 and bf16, one thread.

usage: pytorch_speed.py --python PYTHON [--swarmpi PROGRAM] [--shapes abcd] [--precisions fp32,bf16]
                        [--rounds N] [--steps N] [--compile] [--record FILE.json]

PYTHON is one that can import torch (2.4 or later: fused AdamW on the CPU). All programs run by
turns, so that a noisy machine is as unkind to one as to the other; times are those of the process
on its CPU, medians over its steps. One microbatch a step.

PyTorch is given what makes it fast here: a malloc that keeps its pages, fused AdamW, in bf16 both a
bf16 copy of fp32 weights and autocast, and with --compile also torch.compile. The fastest variant
counts, by its median over the rounds. For memory the variant counts that takes least, with that
malloc or the usual one, be it the fastest or not; it is the peak of the process, PyTorch's
libraries included. What `import torch` takes is said, to be subtracted by who wants to.

--record writes all that was measured, after each shape and precision. A variant that fails is
reported and left out. No figure fails it.
"""

import argparse
import datetime
import json
import os
import signal
import statistics
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where harness/ is

from harness import record as records
from harness.program import BINARY


class Shape(NamedTuple):
    layers: int
    width: int
    heads: int
    context: int
    sequences: int
    vocab: int


SHAPES = {
    "a": Shape(4, 128, 4, 128, 8, 256),
    "b": Shape(6, 384, 6, 256, 4, 256),
    "c": Shape(12, 768, 12, 512, 1, 256),
    "d": Shape(12, 768, 12, 256, 4, 50257),
}
# Some seconds each.
STEPS = {"a": 30, "b": 8, "c": 4, "d": 3}
# What PyTorch may compute with, for each precision.
ARITHMETICS = {"fp32": ("fp32",), "bf16": ("masters", "autocast")}
MALLOC = (
    "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=17179869184"
    ":glibc.malloc.top_pad=1073741824:glibc.malloc.hugetlb=1"
)
PEER = Path(__file__).with_name("pytorch_peer.py")
DEADLINE_S = 1800
TABLE = (
    "shape precision  SwarMPI    PyTorch                       SwarMPI / PyTorch   of its    "
    "memory, MiB              SwarMPI /\n"
    "                tokens/s   tokens/s  its variant                              bound    "
    "SwarMPI PyTorch  (less*)   PyTorch"
)


class Failure(Exception):
    """A child that gives no figures; says why."""


def answer_of(command, tunables=None):
    """Runs a command on one thread; returns the JSON that it prints last."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    environment.pop("GLIBC_TUNABLES", None)
    if tunables:
        environment["GLIBC_TUNABLES"] = tunables
    # torch.compile starts processes; a group is ended as a whole.
    try:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    except OSError as error:
        raise Failure(str(error)) from error
    try:
        output, complaint = process.communicate(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired as error:
        raise Failure(f"no end after {DEADLINE_S} s") from error
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode != 0:
        last = (complaint.strip() or "it said nothing").splitlines()[-1]
        raise Failure(f"status {process.returncode}: {last}")
    try:
        return json.loads(output.splitlines()[-1])
    except (IndexError, json.JSONDecodeError) as error:
        raise Failure("it printed no JSON") from error


def run_swarmpi(program, shape, precision, steps):
    settings = {
        "model.layers": shape.layers,
        "model.width": shape.width,
        "model.heads": shape.heads,
        "model.context": shape.context,
        "model.vocab": shape.vocab,
        "model.precision": precision,
        "train.microbatches": 1,
        "train.microbatch_size": shape.sequences,
        "train.steps": steps,
        "compute.threads": 1,
    }
    command = [program, "bench", "model", "--json"]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    answer = answer_of(command)
    del answer["operations"]
    return {"tokens_per_s": answer["tokens_per_s_median"], **answer}


def run_pytorch(python, shape, variant, steps, tunables):
    arithmetic, how = variant.split()
    command = [python, str(PEER), "--arithmetic", arithmetic, "--steps", str(steps)]
    command += ["--compile"] * (how == "compiled")
    for key, value in shape._asdict().items():
        command += [f"--{key}", str(value)]
    answer = answer_of(command, tunables)
    tokens = shape.sequences * shape.context
    return {"tokens_per_s": tokens / statistics.median(answer["cpu_s"]), **answer}


def take_turns(runs, rounds, label):
    """Returns {who: answers} of those that never failed, and {who: why} of the others."""
    answers, failures = {run: [] for run in runs}, {}
    for number in range(rounds):
        for run in list(answers):
            try:
                answers[run].append(runs[run]())
            except Failure as failure:
                note(f"{label}: {run} is left out: {failure}")
                failures[run] = str(failure)
                del answers[run]
            if "SwarMPI" not in answers:
                return {}, failures  # nothing to compare with
        latest = ", ".join(f"{run} {rates(of)[-1]:.0f}" for run, of in answers.items())
        note(f"{label}, round {number + 1}: {latest} tokens/s")
    return answers, failures


def measure(options, name, precision):
    """All rounds of a shape and precision, with all answers."""
    shape, steps = SHAPES[name], options.steps or STEPS[name]
    runs = {"SwarMPI": lambda: run_swarmpi(options.swarmpi, shape, precision, steps)}
    for arithmetic in ARITHMETICS[precision]:
        for how in ["eager"] + ["compiled"] * options.compile:
            variant = f"{arithmetic} {how}"
            runs[variant] = lambda variant=variant: run_pytorch(
                options.python, shape, variant, steps, MALLOC
            )
    answers, failures = take_turns(runs, options.rounds, f"{name} {precision}")
    return {
        "shape": {"name": name, **shape._asdict()},
        "precision": precision,
        "steps": steps,
        "swarmpi": answers.pop("SwarMPI", []),
        "pytorch": answers,
        "failures": failures,
    }


def measure_memory(options, row):
    """Adds the peak of each variant with the usual malloc, in few steps: more take no more."""
    row["pytorch_usual_malloc"] = {}
    shape = SHAPES[row["shape"]["name"]]
    for variant in row["pytorch"]:
        try:
            answer = run_pytorch(options.python, shape, variant, 1, None)
            row["pytorch_usual_malloc"][variant] = answer
        except Failure as failure:
            note(f"{variant} with the usual malloc is left out: {failure}")


def rates(answers):
    return [answer["tokens_per_s"] for answer in answers]


def least_memory(row):
    """The variant of PyTorch that takes least, and its bytes."""
    peaks = {}
    for variant, answers in row["pytorch"].items():
        usual = row["pytorch_usual_malloc"].get(variant)
        peaks[variant] = min(a["peak_memory_bytes"] for a in answers + ([usual] if usual else []))
    variant = min(peaks, key=peaks.get)
    return variant, peaks[variant]


def summarize(row):
    """Adds what the table shows. The ratios are of one round each."""
    ours = row["swarmpi"]
    best = max(row["pytorch"], key=lambda v: statistics.median(rates(row["pytorch"][v])))
    theirs = row["pytorch"][best]
    ratios = [a / b for a, b in zip(rates(ours), rates(theirs))]
    variant, bytes_of_pytorch = least_memory(row)
    # The most that it ever took, beside the least that PyTorch did.
    bytes_of_swarmpi = max(answer["peak_memory_bytes"] for answer in ours)
    row["summary"] = {
        "swarmpi_tokens_per_s": statistics.median(rates(ours)),
        "pytorch_tokens_per_s": statistics.median(rates(theirs)),
        "pytorch_variant": best,
        "ratio": statistics.median(ratios),
        "ratio_min": min(ratios),
        "ratio_max": max(ratios),
        "swarmpi_memory_bytes": bytes_of_swarmpi,
        "pytorch_memory_bytes": bytes_of_pytorch,
        "pytorch_memory_variant": variant,
        "memory_ratio": bytes_of_swarmpi / bytes_of_pytorch,
    }
    shares = [answer["share_of_bound"] for answer in ours if "share_of_bound" in answer]
    if shares:
        row["summary"]["share_of_bound"] = statistics.median(shares)


def table_line(row, import_bytes):
    s = row["summary"]
    share = f"{100 * s['share_of_bound']:.0f} %" if "share_of_bound" in s else "-"
    mib = [
        size / 2**20
        for size in (
            s["swarmpi_memory_bytes"],
            s["pytorch_memory_bytes"],
            s["pytorch_memory_bytes"] - import_bytes,
        )
    ]
    return (
        f"{row['shape']['name']:<5} {row['precision']:<8} {s['swarmpi_tokens_per_s']:9.1f}  "
        f"{s['pytorch_tokens_per_s']:9.1f}  {s['pytorch_variant']:<17} "
        f"{s['ratio']:6.2f} ({s['ratio_min']:.2f} to {s['ratio_max']:.2f}) {share:>8}   "
        f"{mib[0]:8.0f} {mib[1]:7.0f}  {f'({mib[2]:.0f})':>7}  {s['memory_ratio']:8.2f}"
    )


def show(record):
    imported = record["import_torch"]
    print(TABLE)
    for row in record["rows"]:
        print(table_line(row, imported["peak_memory_bytes"]))
    print(
        f"\n* `import torch` alone takes {imported['peak_memory_bytes'] / 2**20:.0f} MiB. "
        "The variants that take least, whose memory it is:"
    )
    variants = {}
    for row in record["rows"]:
        place = f"{row['shape']['name']} {row['precision']}"
        variants.setdefault(row["summary"]["pytorch_memory_variant"], []).append(place)
    for variant, places in variants.items():
        print(f"  {variant} ({', '.join(places)})")
    print()
    for name in dict.fromkeys(row["shape"]["name"] for row in record["rows"]):
        shape = SHAPES[name]
        print(
            f"{name}: {shape.layers} layers of {shape.width}, {shape.heads} heads, "
            f"{shape.sequences} x {shape.context} tokens a step, vocabulary {shape.vocab}"
        )
    print(f"\nCPU: {record['cpu']}, {' '.join(record['cpu_flags'])}; {record['cpus']} CPUs seen")
    print(
        f"SwarMPI {record['swarmpi_version']}; PyTorch {record['pytorch_version']}, "
        f"which sees {imported['capability']}; rounds: {record['rounds']}"
    )


def note(text):
    print(text, file=sys.stderr, flush=True)


def describe(record, answer):
    """Adds the machine and SwarMPI's version, which SwarMPI itself names."""
    record["cpu"], record["cpu_flags"] = answer["cpu"], answer["cpu_flags"]
    record["swarmpi_version"] = answer["version"]


def compare(options):
    """Returns the record; --record has it too, as far as it has come."""
    imported = answer_of([options.python, str(PEER)])
    record = {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "cpus": os.cpu_count(),
        "rounds": options.rounds,
        "malloc": MALLOC,
        "import_torch": imported,
        "pytorch_version": imported["version"],
        "rows": [],
        "failed": [],
    }
    for name in options.shapes:
        for precision in options.precisions:
            row = measure(options, name, precision)
            if row["swarmpi"] and row["pytorch"]:
                measure_memory(options, row)
                summarize(row)
                record["rows"].append(row)
                describe(record, row["swarmpi"][0])
            else:
                record["failed"].append(row)
            records.write(
                options.record,
                "Speed and peak memory of one training peer beside PyTorch, on one thread.",
                figures_of(record),
                record,
                program=options.swarmpi,
            )
    return record


def figures_of(record):
    """The summaries of all rows, by shape, precision and what was measured."""
    return {
        f"{row['shape']['name']}_{row['precision']}_{name}": value
        for row in record["rows"]
        for name, value in row["summary"].items()
        if not isinstance(value, str)
    }


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", required=True, help="one that can import torch")
    parser.add_argument("--swarmpi", default=BINARY)
    parser.add_argument("--shapes", default="".join(SHAPES))
    parser.add_argument("--precisions", default=",".join(ARITHMETICS))
    parser.add_argument("--rounds", type=positive, default=3)
    parser.add_argument("--steps", type=positive, help=f"default: {STEPS}")
    parser.add_argument("--compile", action="store_true", help="also with torch.compile")
    records.add_option(parser)
    options = parser.parse_args()
    options.precisions = options.precisions.split(",")
    if not set(options.shapes) <= set(SHAPES):
        parser.error(f"--shapes: some of {''.join(SHAPES)}")
    if not set(options.precisions) <= set(ARITHMETICS):
        parser.error(f"--precisions: some of {','.join(ARITHMETICS)}")
    return options


def main():
    options = parse_arguments()
    # A group of its own gets no signal but ours: so end it, whatever ends us.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        record = compare(options)
    except Failure as failure:
        sys.exit(f"pytorch_speed.py: {options.python}: {failure}")
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    if not record["rows"]:
        sys.exit("pytorch_speed.py: nothing to compare")
    show(record)


if __name__ == "__main__":
    main()
