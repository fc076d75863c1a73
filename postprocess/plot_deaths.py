#!/usr/bin/env python3
"""Draws what deaths did to a run, and what they did not: the peers of each stage and the throughput
over time, and the loss over that of a run that nobody disturbed.

Reads the HDF5 files alone. Exit status 0, or 2 with one line that says what is wrong.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, MaxNLocator

from curves import BLUE, GREY, ORANGE, RED, STYLE, draw_curve, leave_room_above, limit_rates
from curves import limit_y, time_unit, write_headlines
from format_version import opened_run
from peer_panels import SHADES, STAGE_COLORS
from picture_file import dots_per_inch, picture_at, save
from plot_run import plt
from run_file import Run, title_of
from trouble import exit_status

GREEN = "#009E73"
# Kinds of events: marker, colour, name.
MARKS = {
    "kill": ("x", RED, "killed"),
    "leave": ("v", GREY, "left"),
    "join": ("^", GREEN, "joined"),
}
NEW_LEADER = "new leader"


class Events:
    """The rows of /events, and how many peers served each stage in each step."""

    def __init__(self, path):
        with opened_run(path) as file:
            events, peers = file["events"], file["peers"]
            self.time_s = events["time_s"][:]
            self.kind = events["kind"].asstr()[:]
            self.peer = events["peer"][:]
            self.step, self.stage = peers["step"][:], peers["stage"][:]

    def times_of(self, kind):
        """Each peer once: two leaders may both have written down a death."""
        _, first = np.unique(self.peer[self.kind == kind], return_index=True)
        return np.sort(self.time_s[self.kind == kind][first])

    def new_leaders(self):
        return np.sort(self.time_s[self.kind == "leader"])[1:]

    def stages(self):
        return np.unique(self.stage)

    def peers_of(self, stage, steps):
        return np.array([np.sum(self.step[self.stage == stage] == step) for step in steps])


def mark(axes, events, unit_s):
    """Deaths and the like along the top, changes of the leader as lines; returns a legend."""
    legend = []
    for kind, (marker, color, name) in MARKS.items():
        times_s = events.times_of(kind)
        if len(times_s) == 0:
            continue
        style = {"marker": marker, "color": color, "ls": "", "ms": 7, "mew": 2}
        heights = np.full(len(times_s), 0.96)
        # Those of one burst stand one below the other.
        for i in range(1, len(times_s)):
            if times_s[i] - times_s[i - 1] < 0.01 * (times_s[-1] + 1):
                heights[i] = heights[i - 1] - 0.09
        axes.plot(
            times_s / unit_s, heights, transform=axes.get_xaxis_transform(), clip_on=False, **style
        )
        legend.append(Line2D([], [], label=name, **style))
    for time_s in events.new_leaders():
        axes.axvline(time_s / unit_s, color=GREY, lw=0.9, ls=(0, (4, 3)))
    if len(events.new_leaders()) > 0:
        legend.append(Line2D([], [], color=GREY, lw=0.9, ls=(0, (4, 3)), label=NEW_LEADER))
    return legend


def draw_peers(axes, run, events, unit_s):
    # What the peers did in a step may be lost with its leader.
    told = np.isin(run.rows["step"], events.step)
    steps, times_s = run.rows["step"][told], run.rows["time_s"][told]
    stages = events.stages()
    few = len(stages) <= len(STAGE_COLORS)
    colors = STAGE_COLORS if few else SHADES(np.linspace(0, 1, len(stages)))
    most = 1
    handles = []
    for i, stage in enumerate(stages):
        count = events.peers_of(stage, steps)
        most = max(most, count.max(initial=1))
        # Beside each other where stages have as many peers.
        shift = 0.06 * (i - (len(stages) - 1) / 2) if few else 0
        axes.step(times_s / unit_s, count + shift, color=colors[i], lw=2, where="pre")
        if few or i in (0, len(stages) - 1):
            handles.append(Line2D([], [], color=colors[i], lw=2, label=f"stage {stage}"))
    axes.set_ylim(0, 1.3 * most)
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set(title="Peers of each stage")
    handles += mark(axes, events, unit_s)
    axes.legend(
        handles=handles,
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=len(handles),
        columnspacing=1.2,
        borderaxespad=0.2,
        frameon=False,
    )


def draw_rate(axes, run, events, unit, unit_s):
    times_s, rates = run.rates()
    draw_curve(axes, np.asarray(times_s) / unit_s, np.asarray(rates), BLUE)
    mark(axes, events, unit_s)
    limit_rates(axes, rates)
    axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set(title="Tokens per second", xlabel=f"time ({unit})")


def draw_losses(axes, run, undisturbed):
    rows, label = run.rows, "with deaths" if len(run.death_times_s) else "this run"
    if undisturbed is not None:
        axes.plot(
            undisturbed.rows["step"],
            undisturbed.rows["loss"],
            color=ORANGE,
            lw=3.2,
            alpha=0.55,
            label="the other run" if len(undisturbed.death_times_s) else "nobody killed",
        )
    axes.plot(rows["step"], rows["loss"], color=BLUE, lw=0.8, label=label)
    limit_y(axes, rows["loss"])
    title = "Loss (nats per token)"
    if undisturbed is not None:
        common = min(len(rows["loss"]), len(undisturbed.rows["loss"]))
        same = np.array_equal(
            rows["loss"][:common].view(np.uint64), undisturbed.rows["loss"][:common].view(np.uint64)
        )
        title += f": {'equal, bit for bit,' if same else 'DIFFERENT'} in {common:,} steps"
    axes.set(title=title, xlabel="step")
    axes.legend(loc="upper right")


def draw(run, events, undisturbed, title):
    longest_s = float(run.rows["time_s"][-1])
    unit, unit_s = time_unit(longest_s)
    has_losses = any(of.has_losses for of in (run, undisturbed) if of is not None)
    rows = (1, 1, 1.5) if has_losses else (1, 1)
    with plt.rc_context(STYLE):
        figure, panels = plt.subplots(
            len(rows),
            1,
            figsize=(9.0, 0.6 + 2 * sum(rows)),
            layout="constrained",
            height_ratios=rows,
        )
        draw_peers(panels[0], run, events, unit_s)
        draw_rate(panels[1], run, events, unit, unit_s)
        if has_losses:
            draw_losses(panels[2], run, undisturbed)
        for panel in panels[:2]:
            panel.set_xlim(0, longest_s / unit_s)
        leave_room_above(figure, write_headlines(figure, title))
        return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="the run file, e.g. RUN.h5")
    parser.add_argument("--over", type=Path, help="that of a run that nobody disturbed")
    parser.add_argument("-o", "--output", type=Path, help="the picture (default: RUN.deaths.png)")
    parser.add_argument("--title", help="headline (default: the run's folder, method and peers)")
    parser.add_argument("--dpi", type=dots_per_inch, default=160)
    arguments = parser.parse_args()
    output = picture_at(arguments.output or arguments.run.with_suffix(".deaths.png"))
    run, events = Run(arguments.run), Events(arguments.run)
    undisturbed = Run(arguments.over) if arguments.over else None
    figure = draw(run, events, undisturbed, arguments.title or title_of(run, arguments.run))
    save(figure, output, arguments.dpi)
    print(output)


if __name__ == "__main__":
    sys.exit(exit_status(main))
