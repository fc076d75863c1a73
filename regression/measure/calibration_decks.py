"""The decks by which predictions are compared with runs over a network: see calibration.py.

Peers compute nothing and are paced as their devices would be, in all three kinds of run, so that
sixteen of them fit on two cores. A network of name spaces has the delay and the rate that the deck
gives its links.
"""

import collections
import itertools
from pathlib import Path

from harness import program

FAST = (40,)
UNEVEN = (40, 40, 20)  # GFLOP/s, by turns

# `delay_ms`: one way between two peers; `mbps`: of each peer's line, both ways; 0: one machine, no
# network. `batch`: sequences of a microbatch. `faults`: (seconds, event, peer).
Case = collections.namedtuple(
    "Case",
    "name ranks stages delay_ms mbps microbatches steps batch width devices faults",
    defaults=(2, 256, FAST, ()),
)

# What is fitted: the share of a line's rate that messages get, and what a message and a pass take
# beside what the models know.
Constants = collections.namedtuple("Constants", "rate_share message_s pass_s")

MODEL = """[model]
layers = 8
width = {width}
heads = 4
context = 512
vocab = 256
[data]
paths = ["{data}"]
[train]
steps = {steps}
microbatches = {microbatches}
microbatch_size = {batch}
[swarm]
stages = {stages}
peers = {ranks}
[compute]
fidelity = "emulated"
kernels = "none"
[output]
checkpoint_every_s = 0
"""
LINK = """[links.line]
latency_s = {latency_s}
up_mbps = {mbps}
down_mbps = {mbps}
slow_start = {slow_start}
"""


def kills(*rows):
    return tuple((time_s, "kill", peer) for time_s, peer in rows)


def joins(*rows):
    return tuple((time_s, "join", peer) for time_s, peer in rows)


CASES = (
    Case("two", 2, 2, 0, 50, 4, 21),
    Case("two-far", 2, 2, 25, 50, 4, 20),
    Case("two-copies", 2, 1, 10, 50, 4, 34, width=128),
    Case("two-copies-near", 2, 1, 0, 0, 8, 16),
    Case("four-far", 4, 4, 25, 100, 8, 15),
    Case("four-near", 4, 4, 0, 0, 8, 21),
    Case("four-2-stages", 4, 2, 5, 50, 8, 12),
    Case("four-copies-far", 4, 1, 25, 50, 8, 25, width=128),
    Case("four-copies", 4, 1, 2.5, 200, 8, 17),
    Case("four-uneven", 4, 4, 10, 50, 6, 15, devices=UNEVEN),
    Case("six-2-stages-join", 6, 2, 20, 50, 12, 9, faults=kills((12, 3)) + joins((20, 6))),
    Case("eight-far", 8, 4, 25, 50, 8, 13),
    Case("eight", 8, 4, 0, 50, 8, 24, batch=1),
    Case("eight-uneven", 8, 4, 10, 100, 12, 12, devices=UNEVEN),
    Case("eight-near-uneven", 8, 4, 0, 0, 12, 18, devices=UNEVEN),
    Case("eight-kills", 8, 4, 5, 50, 8, 20, batch=1, faults=kills((13, 5), (31, 2))),
    Case(
        *("eight-far-churn", 8, 4, 25, 100, 12, 9),
        faults=kills((11, 6), (34, 1)) + joins((16, 8), (42, 9)),
    ),
    Case(
        *("eight-near-churn", 8, 4, 0, 0, 12, 20),
        faults=kills((11, 6), (34, 1)) + joins((16, 8), (42, 9)),
    ),
    Case("eight-copies", 8, 1, 10, 50, 16, 21, width=128),
    Case("eight-copies-far-kill", 8, 1, 25, 100, 16, 29, width=128, faults=kills((21, 4))),
    Case("twelve", 12, 4, 15, 75, 18, 11),
    Case("sixteen-far", 16, 4, 25, 50, 16, 11),
    Case("sixteen", 16, 4, 0, 100, 16, 20),
    Case(
        *("sixteen-churn", 16, 4, 10, 50, 16, 16),
        batch=1,
        faults=kills((10, 9), (25, 3), (40, 14)) + joins((18, 16), (33, 17)),
    ),
    Case("sixteen-near", 16, 4, 0, 0, 32, 21),
    Case("sixteen-copies", 16, 1, 5, 50, 32, 15, width=128),
    Case(
        *("sixteen-uneven-kills", 16, 4, 5, 100, 32, 15),
        batch=1,
        devices=UNEVEN,
        faults=kills((15, 7), (35, 12)),
    ),
)


def tokens_of_step(case):
    return case.microbatches * case.batch * 512


def peers_that_come(case):
    return sum(event == "join" for _, event, _ in case.faults)


def devices_text(case, pass_s, link):
    """A class for each speed; ids beyond the ranks are of newcomers."""
    peers = case.ranks + peers_that_come(case)
    lines = []
    for speed in sorted(set(case.devices)):
        turn = itertools.cycle(case.devices)
        ids = [peer for peer, own in zip(range(peers), turn) if own == speed]
        lines.append(f"[devices.at_{speed}]\ngflops = {speed}\noverhead_s = {pass_s}\n")
        lines.append(f'[[peers]]\npeers = {ids}\ndevice = "at_{speed}"\n{link}')
    return "".join(lines)


def link_text(case, constants, message_s):
    rates = {"mbps": case.mbps * constants.rate_share}
    latency_s = case.delay_ms / 2e3 + message_s / 2
    slow_start = "true" if case.mbps > 0 else "false"
    return LINK.format(latency_s=latency_s, slow_start=slow_start, **rates)


def write_deck(folder, case, kind, constants):
    """The deck of a "real", "emulated" or "simulated" run; returns its path.

    A real run has a network, and real ranks take their time for messages and passes by themselves.
    """
    simulated = kind == "simulated"
    data = program.write_data(folder, 1000)
    text = MODEL.format(data=data, **case._asdict())
    link = "" if kind == "real" else 'link = "line"\n'
    text += devices_text(case, constants.pass_s if simulated else 0, link)
    if link:
        text += link_text(case, constants, constants.message_s if simulated else 0)
    if case.faults:
        trace = Path(folder, "trace.csv")
        rows = "".join(f"{time_s},{event},{peer}\n" for time_s, event, peer in sorted(case.faults))
        trace.write_text("time_s,event,peer\n" + rows, "ascii")
        text += f'[faults]\nmode = "emulated"\ntrace = "{trace}"\n'
    deck = Path(folder, "deck.toml")
    deck.write_text(text, "ascii")
    return str(deck)
