#!/usr/bin/env python3
"""Draws run files. Of one: loss, gradient norm, learning rate and throughput; of several peers also
their time and how much of it was of use, their speed, their microbatches and their traffic. Of
several: their losses by step and by time, beside the keys in which their decks differ.

Reads the HDF5 files alone. Exit status 0, or 2 with one line that says what is wrong.
"""

import python_version  # noqa: F401  (before what needs it)

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
from curves import BLUE, GREY, ORANGE, RED, STYLE, draw_curve, leave_room_above, limit_rates
from curves import limit_y, time_unit, write_headlines
from picture_file import dots_per_inch, picture_at, save
from run_file import Run, counted, title_of
from trouble import exit_status

LN2 = math.log(2.0)
SLOW = 0.8  # of the fastest peer of a stage: below it a peer is named


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
    limit_y(axes, np.concatenate(shown), rows["loss"])
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
        axes.legend(loc="best")
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
    unit, unit_s = time_unit(max([float(run.rows["time_s"][-1]), *times_s[-1:]]))
    draw_curve(axes, np.asarray(times_s) / unit_s, np.asarray(rates), BLUE)
    for time_s in run.resume_times_s:
        axes.axvline(time_s / unit_s, color=GREY, lw=0.9, ls=(0, (4, 3)))
    limit_rates(axes, rates)
    axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    deaths = mark_deaths(axes, run, unit_s)
    axes.set(title="Tokens per second" + deaths, xlabel=f"time ({unit})")


def mark_deaths(axes, run, unit_s):
    """Crosses at the bottom; returns what the title says of them."""
    if len(run.death_times_s) == 0:
        return ""
    axes.plot(
        run.death_times_s / unit_s,
        np.full(len(run.death_times_s), 0.05),
        color=RED,
        ls="",
        marker="x",
        ms=5,
        mew=1.4,
        transform=axes.get_xaxis_transform(),
        zorder=5,
    )
    return "   ×: deaths"


def draw_use(axes, run):
    """What the swarm makes of its peers' speed: docs/files.md says what is ideal."""
    times_s, shares = run.throughput["time_s"], 100 * run.throughput["fraction_of_ideal"]
    unit, unit_s = time_unit(float(times_s[-1]))
    known = np.isfinite(shares)
    draw_curve(axes, times_s[known] / unit_s, shares[known], BLUE)
    deaths = mark_deaths(axes, run, unit_s)
    axes.set_ylim(0, max(105, 1.05 * np.percentile(shares[known], 98)))
    axes.set(title="Throughput (% of ideal)" + deaths, xlabel=f"time ({unit})")


def has_use(run):
    shares = run.throughput.get("fraction_of_ideal", np.zeros(0))
    return bool(np.isfinite(shares).any())


def last_loss(run):
    """Of the held-out sequences where there is one."""
    table = run.validation if len(run.validation["loss"]) > 0 else run.rows
    last, name = table["loss"][-1], "held-out loss" if table is run.validation else "loss"
    return f"{name} {last / LN2:.3f} bits per byte" if run.is_bytes else f"{name} {last:.3f}"


def result(run):
    """Model, length and result in one line."""
    parts = []
    layers, width = run.deck_value("model", "layers"), run.deck_value("model", "width")
    if layers and width:
        parts.append(f"{layers} layer{'' if layers == '1' else 's'} of {width}")
    steps = run.deck_value("train", "steps", "?")
    planned = f"{int(steps):,}" if str(steps).isdigit() else steps
    parts.append(f"step {run.rows['step'][-1]:,} of {planned}")
    if run.has_losses:
        parts.append(last_loss(run))
    if len(run.death_times_s) > 0:
        parts.append(counted(len(run.death_times_s), "death"))
    parts.append(run.verdict if run.complete else f"{run.verdict}, not complete")
    return "   ·   ".join(parts)


