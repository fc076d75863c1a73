#!/usr/bin/env python3
"""Draws run files. Of one: loss, gradient norm, learning rate and throughput; of several peers also
their time, their microbatches and their traffic. Of several: their losses by step and by time,
beside the keys in which their decks differ.

Reads the HDF5 files alone. Exit status 0, or 2 with one line that says what is wrong.
"""

import argparse
import math
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import EngFormatter, MaxNLocator

import comparison
import peer_panels
from curves import BLUE, GREY, ORANGE, RED, STYLE, draw_curve, limit_y
from run_file import BadFile, Run

LN2 = math.log(2.0)


def draw_loss(axes, run):
    rows = run.rows
    course = draw_curve(axes, rows["step"], rows["loss"], BLUE, "training")
    shown = [course, rows["loss"][:1]]
    validation = run.validation
    if len(validation["step"]) > 0:
        axes.plot(
            validation["step"],
            validation["loss"],
            color=ORANGE,
            lw=1.0,
            marker="o",
            ms=4.5,
            mec="white",
            mew=0.7,
            label="held out",
            zorder=4,
        )
        shown.append(validation["loss"])
    limit_y(axes, np.concatenate(shown))
    skipped = rows["step"][rows["skipped"] != 0]
    if len(skipped) > 0:
        axes.plot(
            skipped,
            np.full(len(skipped), 0.02),
            color=RED,
            ls="",
            marker="x",
            ms=5,
            mew=1.2,
            transform=axes.get_xaxis_transform(),
            label="skipped step",
            zorder=5,
        )
    for i, step in enumerate(run.resume_steps):
        axes.axvline(step, color=GREY, lw=0.9, ls=(0, (4, 3)), label="resumed" if i == 0 else None)
    axes.set(title="Loss", xlabel="step", ylabel="nats per token")
    if run.is_bytes:
        bits = axes.secondary_yaxis("right", functions=(lambda y: y / LN2, lambda y: y * LN2))
        bits.set_ylabel("bits per byte")
        bits.spines["right"].set_visible(True)
    axes.legend(loc="upper right")


def draw_gradient_norm(axes, run):
    norms = run.rows["grad_norm"]
    draw_curve(axes, run.rows["step"], norms, BLUE)
    finite = norms[np.isfinite(norms) & (norms > 0)]
    if len(finite) > 0 and finite.max() > 20 * finite.min():
        axes.set_yscale("log")
    clip = float(run.deck_value("train", "clip", "0") or 0)
    if clip > 0 and len(finite) > 0 and finite.max() > 0.5 * clip:
        axes.axhline(clip, color=GREY, lw=0.9, ls=":", label=f"clipped above {clip:g}")
        axes.legend(loc="upper right")
    axes.set(title="Gradient norm", xlabel="step")


def draw_learning_rate(axes, run):
    rates = run.rows["lr"]
    largest = np.nanmax(rates) if np.isfinite(rates).any() else 0.0
    power = math.floor(math.log10(1.05 * largest)) if largest > 0 else 0
    axes.plot(
        run.rows["step"],
        rates / 10.0**power,
        color=BLUE,
        lw=1.6,
        marker="o" if len(rates) == 1 else None,
        ms=3,
    )
    unit = rf"  (in $\mathregular{{10^{{{power}}}}}$)" if power else ""
    axes.set(title="Learning rate" + unit, xlabel="step")
    axes.set_ylim(bottom=0)


def draw_throughput(axes, run):
    times_s, rates = run.rates()
    longest_s = max([float(run.rows["time_s"][-1]), *times_s[-1:]])
    unit, unit_s = (
        ("s", 1) if longest_s < 300 else ("min", 60) if longest_s < 3 * 3600 else ("h", 3600)
    )
    draw_curve(axes, np.asarray(times_s) / unit_s, np.asarray(rates), BLUE)
    for time_s in run.resume_times_s:
        axes.axvline(time_s / unit_s, color=GREY, lw=0.9, ls=(0, (4, 3)))
    finite = np.asarray(rates)[np.isfinite(rates)]
    if len(finite) > 0 and finite.max() > 0:
        axes.set_ylim(0, 1.15 * np.percentile(finite, 99.5))
    axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set(title="Tokens per second", xlabel=f"time ({unit})")


