"""Several runs in one picture: their losses by step and by time, their speed, and the keys in which
their decks differ."""

import textwrap
import tomllib

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import EngFormatter, MaxNLocator

from curves import RUN_COLORS, STYLE, draw_curve, limit_y
from run_names import short_names

# Where a run writes decides nothing of it.
PLACES = ("output.run", "output.checkpoint")
MOST_LINES, LINE_CHARACTERS = 5, 130


def flat(table, above=""):
    """The keys of a deck with their sections, and their values."""
    found = {}
    for key, value in table.items():
        if isinstance(value, dict):
            found |= flat(value, f"{above}{key}.")
        else:
            found[above + key] = value
    return found


def deck_of(run):
    try:
        return flat(tomllib.loads(run.deck))
    except tomllib.TOMLDecodeError:
        return {}


def differences(runs):
    """Key -> its value in each run, None where the deck has none, for all keys that differ."""
    decks = [deck_of(run) for run in runs]
    keys = sorted(set().union(*decks) - set(PLACES))
    values = {key: [deck.get(key) for deck in decks] for key in keys}
    return {key: of for key, of in values.items() if any(value != of[0] for value in of)}


def shown(value):
    return "not set" if value is None else str(value)


def labels(runs, paths):
    """Of each run what tells it from the others: one or two keys of its deck, or its path."""
    differ = differences(runs)
    if 0 < len(differ) <= 2:
        by_keys = [
            ", ".join(f"{key} = {shown(values[i])}" for key, values in differ.items())
            for i in range(len(runs))
        ]
        if len(set(by_keys)) == len(by_keys):
            return by_keys
    return short_names(paths)


def result(run):
    """The last loss, of the held-out sequences where there is one, and how the run ended."""
    held_out = run.validation["loss"]
    text = f"held out {held_out[-1]:.3f}" if len(held_out) else f"loss {run.rows['loss'][-1]:.3f}"
    return text + ("" if run.complete else f", step {run.rows['step'][-1]:,}, not complete")


def draw_losses(axes, runs, names, times):
    """By step, or by the run's time."""
    unit_s = 1.0
    if times:
        longest_s = max(float(run.rows["time_s"][-1]) for run in runs)
        unit, unit_s = ("s", 1) if longest_s < 300 else ("min", 60)
        unit, unit_s = ("h", 3600) if longest_s >= 3 * 3600 else (unit, unit_s)
    drawn = []
    for i, (run, name) in enumerate(zip(runs, names)):
        color = RUN_COLORS[i % len(RUN_COLORS)]
        x = run.rows["time_s"] / unit_s if times else run.rows["step"]
        drawn.append(draw_curve(axes, x, run.rows["loss"], color, f"{name}: {result(run)}"))
        if len(run.validation["step"]) and not times:
            at, loss = run.validation["step"], run.validation["loss"]
            axes.plot(at, loss, color=color, ls="", marker="o", ms=4.5, mec="white", mew=0.7)
            drawn.append(loss)
    limit_y(axes, np.concatenate(drawn))
    axes.set(ylabel="nats per token", xlabel=f"time ({unit})" if times else "step")
    axes.set_title("Training loss by time" if times else "Training loss; dots: held out")
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=not times))


def draw_speeds(axes, runs):
    all_rates = [run.rates()[1] for run in runs]
    speeds = [float(np.median(rates)) if len(rates) else 0.0 for rates in all_rates]
    colors = [RUN_COLORS[i % len(RUN_COLORS)] for i in range(len(runs))]
    axes.barh(range(len(runs)), speeds, color=colors, height=0.6)
    axes.set_yticks([])
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set(title="Tokens per second (median)")


def difference_lines(runs):
    """For people: each key that differs, with the value of each run."""
    differ = differences(runs)
    if not differ:
        return ["the decks are equal, but for where they write"]
    lines = []
    for key, values in differ.items():
        text = f"{key}: " + " | ".join(map(shown, values))
        lines.append(textwrap.shorten(text, LINE_CHARACTERS, placeholder=" ..."))
    if len(lines) > MOST_LINES:
        lines[MOST_LINES - 1 :] = [f"and {len(lines) - MOST_LINES + 1} other keys"]
    return lines


def draw_comparison(runs, paths, title):
    names = labels(runs, paths)
    lines = difference_lines(runs)
    height = 6.6 + 0.17 * len(lines)
    with plt.rc_context(STYLE):
        figure = plt.figure(figsize=(9.0, height), constrained_layout=True)
        rows = (1.6, 1, 0.03 + 0.07 * len(lines))
        grid = figure.add_gridspec(3, 3, height_ratios=rows)
        by_step = figure.add_subplot(grid[0, :])
        draw_losses(by_step, runs, names, times=False)
        by_step.legend(loc="upper right")
        draw_losses(figure.add_subplot(grid[1, :2]), runs, names, times=True)
        draw_speeds(figure.add_subplot(grid[1, 2]), runs)
        below = figure.add_subplot(grid[2, :])
        below.axis("off")
        text = "What differs in their decks, in this order\n" + "\n".join(lines)
        below.text(0, 1, text, va="top", fontsize=8.5, color="#333333", linespacing=1.4)
        figure.suptitle(title, x=0.008, ha="left", fontsize=12, fontweight="bold")
        return figure
