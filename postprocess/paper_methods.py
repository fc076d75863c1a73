"""Experiment C of paper.py, its first form: all methods on 16 V100s, four layers in a row."""

import matplotlib.pyplot as plt
import numpy as np

from paper_runs import WIDTHS, coded, model_of
from run_file import METHODS

WHOLE = ("data_parallel", "zero_offload")  # all layers in one stage
PIPELINES = 4
TRIPS_MS = (0, 100)
COLORS = ("#0072B2", "#D55E00", "#E69F00", "#009E73", "#CC79A7")


def simulated(study, name, method, trip_ms, in_pipeline=64):
    """A run with so many microbatches a step in each of four pipelines."""
    settings = model_of(name, 4, 4) | {"swarm.method": method}
    settings["train.microbatches"] = PIPELINES * in_pipeline
    settings["train.microbatch_size"] = 4 if name == "xxlarge" else 1
    if method != "swarm":
        settings["swarm.window"] = 0
    if method in WHOLE:
        settings["swarm.stages"] = 1
    elif name == "ours":
        settings |= coded("blockwise8")
    if method in WHOLE:
        settings |= coded("none")
    link = f"{{latency_s = {trip_ms / 4000}, up_mbps = 500, down_mbps = 500}}"
    settings["links.cluster"] = link
    return study.run(f"{name}_{method}_{trip_ms}_{in_pipeline}", "c_methods", settings)


def rates(run):
    """Sequences a second without and with the all-reduce, and the seconds of that: step 0 has none,
    and is a step else. Of ZeRO-Offload it includes the way of the new weights to all."""
    sequences, step_s, plain_s = run.sequences_in_step(), run.last_step_s(), run.step_0_s
    return sequences / plain_s, sequences / step_s, step_s - plain_s


def draw(found):
    figure, panels = plt.subplots(1, len(WIDTHS), figsize=(12, 4.2), layout="constrained")
    places = np.arange(len(METHODS))
    for axes, name in zip(panels, WIDTHS):
        for i, trip in enumerate(TRIPS_MS):
            for kind, alpha in ((0, 0.35), (1, 1.0)):
                heights = [found[name, method, trip][kind] for method in METHODS]
                place = places + 0.4 * i - 0.2
                axes.bar(place, heights, 0.36, color=COLORS, alpha=alpha, hatch="//" * i)
        axes.set_xticks(places, METHODS.values(), rotation=60, ha="right")
        axes.set_title(name)
        axes.grid(axis="y", alpha=0.3)
    panels[0].set_ylabel("sequences a second")
    figure.suptitle("Pale: without the all-reduce; full: with it; hatched: 100 ms of latency")
    return figure


def add_slowdown(study, report):
    """Steps of few microbatches hide less of it."""
    rows = []
    for method in ("swarm", "gpipe", "1f1b"):
        for count in (1, 4, 16, 64):
            slower = []
            for name in WIDTHS:
                fast, slow = (rates(simulated(study, name, method, t, count))[0] for t in TRIPS_MS)
                slower.append(f"{fast / slow:.2f}")
            rows.append([METHODS[method], count, *slower])
    title = "Without the all-reduce: how many times as fast without 100 ms (reported: GPipe 2 to 3)"
    report.table("slower", title, ["method", "microbatches a pipeline", *WIDTHS], rows)


def experiment(study, report):
    """Makes all runs, tables and the picture."""
    found = {
        (name, method, trip): rates(simulated(study, name, method, trip))
        for name in WIDTHS
        for method in METHODS
        for trip in TRIPS_MS
    }
    header = ["method"]
    header += [f"{name}{', 100 ms' if trip else ''}" for name in WIDTHS for trip in TRIPS_MS]
    for kind, key, title in (
        (0, "throughput", "Sequences a second, without the all-reduce"),
        (2, "reduction", "All-reduce: seconds by which it makes a step longer"),
        (1, "with_reduction", "Sequences a second, the all-reduce of each step included"),
    ):
        rows = [
            [words, *(found[name, method, trip][kind] for name in WIDTHS for trip in TRIPS_MS)]
            for method, words in METHODS.items()
        ]
        report.table(key, title, header, rows)
    add_slowdown(study, report)
    report.picture(draw(found))
