"""What pictures of runs have in common: how they look, and how a noisy curve is drawn."""

import textwrap

import numpy as np

BLUE, ORANGE, RED, GREY = "#0072B2", "#D55E00", "#B00020", "#8a8a8a"
# One for each of several runs; more begin anew.
RUN_COLORS = (BLUE, ORANGE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555", "#882255")
RUN_COLORS += ("#999933", "#332288")

STYLE = {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.labelcolor": "#333333",
    "axes.edgecolor": "#666666",
    "axes.linewidth": 0.7,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.7,
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.edgecolor": "white",
    "legend.framealpha": 0.85,
    "legend.fontsize": 8.5,
}


def smoothed(values, window):
    """Mean over a bell around each finite value, narrower at the start, where losses fall fast."""
    reach = int(2 * window)
    bell = np.exp(-0.5 * (np.arange(-reach, reach + 1) / window) ** 2)
    finite = np.isfinite(values)
    known = np.where(finite, values, 0.0)
    inside = slice(reach, reach + len(values))
    total, weight = np.convolve(known, bell)[inside], np.convolve(finite, bell)[inside]
    for i in range(min(reach, len(values) // 2)):
        around, part = slice(0, 2 * i + 1), bell[reach - i : reach + i + 1]
        total[i], weight[i] = known[around] @ part, finite[around] @ part
    return np.where(weight > 0, total / np.maximum(weight, 1e-300), np.nan)


def draw_curve(axes, x, y, color, label=None, longest=None):
    """The values thin, their course thick. A single one is a dot.

    How smooth the course is goes by the `longest` of the curves that are compared: equal ones must
    look equal.
    """
    window = min((longest or len(y)) / 100.0, 200.0)
    style = {"color": color, "marker": "o" if len(y) < 30 else None, "ms": 3, "label": label}
    if window < 1:
        axes.plot(x, y, lw=1.5, **style)
        return y
    course = smoothed(y, window)
    axes.plot(x, y, color=color, lw=0.6, alpha=0.3)
    axes.plot(x, course, lw=1.8, **style)
    return course


def limit_y(axes, course, *raw, most=np.inf):
    """Fits the axis to the course, and downwards to all values: only spikes above are cut off, and
    what is above `most`."""
    shown = course[np.isfinite(course)]
    if len(shown) == 0:
        return
    low, high = float(shown.min()), min(float(shown.max()), most)
    for values in raw:
        low = min([low, *values[np.isfinite(values)]])
    margin = 0.06 * (high - low) or 0.05 * abs(high) or 0.5
    axes.set_ylim(low - margin, high + margin)


def limit_rates(axes, rates):
    """An axis from 0 on; what was made up for in a moment, after a pause, may be cut off."""
    finite = np.asarray(rates)[np.isfinite(rates)]
    if len(finite) > 0 and finite.max() > 0:
        axes.set_ylim(0, 1.5 * np.percentile(finite, 95))


def time_unit(longest_s):
    """The unit that suits a time, and how many seconds it has."""
    if longest_s < 300:
        return "s", 1
    return ("min", 60) if longest_s < 3 * 3600 else ("h", 3600)


def write_headlines(figure, title, below=()):
    """The title, and grey lines below it; all are broken where the picture ends.

    Returns how many inches they take.
    """
    width, height = figure.get_size_inches()
    titles = textwrap.wrap(title, int(8.6 * width)) or [""]
    lines = [part for line in below for part in textwrap.wrap(line, int(13.5 * width))]
    inches = 0.08
    for text in titles:
        style = {"fontsize": 12, "fontweight": "bold"}
        figure.text(0.008, 1 - inches / height, text, va="top", **style)
        inches += 0.21
    for text in lines:
        figure.text(0.008, 1 - inches / height, text, va="top", fontsize=9, color="#555555")
        inches += 0.17
    return inches + 0.08


def leave_room_above(figure, inches):
    """Has the panels begin so far below the upper edge."""
    height = figure.get_size_inches()[1]
    figure.get_layout_engine().set(rect=(0, 0, 1, 1 - inches / height))
