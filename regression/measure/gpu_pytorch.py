#!/usr/bin/env python3
"""Training speed of PyTorch on one GPU, to be compared with `swarmpi` on the same shapes.

usage: gpu_pytorch.py gpt2  [--sequences 32[,16,...]] [--microbatches 16]
                            [--variants eager,compile]
       gpu_pytorch.py stage [--layers 16] [--sequences 1[,2,...]] [--microbatches 4]
                            [--shared]
       both: [--steps 6] [--warmup 2] [--attention flash|cudnn|auto] [--json FILE] [--peak 989.5]

gpt2: the model that our decks make: GPT-2 with pre-LayerNorm (epsilon 1e-5), learned positions,
GELU in its tanh form, biases, an untied head without bias, no dropout; 12 layers of 768, 12 heads,
FFN 3072, context 1024, vocabulary 50304 by default. fp32 weights under bf16 autocast, loss of fp32
logits, gradients summed in fp32 over the microbatches, clipping, fused AdamW. A step is
`microbatches` microbatches of `sequences` sequences and one update.

stage: layers alone, without embedding and head, forward and backward pass of bf16 weights with the
gradient of the input, as in an inner stage of a pipeline: 4096 wide, 32 heads, FFN 16384, context
2048 by default. No update. --shared: one layer's weights for all layers, as ALBERT.

FLOPs are those of `swarmpi` (src/model/cost.cpp): per token 6 for each weight of a matrix but the
embeddings, and 6 * context * width for each layer's causal attention (half of the usual 12).
--region: gpt2 is compiled as a whole, stage by the layer (one compilation for all of them).
Prints a line for each variant: the median over the steps after the warm-up. Without a GPU it runs
on the CPU, to try it.
"""

import argparse
import datetime
import gc
import json
import math
import statistics
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

sys.path.append(str(Path(__file__).resolve().parents[2] / "postprocess"))

from whole_file import write_text


class Layer(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.mixed = nn.Linear(width, width)
        self.mlp_norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x):
        qkv = self.qkv(self.attention_norm(x)).unflatten(2, (3, self.heads, -1))
        q, k, v = (part.transpose(1, 2) for part in qkv.unbind(2))
        values = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.mixed(values.transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.mlp_norm(x)), approximate="tanh"))


class Layers(nn.Module):
    def __init__(self, options):
        super().__init__()
        sets = 1 if options.shared else options.layers
        self.sets = nn.ModuleList(
            Layer(options.width, options.heads, options.ffn) for _ in range(sets)
        )
        self.layers = options.layers

    def forward(self, x):
        for number in range(self.layers):
            x = self.sets[number % len(self.sets)](x)
        return x


class Model(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.tokens = nn.Embedding(options.vocab, options.width)
        self.positions = nn.Parameter(torch.empty(options.context, options.width))
        self.layers = Layers(options)
        self.norm = nn.LayerNorm(options.width)
        self.head = nn.Linear(options.width, options.vocab, bias=False)
        if options.tied:
            self.head.weight = self.tokens.weight

    def forward(self, inputs, targets):
        x = self.layers(self.tokens(inputs) + self.positions)
        logits = self.head(self.norm(x)).flatten(0, 1)
        return functional.cross_entropy(logits.float(), targets.flatten())


def initialize(model, layers):
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            narrow = name.endswith(("mixed.weight", "down.weight"))
            nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers) if narrow else 0.02)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)


def flops_per_token(options):
    weights = options.layers * (4 * options.width**2 + 2 * options.width * options.ffn)
    if options.what == "gpt2":
        weights += options.vocab * options.width
    return 6 * weights + 6 * options.context * options.width * options.layers


def as_asked(model, options, compiled):
    """Compiled as a whole, layer by layer (one compilation serves all layers), or as it is."""
    if compiled and options.region == "layer":
        for module in model.modules():
            if isinstance(module, Layer):
                module.compile(dynamic=False, mode=options.compile_mode)
    elif compiled:
        return torch.compile(model, dynamic=False, mode=options.compile_mode)
    return model


