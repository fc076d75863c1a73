"""One of several ranks that train the model of pytorch_peer.py together. For pytorch_ranks.py.

usage: mpirun -n RANKS PYTHON pytorch_ranks_peer.py --sharing WAY --rendezvous FILE --steps N
           --microbatches N --layers N --width N --heads N --context N --sequences N --vocab N

In fp32 over gloo, one thread a rank, so many microbatches a step on each rank. The ranks find each
other by FILE, which must not exist. Rank 0 prints a line of JSON. WAY is one of
  ddp             DistributedDataParallel: gradients are exchanged once a step
  zero            the same, and each rank keeps the moments of a share (ZeroRedundancyOptimizer)
  fsdp            fully_shard: each rank keeps a share of weights, gradients and moments; weights
                  are gathered for each pass, gradients exchanged after each microbatch
  fsdp_gradients  the same, but weights are gathered and gradients exchanged once a step
"""

import argparse
import contextlib
import json
import os
import re
import time

import torch
from pytorch_peer import BATCHES, SIZES, WARM_UP_STEPS, Model
from torch import distributed, nn

ADAMW = {"lr": 3e-4, "weight_decay": 0.1, "fused": True}


class DataParallel:
    """A model that the ranks train together; the base of other ways to share the work."""

    def __init__(self, model):
        self.model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)

    def optimizer(self):
        return torch.optim.AdamW(self.model.parameters(), **ADAMW)

    def microbatch(self, last):
        """What surrounds the passes of a microbatch; whether it is the last of its step."""
        return contextlib.nullcontext() if last else self.model.no_sync()


# What the others import takes memory, and is therefore imported where it is needed.
class SharedMoments(DataParallel):
    def optimizer(self):
        from torch.distributed.optim import ZeroRedundancyOptimizer

        return ZeroRedundancyOptimizer(
            self.model.parameters(), torch.optim.AdamW, parameters_as_bucket_view=True, **ADAMW
        )


class FullyShared(DataParallel):
    reshard_after_forward = True

    def __init__(self, model):
        from torch.distributed.fsdp import fully_shard

        mesh = distributed.init_device_mesh("cpu", (distributed.get_world_size(),))
        for module in [*model.layers, model]:
            fully_shard(module, mesh=mesh, reshard_after_forward=self.reshard_after_forward)
        self.model = model

    def microbatch(self, last):
        return contextlib.nullcontext()


class SharedGradients(FullyShared):
    reshard_after_forward = False

    def microbatch(self, last):
        self.model.set_requires_gradient_sync(last)
        self.model.set_reshard_after_backward(last)
        return contextlib.nullcontext()


SHARINGS = {
    "ddp": DataParallel,
    "zero": SharedMoments,
    "fsdp": FullyShared,
    "fsdp_gradients": SharedGradients,
}


def microbatches_of(options):
    """What this rank trains on in turn: BATCHES lists of microbatches, pairs (inputs, targets)."""
    size = (BATCHES, options.microbatches, options.sequences, options.context + 1)
    generator = torch.Generator().manual_seed(distributed.get_rank())
    tokens = torch.randint(options.vocab, size, generator=generator)
    return [[(m[:, :-1].contiguous(), m[:, 1:].contiguous()) for m in step] for step in tokens]


def train_step(shared, optimizer, microbatches):
    """Returns the loss of the step's last microbatch."""
    for number, (inputs, targets) in enumerate(microbatches, 1):
        with shared.microbatch(last=number == len(microbatches)):
            loss = shared.model(inputs, targets)
            (loss / len(microbatches)).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.item()


def train(options):
    torch.manual_seed(1)
    shared = SHARINGS[options.sharing](Model(options))
    optimizer = shared.optimizer()
    batches = microbatches_of(options)
    step_s, losses = [], []
    for number in range(WARM_UP_STEPS + options.steps):
        start_s = time.perf_counter()
        losses.append(train_step(shared, optimizer, batches[number % BATCHES]))
        step_s.append(time.perf_counter() - start_s)
    return {"step_s": step_s[WARM_UP_STEPS:], "losses": losses}


def peak_memory_bytes():
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        return int(re.search(r"VmHWM:\s+(\d+) kB", file.read())[1]) * 1024


def join(rendezvous):
    """Makes this process one of the ranks that mpirun has started, all on this host."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    distributed.init_process_group(
        "gloo",
        init_method=f"file://{os.path.abspath(rendezvous)}",
        rank=int(os.environ["OMPI_COMM_WORLD_RANK"]),
        world_size=int(os.environ["OMPI_COMM_WORLD_SIZE"]),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for size in (*SIZES, "microbatches", "steps"):
        parser.add_argument(f"--{size}", type=int, required=True)
    parser.add_argument("--sharing", choices=SHARINGS, required=True)
    parser.add_argument("--rendezvous", required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    join(options.rendezvous)
    answer = train(options)
    peaks = [None] * distributed.get_world_size()
    distributed.all_gather_object(peaks, peak_memory_bytes())
    if distributed.get_rank() == 0:
        print(json.dumps({**answer, "peak_memory_bytes": peaks}))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
