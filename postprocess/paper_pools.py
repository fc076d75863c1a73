"""Experiment D of paper.py: pools of T4s, of A100s, and of both."""

from itertools import combinations_with_replacement

import matplotlib.pyplot as plt
import numpy as np

T4S, A100S = 32, 8
STAGES = 4
# Reported: sequences a second, the best possible of them, Mbit/s up and down.
REPORTED = {
    ("T4", "shared"): (17.6, 19.2, 318, 398),
    ("T4", "plain"): (8.8, 19.3, 265, 319),
    ("A100", "shared"): (16.9, 25.5, 436, 545),
    ("A100", "plain"): (8.0, 25.1, 412, 475),
    ("T4 + A100", "shared"): (27.3, 19.2 + 25.5, None, None),
    ("T4 + A100", "plain"): (13.4, 19.3 + 25.1, None, None),
}


def link(name, layers):
    _, _, up, down = REPORTED[name, layers]
    return f"{{latency_s = 0.00025, up_mbps = {up}, down_mbps = {down}}}"


def simulated(study, pool, layers):
    t4s, a100s = ("T4" in pool) * T4S, ("A100" in pool) * A100S
    fast = list(range(t4s, t4s + a100s))
    rows = [f'{{peers = {fast}, device = "a100", link = "of_a100"}}'] * bool(fast)
    rows += ['{device = "t4", link = "of_t4"}'] * bool(t4s)
    settings = {
        "model.shared_groups": STAGES if layers == "shared" else 0,
        "swarm.peers": t4s + a100s,
        "swarm.window": 4 * (t4s + a100s),
        "links.of_t4": link("T4", layers),
        "links.of_a100": link("A100", layers),
        "peers": f"[{', '.join(rows)}]",
    }
    return study.run(f"{pool.replace(' + ', '_')}_{layers}", "d_pools", settings)


def best_of(run):
    """Sequences a second under the best allocation of the devices, each to one stage, if all of
    the weakest stage compute all the time. Of alike devices each goes to the stage that is weakest,
    which is best; of two kinds all allocations of the fewer are tried."""
    kinds = {}
    for peer in np.unique(run.table["peer"]):
        kinds[run.device_of(peer)] = kinds.get(run.device_of(peer), 0) + 1
    *fewer, (most, count) = sorted(kinds.items(), key=lambda kind: kind[1])
    rate = {device: stage_rates(run, device) for device in kinds}
    starts = [np.zeros(STAGES)]
    for device, number in fewer:
        deals = combinations_with_replacement(range(STAGES), number)
        starts = [np.bincount(deal, minlength=STAGES) * rate[device] for deal in deals]
    return max(filled(start, rate[most], count) for start in starts)


def stage_rates(run, device):
    """Sequences a second of one such device, by stage."""
    times_s = [run.microbatch_s(device, stage) for stage in range(STAGES)]
    return run.sequences() / np.array(times_s)


def filled(rates, more, count):
    """The weakest stage, once so many more devices have gone to the weakest, one by one."""
    rates = rates.copy()
    for _ in range(count):
        weakest = int(np.argmin(rates))
        rates[weakest] += more[weakest]
    return float(rates.min())


def line_over_compute(run):
    """Of each class: what a peer of a middle stage sends for a microbatch takes so many times as
    long as it computes."""
    found = []
    for row in run.deck["peers"]:
        sending_s = run.boundary_bytes(1) * 8e-6 / run.deck["links"][row["link"]]["up_mbps"]
        found.append(f"{row['device']} {sending_s / run.microbatch_s(row['device'], 1):.2f}")
    return ", ".join(found)


def draw(found):
    figure, axes = plt.subplots(figsize=(9, 4.4), layout="constrained")
    places = np.arange(len(REPORTED))
    ours = [rate / best for rate, best, *_ in found.values()]
    theirs = [rate / best for rate, best, *_ in REPORTED.values()]
    axes.bar(places - 0.2, ours, 0.38, color="#0072B2", label="simulated")
    axes.bar(places + 0.2, theirs, 0.38, color="#dcdcdc", edgecolor="k", label="reported")
    for place, share in zip(np.concatenate([places - 0.2, places + 0.2]), ours + theirs):
        axes.text(place, share + 0.01, f"{share:.2f}", ha="center", fontsize=8)
    axes.set_xticks(places, [f"{pool}\n{layers}" for pool, layers in REPORTED])
    axes.set(ylim=(0, 1.05), ylabel="actual over best possible")
    axes.legend(frameon=False)
    return figure


def experiment(study, report):
    """Makes all runs, tables and the picture."""
    found, rows = {}, []
    for (pool, layers), (theirs, their_best, *_) in REPORTED.items():
        run = simulated(study, pool, layers)
        ours, best = run.sequences_in_step() / run.last_step_s(), best_of(run)
        found[pool, layers] = ours, best
        rows.append(
            [
                f"{pool}, {layers}",
                f"{ours:.1f} ({best:.1f})",
                f"{theirs} ({their_best:.1f})",
                f"{ours / best:.2f} / {theirs / their_best:.2f}",
                f"{run.last_step_s() - run.step_0_s:.0f} of {run.last_step_s():.0f}",
                line_over_compute(run),
            ]
        )
    header = ["pool", "sequences/s, ours (best)", "reported", "ratio, ours / reported"]
    header += ["reduction, of a step (s)", "line over compute"]
    report.table("pools", "Actual over best possible", header, rows)
    report.picture(draw(found))
