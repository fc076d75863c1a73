#!/usr/bin/env python3
"""The model against PyTorch: logits, all gradients of the first step, ten losses.

    compare.py MODEL_DUMP DECK [section.key=value]...

Exit status 0: they agree; 1: they do not; 77: PyTorch is not installed here.

Tolerances are on the relative L2 error of each array. In fp32 both sides round every sum: a sum of
n terms errs by about sqrt(n) eps (eps = 6e-8), the longest here have n = 200, and some ten of them
stand in line: 1e-5. With bf16 both sides round the factors of every product to 8 bits; where fp32
noise tips one over to its neighbour it moves by 2^-8, and attention may round its weights before or
after they are normalised: one unit of bf16, 2^-8, for the whole array; likewise where a codec
rounds what crosses a cut. A loss is a mean over many tokens: a tenth of that.
"""

import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    import torch.nn.functional as F
except ImportError as missing:
    print(f"not run: PyTorch is not installed: {missing}")
    sys.exit(77)

TOLERANCE = {"fp32": 1e-5, "bf16": 2.0**-8}


class Bf16Product(torch.autograd.Function):
    """a @ b, forward and backward, with factors rounded to bf16 and sums in fp32."""

    @staticmethod
    def forward(ctx, a, b):
        a, b = a.bfloat16().float(), b.bfloat16().float()
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(ctx, gradient):
        a, b = ctx.saved_tensors
        gradient = gradient.bfloat16().float()
        return gradient @ b.transpose(-1, -2), a.transpose(-1, -2) @ gradient


class Bf16Codec(torch.autograd.Function):
    """What crosses a cut, rounded to bf16; its derivative is taken as 1."""

    @staticmethod
    def forward(ctx, x, codes_activations, codes_gradients):
        ctx.codes_gradients = codes_gradients
        return x.bfloat16().float() if codes_activations else x.clone()

    @staticmethod
    def backward(ctx, gradient):
        coded = gradient.bfloat16().float() if ctx.codes_gradients else gradient
        return coded, None, None


class Deck:
    """The scalars of the deck, in the order in which model_dump writes them."""

    def __init__(self, values, cuts):
        self.layers, self.sets, self.heads, self.microbatches, self.microbatch_size = map(
            int, values[:5]
        )
        self.beta1, self.beta2, self.epsilon, self.weight_decay, self.clip = values[5:10]
        self.precision = "bf16" if values[10] else "fp32"
        self.product = Bf16Product.apply if values[10] else torch.matmul
        self.boundary_factor = int(values[11])
        self.codes_activations, self.codes_gradients = map(bool, values[12:14])
        self.cuts = cuts  # first layers of all stages but the first


def read_dump(folder):
    arrays = {}
    with open(os.path.join(folder, "index.txt"), encoding="ascii") as index:
        for line in index:
            name, kind, rows, columns = line.split()
            data = np.fromfile(os.path.join(folder, name + ".bin"), dtype=kind)
            arrays[name] = torch.from_numpy(data.reshape(int(rows), int(columns)))
    return arrays