def slowest(run):
    """The peer that is clearly slower than others of its stage, with its device; or nothing."""
    speeds = run.peers.speeds()
    if not np.isfinite(speeds).any() or np.nanmin(speeds) > SLOW:
        return []
    place = int(np.nanargmin(speeds))
    peer = run.peers.peers[place]
    devices = [f" (device {name})" for name, _, of in run.devices() if peer in of]
    return [
        f"slowest: peer {peer}{''.join(devices)}, at {100 * speeds[place]:.0f} % of the speed of "
        "the fastest in its stage"
    ]


def draw_peers(figure, grid, first, run):
    """Two rows of panels, and a third where the run file tells what the peers' time was for."""

    def panel(row, column):
        return figure.add_subplot(grid[first + row, column])

    peer_panels.draw_time(panel(0, 0), run.peers)
    peer_panels.draw_utilisation(panel(0, 1), run.peers)
    peer_panels.draw_speeds(panel(0, 2), run.peers, run.devices())
    peer_panels.draw_microbatches(panel(1, 0), run.peers)
    peer_panels.draw_traffic(panel(1, 1), run.peers)
    if has_use(run):
        draw_use(panel(1, 2), run)
    if len(run.goodput):
        peer_panels.draw_goodput(panel(2, slice(None)), run.goodput)


def courses(run):
    """What is drawn over steps and time, row by row: what of it the run has."""
    below = [draw_learning_rate, draw_throughput]
    if np.isfinite(run.rows["grad_norm"]).any():
        below.insert(0, draw_gradient_norm)
    return [[draw_loss], below] if run.has_losses else [below]


def draw_course(panel, draw, run):
    draw(panel, run)
    in_steps = draw is not draw_throughput
    if in_steps and len(run.rows["step"]) == 1:
        panel.set_xlim(run.rows["step"][0] - 1.2, run.rows["step"][0] + 1.2)
    ticks = 8 if draw is draw_loss else 5
    panel.xaxis.set_major_locator(
        MaxNLocator(ticks, steps=(1, 2, 5, 10), integer=in_steps, min_n_ticks=1)
    )


def draw_run(run, title):
    several, drawn = len(run.peers) > 1, courses(run)
    rows = [1.75, 1][-len(drawn) :]
    if several:
        rows += [1.05] * (3 if len(run.goodput) else 2)
    with plt.rc_context(STYLE):
        figure = plt.figure(figsize=(9.0, 0.4 + 2.1 * sum(rows)), layout="constrained")
        below = [result(run), *(slowest(run) if several else [])]
        leave_room_above(figure, write_headlines(figure, title, below))
        grid = figure.add_gridspec(len(rows), 3, height_ratios=rows)
        for row, draws in enumerate(drawn):
            for i, draw in enumerate(draws):
                # The last one has what is left of its row.
                place = slice(i, None if draw is draws[-1] else i + 1)
                draw_course(figure.add_subplot(grid[row, place]), draw, run)
        if several:
            draw_peers(figure, grid, len(drawn), run)
        return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path, nargs="+", help="run files, e.g. RUN.h5")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        help="the picture (default: RUN.png beside RUN.h5; of several comparison.png, here)",
    )
    parser.add_argument("--title", help="headline (default: the run's folder, method and peers)")
    parser.add_argument("--dpi", type=dots_per_inch, default=160)
    arguments = parser.parse_args()
    paths = arguments.runs
    several = len(paths) > 1
    output = arguments.output or (
        Path("comparison.png") if several else paths[0].with_suffix(".png")
    )
    output = picture_at(output)
    runs = [Run(path) for path in paths]
    if several:
        figure = comparison.draw_comparison(runs, paths, arguments.title)
    else:
        figure = draw_run(runs[0], arguments.title or title_of(runs[0], paths[0]))
    save(figure, output, arguments.dpi)
    print(output)


if __name__ == "__main__":
    sys.exit(exit_status(main))