class Gpt2Steps:
    """Steps of training: M microbatches, clipping, an update."""

    def __init__(self, options, sequences, compiled):
        self.options = options
        self.device = options.device
        self.model = Model(options).to(self.device)
        initialize(self.model, options.layers)
        matrices = [p for p in self.model.parameters() if p.dim() > 1]
        vectors = [p for p in self.model.parameters() if p.dim() <= 1]
        groups = [
            {"params": matrices, "weight_decay": 0.1},
            {"params": vectors, "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, lr=6e-4, betas=(0.9, 0.95), fused=True)
        self.loss_of = as_asked(self.model, options, compiled)
        shape = (options.microbatches, sequences, options.context + 1)
        self.tokens = torch.randint(options.vocab, shape, device=self.device)

    def step(self):
        loss_sum = torch.zeros((), device=self.device)
        for part in self.tokens:
            inputs, targets = part[:, :-1].contiguous(), part[:, 1:].contiguous()
            with torch.autocast(self.device, dtype=torch.bfloat16):
                loss = self.loss_of(inputs, targets) / len(self.tokens)
            loss.backward()
            loss_sum += loss.detach()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0, foreach=True)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss_sum

    def parameters(self):
        return sum(p.numel() for p in self.model.parameters())


class StageSteps:
    """Forward and backward passes of layers alone, for M microbatches."""

    def __init__(self, options, sequences, compiled):
        self.options = options
        self.model = Layers(options)
        initialize(self.model, options.layers)
        self.model.to(options.device, torch.bfloat16)
        self.run = as_asked(self.model, options, compiled)
        shape = (sequences, options.context, options.width)
        self.x = torch.randn(shape, device=options.device).bfloat16().requires_grad_()
        self.dy = (torch.randn(shape, device=options.device) * 1e-3).bfloat16()

    def step(self):
        for _ in range(self.options.microbatches):
            y = self.run(self.x)
            y.backward(self.dy)
            self.x.grad = None
        value = y.detach().float().square().mean()
        self.model.zero_grad(set_to_none=True)
        return value

    def parameters(self):
        return sum(p.numel() for p in self.model.parameters())


def synchronize(options):
    if options.device == "cuda":
        torch.cuda.synchronize()


def measure(options, sequences, variant):
    torch.manual_seed(1)
    if options.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    steps = {"gpt2": Gpt2Steps, "stage": StageSteps}[options.what]
    steps = steps(options, sequences, variant == "compile")
    times_s, values, start_s = [], [], time.perf_counter()
    first_s = None
    for number in range(options.warmup + options.steps):
        synchronize(options)
        step_start_s = time.perf_counter()
        value = steps.step()
        synchronize(options)
        now_s = time.perf_counter()
        if number >= options.warmup:
            times_s.append(now_s - step_start_s)
        first_s = first_s or now_s - start_s
        values.append(float(value))
    tokens = options.microbatches * sequences * options.context
    step_s = statistics.median(times_s)
    flops = flops_per_token(options) * tokens
    return {
        "what": options.what,
        "variant": variant,
        "layers": options.layers,
        "width": options.width,
        "heads": options.heads,
        "ffn": options.ffn,
        "context": options.context,
        "vocab": options.vocab if options.what == "gpt2" else 0,
        "shared": options.shared,
        "attention": options.attention,
        "region": options.region if variant == "compile" else None,
        "parameters": steps.parameters(),
        "sequences": sequences,
        "microbatches": options.microbatches,
        "tokens_per_step": tokens,
        "flops_per_token": flops_per_token(options),
        "step_s": times_s,
        "step_s_median": step_s,
        "first_step_s": first_s,
        "tokens_per_s": tokens / step_s,
        "model_tflops_per_s": flops / step_s / 1e12,
        "mfu": flops / step_s / 1e12 / options.peak,
        "values": values,
        "peak_memory_bytes": (
            torch.cuda.max_memory_allocated() if options.device == "cuda" else None
        ),
    }


def line(r):
    memory = f"{r['peak_memory_bytes'] / 2**30:.1f} GiB" if r["peak_memory_bytes"] else "-"
    return (
        f"{r['what']} {r['variant']:8s} B {r['sequences']:3d} x M {r['microbatches']:3d}: "
        f"{r['tokens_per_s']:12.0f} tokens/s  {r['model_tflops_per_s']:7.1f} TFLOP/s  "
        f"MFU {100 * r['mfu']:5.1f} %  step {1e3 * r['step_s_median']:.1f} ms "
        f"({1e3 * min(r['step_s']):.1f} to {1e3 * max(r['step_s']):.1f})  "
        f"memory {memory}  first step {r['first_step_s']:.1f} s"
    )


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("gpt2", "stage"))
    for size in ("layers", "width", "heads", "ffn", "context", "microbatches"):
        parser.add_argument(f"--{size}", type=int)
    parser.add_argument("--vocab", type=int, default=50304)
    parser.add_argument("--sequences", help="of a microbatch; several with commas")
    parser.add_argument("--variants", default="eager,compile")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--attention", choices=("flash", "cudnn", "auto"), default="flash")
    parser.add_argument("--compile-mode", default=None)
    parser.add_argument("--region", choices=("model", "layer"), help="what is compiled as one")
    parser.add_argument("--shared", action="store_true", help="all layers have the same weights")
    parser.add_argument("--tied", action="store_true", help="head and embedding share weights")
    parser.add_argument("--peak", type=float, default=989.5, help="TFLOP/s that MFU is of")
    parser.add_argument("--json", help="file that all results are written to")
    options = parser.parse_args()
    defaults = {
        "gpt2": {"layers": 12, "width": 768, "heads": 12, "context": 1024, "sequences": "32",
                 "microbatches": 16, "region": "model"},
        "stage": {"layers": 16, "width": 4096, "heads": 32, "context": 2048, "sequences": "1",
                  "microbatches": 4, "region": "layer"},
    }[options.what]  # fmt: skip
    for key, value in defaults.items():
        if getattr(options, key) is None:
            setattr(options, key, value)
    options.ffn = options.ffn or 4 * options.width
    options.device = "cuda" if torch.cuda.is_available() else "cpu"
    return options


