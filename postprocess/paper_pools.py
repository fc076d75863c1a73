"""Experiment D of paper.py: pools of T4s, of A100s, and of both."""

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
    """Sequences a second if all devices computed all the time and work could be cut at will."""
    rates = []
    for peer in np.unique(run.table["peer"]):
        stages = [run.microbatch_s(run.device_of(peer), stage) for stage in range(STAGES)]
        rates.append(run.sequences() / np.sum(stages))
    return float(np.sum(rates))


def limits(run):
    """What the line of the busiest peer of a middle stage needs over what it computes."""
    links = run.deck["links"]
    found = {}
    for row in run.deck["peers"]:
        seconds = run.boundary_bytes(1) * 8e-6 / links[row["link"]]["up_mbps"]
        found[row["device"]] = seconds / run.microbatch_s(row["device"], 1)
    return found


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
    for (pool, layers), (rate, best, *_) in REPORTED.items():
        run = simulated(study, pool, layers)
        ours = run.sequences_in_step() / run.last_step_s()
        found[pool, layers] = ours, best_of(run)
        lines = ", ".join(f"{device} {share:.2f}" for device, share in limits(run).items())
        rows.append(
            [
                pool,
                layers,
                f"{ours:.1f} ({best_of(run):.1f})",
                f"{rate} ({best:.1f})",
                f"{ours / best_of(run):.2f} / {rate / best:.2f}",
                f"{run.reduction_s():.0f} of {run.last_step_s():.0f} s",
                lines,
            ]
        )
    header = ["pool", "layers", "sequences/s, ours (best)", "reported", "ratio, ours / reported"]
    header += ["reduction", "line over compute"]
    report.table("pools", "Actual over best possible", header, rows)
    report.picture(draw(found))
