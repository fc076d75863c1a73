"""Trains a GPT-2-like model in PyTorch on one thread; prints a line of JSON. For pytorch_speed.py.

usage: pytorch_peer.py [--layers N --width N --heads N --context N --sequences N --vocab N
                        --arithmetic fp32|masters|autocast --steps N [--compile]]

`masters`: a bf16 copy of the model computes; its gradients go in fp32 to fp32 weights, which AdamW
updates and which are then copied back. `autocast`: fp32 weights, and PyTorch chooses what it
computes in bf16. Without any option nothing is trained: the memory that `import torch` takes.
"""

import argparse
import json
import resource
import time

import torch
from torch import nn
from torch.nn import functional

WARM_UP_STEPS = 2
BATCHES = 4
SIZES = ("layers", "width", "heads", "context", "sequences", "vocab")


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.mixed = nn.Linear(width, width)
        self.mlp_norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        qkv = self.qkv(self.attention_norm(x)).unflatten(2, (3, self.heads, -1))
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        values = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.mixed(values.transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.mlp_norm(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.tokens = nn.Embedding(sizes.vocab, sizes.width)
        self.positions = nn.Parameter(torch.empty(sizes.context, sizes.width))
        self.layers = nn.Sequential(*(Layer(sizes.width, sizes.heads) for _ in range(sizes.layers)))
        self.norm = nn.LayerNorm(sizes.width)
        self.head = nn.Linear(sizes.width, sizes.vocab, bias=False)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, inputs, targets):
        x = self.layers(self.tokens(inputs) + self.positions)
        logits = self.head(self.norm(x)).flatten(0, 1)
        # In every arithmetic the loss is one of fp32 logits, as usual.
        return functional.cross_entropy(logits.float(), targets.flatten())


class Trainer:
    def __init__(self, options):
        self.model = Model(options)
        self.autocast = options.arithmetic == "autocast"
        self.copied = options.arithmetic == "masters"
        self.weights = list(self.model.parameters())
        if self.copied:
            self.weights = [weight.detach().clone() for weight in self.weights]
            self.model.to(torch.bfloat16)
        self.optimizer = torch.optim.AdamW(self.weights, lr=3e-4, weight_decay=0.1, fused=True)
        self.loss_of = torch.compile(self.model) if options.compile else self.model

    def step(self, inputs, targets):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.autocast):
            loss = self.loss_of(inputs, targets)
        loss.backward()
        if self.copied:
            self.take_gradients()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.copied:
            self.give_weights()
        return loss.item()

    def take_gradients(self):
        for weight, copy in zip(self.weights, self.model.parameters()):
            weight.grad = copy.grad.float()
            copy.grad = None  # at once, so that never all gradients are there twice

    @torch.no_grad()
    def give_weights(self):
        for weight, copy in zip(self.weights, self.model.parameters()):
            copy.copy_(weight)


def train(options):
    trainer = Trainer(options)
    tokens = torch.randint(options.vocab, (BATCHES, options.sequences, options.context + 1))
    cpu_s, wall_s = [], []
    for number in range(WARM_UP_STEPS + options.steps):
        batch = tokens[number % BATCHES]
        inputs, targets = batch[:, :-1].contiguous(), batch[:, 1:].contiguous()
        cpu_start_s, wall_start_s = time.process_time(), time.perf_counter()
        loss = trainer.step(inputs, targets)
        if number >= WARM_UP_STEPS:
            cpu_s.append(time.process_time() - cpu_start_s)
            wall_s.append(time.perf_counter() - wall_start_s)
    return {"cpu_s": cpu_s, "wall_s": wall_s, "loss": loss}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for size in SIZES:
        parser.add_argument(f"--{size}", type=int)
    parser.add_argument("--arithmetic", choices=("fp32", "masters", "autocast"))
    parser.add_argument("--steps", type=int)
    parser.add_argument("--compile", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    answer = {
        "version": torch.__version__,
        "capability": torch.backends.cpu.get_cpu_capability(),
    }
    if options.arithmetic:
        answer.update(train(options))
    answer["peak_memory_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