def choose_attention(options):
    if options.attention == "auto" or options.device != "cuda":
        return
    torch.backends.cuda.enable_math_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_flash_sdp(options.attention == "flash")
    torch.backends.cuda.enable_cudnn_sdp(options.attention == "cudnn")


def main():
    options = parse()
    choose_attention(options)
    torch.set_float32_matmul_precision("high")
    gpu = torch.cuda.get_device_name() if options.device == "cuda" else "none"
    print(f"PyTorch {torch.__version__}, GPU: {gpu}, peak {options.peak} TFLOP/s", flush=True)
    results = []
    for sequences in map(int, options.sequences.split(",")):
        for variant in options.variants.split(","):
            try:
                results.append(measure(options, sequences, variant))
                print(line(results[-1]), flush=True)
            except torch.OutOfMemoryError as error:
                text = str(error).splitlines()[0]
                print(f"{options.what} {variant} B {sequences}: {text}", flush=True)
            gc.collect()
            torch.compiler.reset()
            if options.device == "cuda":
                torch.cuda.empty_cache()
            if options.json:
                record = {
                    "pytorch": torch.__version__,
                    "cuda": torch.version.cuda,
                    "gpu": gpu,
                    "peak_tflops_per_s": options.peak,
                    "date": datetime.date.today().isoformat(),
                    "results": results,
                }
                write_text(options.json, json.dumps(record, indent=1))


main()