def headline(run):
    """Model, length and result in one line."""
    parts = []
    layers, width = run.deck_value("model", "layers"), run.deck_value("model", "width")
    if layers and width:
        parts.append(f"{layers} layer{'' if layers == '1' else 's'} of {width}")
    steps = run.deck_value("train", "steps", "?")
    planned = f"{int(steps):,}" if str(steps).isdigit() else steps
    parts.append(f"step {run.rows['step'][-1]:,} of {planned}")
    table = run.validation if len(run.validation["loss"]) > 0 else run.rows
    last, name = table["loss"][-1], "held-out loss" if table is run.validation else "loss"
    parts.append(f"{name} {last / LN2:.3f} bits per byte" if run.is_bytes else f"{name} {last:.3f}")
    parts.append(run.verdict if run.complete else f"{run.verdict}, not complete")
    return "   ·   ".join(parts)


def draw_run(run, title):
    several = len(run.peers) > 1
    height = 8.5 if several else 6.2
    with plt.rc_context(STYLE):
        figure = plt.figure(figsize=(9.0, height), constrained_layout=True)
        grid = figure.add_gridspec(2 + several, 3, height_ratios=(1.75, 1, 1.05)[: 2 + several])
        panels = [figure.add_subplot(grid[0, :])] + [
            figure.add_subplot(grid[1, i]) for i in range(3)
        ]
        for panel, draw in zip(
            panels, (draw_loss, draw_gradient_norm, draw_learning_rate, draw_throughput)
        ):
            draw(panel, run)
            in_steps = draw is not draw_throughput
            if in_steps and len(run.rows["step"]) == 1:
                panel.set_xlim(run.rows["step"][0] - 1.2, run.rows["step"][0] + 1.2)
            ticks = 8 if draw is draw_loss else 5
            panel.xaxis.set_major_locator(
                MaxNLocator(ticks, steps=(1, 2, 5, 10), integer=in_steps, min_n_ticks=1)
            )
        if several:
            for i, draw in enumerate(peer_panels.PANELS):
                draw(figure.add_subplot(grid[2, i]), run.peers)
        figure.suptitle(f"{title}\n", x=0.008, ha="left", fontsize=12, fontweight="bold")
        figure.text(
            0.008, 1 - 0.341 / height, headline(run), ha="left", fontsize=9, color="#555555"
        )
        return figure


def title_of(path):
    """The folder of a run, where its file has the name that most have."""
    folder = path.absolute().parent.name
    return f"{folder}/{path.name}" if folder else path.name


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path, nargs="+", help="run files, e.g. RUN.h5")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        help="the picture (default: RUN.png beside RUN.h5; of several comparison.png, here)",
    )
    parser.add_argument("--title", help="headline (default: the file, with its folder)")
    parser.add_argument("--dpi", type=int, default=160)
    arguments = parser.parse_args()
    paths = arguments.runs
    several = len(paths) > 1
    output = arguments.output or (
        Path("comparison.png") if several else paths[0].with_suffix(".png")
    )
    try:
        runs = [Run(path) for path in paths]
        if several:
            title = arguments.title or f"{len(runs)} runs"
            figure = comparison.draw_comparison(runs, paths, title)
        else:
            figure = draw_run(runs[0], arguments.title or title_of(paths[0]))
        figure.savefig(output, dpi=arguments.dpi)
    except BadFile as error:
        print(f"plot_run.py: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"plot_run.py: cannot write {output}: {error.strerror or error}", file=sys.stderr)
        return 2
    print(output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
