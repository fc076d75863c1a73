"""What pictures of runs have in common: how they look, and how a noisy curve is drawn."""

import numpy as np

BLUE, ORANGE, RED, GREY = "#0072B2", "#D55E00", "#B00020", "#8a8a8a"
# One for each of several runs; more begin anew.
RUN_COLORS = (BLUE, ORANGE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555")

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


def draw_curve(axes, x, y, color, label=None):
    """The values thin, their course thick. A single one is a dot."""
    window = min(len(y) / 100.0, 200.0)
    if window < 1:
        marker = "o" if len(y) < 30 else None
        axes.plot(x, y, color=color, lw=1.5, marker=marker, ms=3, label=label)
        return y
    course = smoothed(y, window)
    axes.plot(x, y, color=color, lw=0.6, alpha=0.3)
    axes.plot(x, course, color=color, lw=1.8, label=label)
    return course


def limit_y(axes, shown):
    """Fits the axis to what matters, not to a spike of the thin curve."""
    shown = shown[np.isfinite(shown)]
    if len(shown) == 0:
        return
    low, high = float(shown.min()), float(shown.max())
    margin = 0.06 * (high - low) or 0.05 * abs(high) or 0.5
    axes.set_ylim(low - margin, high + margin)
