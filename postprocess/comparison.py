"""Several runs in one picture: their losses by step and by time, their speed, and the keys in which
their decks differ."""

import textwrap
import tomllib

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import EngFormatter, MaxNLocator

from curves import RUN_COLORS, STYLE, draw_curve, leave_room_above, limit_y, time_unit
from curves import write_headlines
from run_names import short_names

# Where a run writes decides nothing of it.
PLACES = ("output.run", "output.checkpoint")
MOST_LINES = 8
MOST_COLUMNS = 7  # runs that have one of their own
LINE_CHARACTERS = 130
ABOVE_THE_FIRST = 1.25  # losses up to so many times the largest that a run began with are shown


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
    """Key -> its value in each run, None where the deck has none, for all keys that differ.

    In the order of the decks: what decides the result stands before what does not.
    """
    decks = [deck_of(run) for run in runs]
    keys = [
        key for key in dict.fromkeys(key for deck in decks for key in deck) if key not in PLACES
    ]
    values = {key: [deck.get(key) for deck in decks] for key in keys}
    return {key: of for key, of in values.items() if any(value != of[0] for value in of)}


def shown(value):
    if isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
        return f"{len(value)} rows"
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


def most_shown(runs):
    """The largest loss that is drawn: one run that diverges would make lines of all others flat."""
    first = [run.rows["loss"][0] for run in runs]
    return ABOVE_THE_FIRST * max((loss for loss in first if np.isfinite(loss)), default=np.inf)


def diverged_at(run, most):
    """The step from which on no loss is within what is drawn; None where the last one is."""
    within = np.flatnonzero(np.isfinite(run.rows["loss"]) & (run.rows["loss"] <= most))
    outside = within[-1] + 1 if len(within) else 0
    return int(run.rows["step"][outside]) if outside < len(run.rows["step"]) else None


def result(run, most=np.inf):
    """The last loss, of the held-out sequences where there is one, and how the run ended."""
    held_out, diverged = run.validation["loss"], diverged_at(run, most)
    if not run.has_losses:
        text = "no loss"
    elif diverged is not None:
        text = f"diverged at step {diverged:,}"
    elif len(held_out):
        text = f"held out {held_out[-1]:.3f}"
    else:
        text = f"loss {run.rows['loss'][-1]:.3f}"
    return text + ("" if run.complete else f", step {run.rows['step'][-1]:,}, not complete")


def draw_losses(axes, runs, names, times):
    """By step, or by the run's time."""
    longest_s = max(float(run.rows["time_s"][-1]) for run in runs)
    unit, unit_s = time_unit(longest_s) if times else ("", 1)
    drawn, most = [], most_shown(runs)
    longest = max(len(run.rows["step"]) for run in runs)
    for i, (run, name) in enumerate(zip(runs, names)):
        color = RUN_COLORS[i % len(RUN_COLORS)]
        x = run.rows["time_s"] / unit_s if times else run.rows["step"]
        # What is cut off must not bend the course of what is shown.
        losses = np.minimum(run.rows["loss"], 2 * most)
        label = f"{name}: {result(run, most)}"
        drawn.append(draw_curve(axes, x, losses, color, label, longest))
        if len(run.validation["step"]) and not times:
            at, loss = run.validation["step"], run.validation["loss"]
            axes.plot(at, loss, color=color, ls="", marker="o", ms=4.5, mec="white", mew=0.7)
            drawn.append(loss)
    limit_y(axes, np.concatenate(drawn), *(run.rows["loss"] for run in runs), most=most)
    axes.set(ylabel="nats per token", xlabel=f"time ({unit})" if times else "step")
    axes.set_title("Training loss by time" if times else "Training loss; dots: held out")
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=not times))


def draw_speeds(axes, runs, names=()):
    all_rates = [run.rates()[1] for run in runs]
    speeds = [float(np.median(rates)) if len(rates) else 0.0 for rates in all_rates]
    colors = [RUN_COLORS[i % len(RUN_COLORS)] for i in range(len(runs))]
    axes.barh(range(len(runs)), speeds, color=colors, height=0.6)
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set(title="Tokens per second (median)")


def difference_lines(runs):
    """For people: each key that differs, with the value of each run."""
    differ = differences(runs)
    lines = [f"{key}: " + " | ".join(map(shown, values)) for key, values in differ.items()]
    return [textwrap.shorten(line, LINE_CHARACTERS, placeholder=" ...") for line in lines]


def write_differences(axes, runs, paths):
    """A row a key, a column a run; of many runs lines."""
    differ = differences(runs)
    rows = len(differ) if len(differ) <= MOST_LINES else MOST_LINES - 1
    style = {"va": "top", "fontsize": 8.5, "transform": axes.transAxes}
    line = 1 / lines_below(runs)

    def write(column, row, text, color="#333333", weight="normal"):
        axes.text(column, 1 - row * line, text, color=color, fontweight=weight, **style)

    axes.axis("off")
    if not differ:
        write(0, 0, "Their decks are equal, but for where they write.")
        return
    write(0, 0, "What differs in their decks", weight="bold")
    if len(runs) > MOST_COLUMNS:
        for row, text in enumerate(difference_lines(runs)[:rows], 1):
            write(0, row, text)
    else:
        first, width = 0.28, 0.72 / len(runs)
        most = int(130 * width)
        for i, name in enumerate(short_names(paths)):
            color = RUN_COLORS[i % len(RUN_COLORS)]
            write(first + i * width, 0, shortened(name, most), color, "bold")
        for row, (key, values) in enumerate(list(differ.items())[:rows], 1):
            write(0, row, key)
            for i, value in enumerate(values):
                write(first + i * width, row, shortened(shown(value), most))
    if rows < len(differ):
        write(0, rows + 1, f"and {len(differ) - rows} other keys: `swarmpi compare` names them all")


def shortened(text, most):
    return text if len(text) <= most else text[: most - 3] + "..."


def lines_below(runs):
    return 1 + min(len(differences(runs)), MOST_LINES)


def title_of(runs):
    keys = list(differences(runs))
    return f"{len(runs)} runs" + (
        f" that differ in {' and '.join(keys)}" if 0 < len(keys) < 3 else ""
    )


def draw_with_losses(figure, grid, runs, names):
    """Two rows of panels, of which the legend of the first says which run is which."""
    by_step = figure.add_subplot(grid[0, :])
    draw_losses(by_step, runs, names, times=False)
    many = len(runs) > 6
    legend = {"ncols": 2, "fontsize": 7} if many else {}
    by_step.legend(loc="upper right", **legend)
    draw_losses(figure.add_subplot(grid[1, :2]), runs, names, times=True)
    draw_speeds(figure.add_subplot(grid[1, 2]), runs)


def draw_comparison(runs, paths, title):
    names = labels(runs, paths)
    has_losses = any(run.has_losses for run in runs)
    rows = (3.5, 2.2) if has_losses else (0.5 + 0.25 * len(runs),)
    rows = (*rows, 0.25 + 0.19 * lines_below(runs))
    with plt.rc_context(STYLE):
        figure = plt.figure(figsize=(9.0, 0.7 + sum(rows)), layout="constrained")
        above = write_headlines(figure, title or title_of(runs))
        leave_room_above(figure, above)
        grid = figure.add_gridspec(len(rows), 3, height_ratios=rows)
        if has_losses:
            draw_with_losses(figure, grid, runs, names)
        else:
            # Names beside the bars must not narrow the table: hence a grid of its own.
            draw_speeds(figure.add_subplot(grid[0, :].subgridspec(1, 1)[0]), runs, names)
        write_differences(figure.add_subplot(grid[-1, :]), runs, paths)
        return figure
