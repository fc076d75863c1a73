#!/usr/bin/env python3
"""Training speed beside PyTorch: three layers of 384 at context 256, fp32, one thread.

usage: pytorch_speed.py --python PYTHON [--swarmpi PROGRAM] [--rounds N] [--steps N] [--compile]

PYTHON is one that can import torch (2.0 or later). Both programs run by turns, so that a noisy
machine is as unkind to one as to the other; times are those of the process on its CPU. PyTorch is
given what makes it fast here: a malloc that keeps its pages, one thread, fused AdamW, and with
--compile also torch.compile, of which the better counts. Prints the ratio SwarMPI / PyTorch of
tokens per second, median and range over the rounds; it is a measurement, not a gate.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

LAYERS, WIDTH, HEADS, CONTEXT, BATCH, VOCAB = 3, 384, 6, 256, 4, 256
MALLOC = (
    "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=17179869184"
    ":glibc.malloc.top_pad=1073741824:glibc.malloc.hugetlb=1"
)


def build_model(torch):
    """A GPT-2-like decoder with an untied head, as plainly as PyTorch lets one write it."""
    from torch import nn
    from torch.nn import functional

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1 = nn.LayerNorm(WIDTH)
            self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
            self.out = nn.Linear(WIDTH, WIDTH)
            self.norm2 = nn.LayerNorm(WIDTH)
            self.up = nn.Linear(WIDTH, 4 * WIDTH)
            self.down = nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x):
            heads = self.qkv(self.norm1(x)).view(BATCH, CONTEXT, 3, HEADS, WIDTH // HEADS)
            q, k, v = heads.permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(BATCH, CONTEXT, WIDTH))
            hidden = functional.gelu(self.up(self.norm2(x)), approximate="tanh")
            return x + self.down(hidden)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(VOCAB, WIDTH)
            self.positions = nn.Parameter(torch.zeros(CONTEXT, WIDTH))
            self.layers = nn.Sequential(*(Layer() for _ in range(LAYERS)))
            self.norm = nn.LayerNorm(WIDTH)
            self.head = nn.Linear(WIDTH, VOCAB, bias=False)
            for parameter in self.parameters():
                if parameter.dim() > 1:
                    nn.init.normal_(parameter, std=0.02)

        def forward(self, inputs, targets):
            x = self.norm(self.layers(self.tokens(inputs) + self.positions))
            return functional.cross_entropy(self.head(x).flatten(0, 1), targets.flatten())

    return Model()


def train_in_pytorch(steps, compiled):
    """What runs under PYTHON: prints seconds a step on the CPU and on the wall."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = build_model(torch)
    try:
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1, fused=True)
        fused = True
    except (RuntimeError, ValueError):
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1)
        fused = False
    loss_of = torch.compile(model) if compiled else model
    data = torch.randint(VOCAB, (8, BATCH, CONTEXT + 1))

    def step(number):
        tokens = data[number % len(data)]
        loss = loss_of(tokens[:, :-1], tokens[:, 1:].contiguous())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    for number in range(3):
        step(number)
    cpu, wall = [], []
    for number in range(steps):
        start = time.process_time(), time.perf_counter()
        step(number)
        cpu.append(time.process_time() - start[0])
        wall.append(time.perf_counter() - start[1])
    print(
        json.dumps(
            {
                "cpu_s": statistics.median(cpu),
                "best_cpu_s": min(cpu),
                "wall_s": statistics.median(wall),
                "fused": fused,
                "version": torch.__version__,
            }
        )
    )


def answer_of(command, **environment):
    """Runs a command; returns the JSON that it prints."""
    done = subprocess.run(
        command, env=dict(os.environ, **environment), stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"pytorch_speed.py: {command[0]} ended with status {done.returncode}")
    return json.loads(done.stdout)


def run_pytorch(options, compiled):
    command = [options.python, __file__, "--as-pytorch", "--steps", str(options.steps)]
    return answer_of(command + ["--compile"] * compiled, GLIBC_TUNABLES=MALLOC)


def run_swarmpi(options):
    settings = {
        "model.layers": LAYERS,
        "model.width": WIDTH,
        "model.heads": HEADS,
        "model.context": CONTEXT,
        "model.vocab": VOCAB,
        "model.precision": "fp32",
        "train.microbatches": 1,
        "train.microbatch_size": BATCH,
        "train.steps": options.steps,
        "compute.kernels": "native",
        "compute.threads": 1,
    }
    command = [options.swarmpi, "bench", "model", "--json"]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    return answer_of(command)


def processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    fields = dict(line.split(":", 1) for line in reversed(lines) if ":" in line)
    fields = {key.strip(): value.strip() for key, value in fields.items()}
    flags = fields.get("flags", "").split()
    known = [flag for flag in ("avx2", "avx512f", "avx512_bf16", "amx_tile") if flag in flags]
    return f"{fields.get('model name', '?')} ({' '.join(known)})"


def show(name, rates):
    print(
        f"{name:16} median {statistics.median(rates):8.0f}  best {max(rates):8.0f}  "
        f"worst {min(rates):8.0f} tokens/s"
    )


def compare(options):
    tokens = BATCH * CONTEXT
    rates = {"SwarMPI": [], "PyTorch": []}
    if options.compile:
        rates["PyTorch compiled"] = []
    print(f"{processor()}, {os.cpu_count()} CPUs seen")
    for number in range(options.rounds):
        rates["SwarMPI"].append(tokens / run_swarmpi(options)["cpu_s_per_step_median"])
        for name in list(rates)[1:]:
            answer = run_pytorch(options, compiled=name.endswith("compiled"))
            rates[name].append(tokens / answer["cpu_s"])
            if number == 0:
                print(
                    f"{name} {answer['version']}, fused AdamW: {answer['fused']}, "
                    f"CPU / wall {answer['cpu_s'] / answer['wall_s']:.2f}"
                )
        print(
            f"round {number + 1}: "
            + ", ".join(f"{name} {rate[-1]:.0f}" for name, rate in rates.items()),
            flush=True,
        )
    for name, values in rates.items():
        show(name, values)
    best = max(list(rates)[1:], key=lambda name: statistics.median(rates[name]))
    ratios = [ours / theirs for ours, theirs in zip(rates["SwarMPI"], rates[best])]
    print(
        f"SwarMPI / {best}: {statistics.median(ratios):.2f} "
        f"({min(ratios):.2f} to {max(ratios):.2f} over {len(ratios)} rounds)"
    )


def main():
    build = Path(__file__).resolve().parent.parent / "build"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", help="a python3 that can import torch")
    parser.add_argument("--swarmpi", default=str(build / "swarmpi"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--compile", action="store_true", help="also with torch.compile")
    parser.add_argument("--as-pytorch", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.as_pytorch:
        train_in_pytorch(options.steps, options.compile)
    elif not options.python:
        parser.error("--python is needed: one that can import torch")
    else:
        compare(options)


if __name__ == "__main__":
    main()