def attention(deck, qkv):
    batch, context, width = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    q, k, v = (
        part.reshape(batch, context, deck.heads, -1).transpose(1, 2)
        for part in qkv.split(width, dim=2)
    )
    scores = deck.product(q, k.transpose(-1, -2)) / (width // deck.heads) ** 0.5
    future = torch.ones(context, context, dtype=torch.bool).triu(1)
    weights = torch.softmax(scores.masked_fill(future, float("-inf")), dim=-1)
    return deck.product(weights, v).transpose(1, 2).reshape(batch, context, width)


def logits_of(deck, w, tokens):
    """(B, T) -> (B, T, V)"""

    def linear(x, name):
        return deck.product(x, w[name + ".weight"].T) + w[name + ".bias"]

    def norm(x, name):
        weight, bias = w[name + ".weight"].flatten(), w[name + ".bias"].flatten()
        return F.layer_norm(x, x.shape[-1:], weight, bias, 1e-5)

    def cross(x, cut):
        """From one stage to the next."""
        prefix = f"boundary.{cut}."
        if prefix + "narrowing.weight" in w:
            x = norm(linear(x, prefix + "narrowing"), prefix + "norm")
        elif prefix + "widening.weight" in w:
            x = x.unflatten(-1, (-1, deck.boundary_factor)).amax(-1)
        x = Bf16Codec.apply(x, deck.codes_activations, deck.codes_gradients)
        return linear(x, prefix + "widening") if prefix + "widening.weight" in w else x

    x = w["embedding.tokens"][tokens.long()] + w["embedding.positions"]
    for layer in range(deck.layers):
        if layer in deck.cuts:
            x = cross(x, deck.cuts.index(layer))
        prefix = f"layer.{layer // (deck.layers // deck.sets)}."
        qkv = linear(norm(x, prefix + "norm1"), prefix + "qkv")
        x = x + linear(attention(deck, qkv), prefix + "projection")
        hidden = linear(norm(x, prefix + "norm2"), prefix + "up")
        x = x + linear(F.gelu(hidden, approximate="tanh"), prefix + "down")
    return deck.product(norm(x, "final_norm"), w["head.weight"].T)


def step_loss(deck, w, tokens, targets):
    """Mean loss of one step; its gradient is left in w."""
    total = 0.0
    for first in range(0, len(tokens), deck.microbatch_size):
        part = slice(first, first + deck.microbatch_size)
        nats = F.cross_entropy(
            logits_of(deck, w, tokens[part]).flatten(0, 1),
            targets[part].long().flatten(),
            reduction="sum",
        )
        nats.backward()
        total += nats.item()
    for p in w.values():  # the gradient of the sum is what gets rounded to bf16
        p.grad /= tokens.numel()
    return total / tokens.numel()


def train(deck, w, dump):
    """Ten steps of AdamW; returns losses, gradient norms, and the gradients of the first step."""
    optimizer = torch.optim.AdamW(
        [
            {
                "params": [p for p in w.values() if p.shape[0] > 1],
                "weight_decay": deck.weight_decay,
            },
            {"params": [p for p in w.values() if p.shape[0] == 1], "weight_decay": 0.0},
        ],
        betas=(deck.beta1, deck.beta2),
        eps=deck.epsilon,
    )
    per_step = deck.microbatches * deck.microbatch_size
    losses, norms, first_gradients = [], [], {}
    for step, rate in enumerate(dump["learning_rates"].flatten().tolist()):
        part = slice(step * per_step, (step + 1) * per_step)
        optimizer.zero_grad()
        losses.append(step_loss(deck, w, dump["tokens"][part], dump["targets"][part]))
        if step == 0:
            first_gradients = {name: p.grad.clone() for name, p in w.items()}
        norms.append(torch.sqrt(sum((p.grad.double() ** 2).sum() for p in w.values())).item())
        factor = min(1.0, deck.clip / norms[-1]) if deck.clip > 0 else 1.0
        for p in w.values():
            p.grad *= factor
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
    return losses, norms, first_gradients


def relative_error(ours, theirs):
    ours, theirs = ours.double().flatten(), theirs.double().flatten()
    return ((ours - theirs).norm() / theirs.norm()).item()


def main():
    program, deck_file, *overrides = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, deck_file, folder, *overrides], check=True)
        dump = read_dump(folder)
    torch.set_num_threads(1)
    deck = Deck(dump["deck"].flatten().tolist(), dump["cuts"].flatten().tolist())
    w = {
        name.removeprefix("weight."): tensor.clone().requires_grad_()
        for name, tensor in dump.items()
        if name.startswith("weight.")
    }
    coded = deck.codes_activations or deck.codes_gradients
    tolerance = TOLERANCE["bf16" if coded else deck.precision]
    failures = 0

    def check(what, ours, theirs, limit):
        nonlocal failures
        error = relative_error(ours, theirs)
        good = error <= limit
        failures += not good
        print(f"{'ok  ' if good else 'FAIL'} {what:34} error {error:.2e}, limit {limit:.1e}")

    logits = logits_of(deck, w, dump["tokens"][: deck.microbatch_size]).detach()
    check("logits", dump["logits"], logits, tolerance)
    losses, norms, gradients = train(deck, w, dump)
    for name, gradient in gradients.items():
        check("gradient of " + name, dump["gradient." + name], gradient, tolerance)
    for step, loss in enumerate(losses):
        check(
            f"loss of step {step + 1}", dump["losses"][0, step], torch.tensor(loss), tolerance / 10
        )
    check("gradient norms", dump["grad_norms"], torch.tensor(norms), tolerance)
    verdict = f"{failures} differ" if failures else "agree"
    print(f"PyTorch {torch.__version__}, {deck.precision}: {verdict}")
    return 0 if failures == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
