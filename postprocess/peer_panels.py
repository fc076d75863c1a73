"""Panels of plot_run.py for runs with several peers: their time, their work, their traffic."""

import numpy as np
from matplotlib import colormaps
from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator

MOST_BARS = 128  # more peers are summed up by stage
TIMES = ("compute_s", "transfer_s", "recovery_s", "waiting_s")  # all of a peer's time
STORED_TIMES = ("compute_s", "communication_s", "recovery_s", "idle_s")
COLUMNS = ("peer", "stage", *STORED_TIMES, "bytes_sent", "bytes_received")
TIME_COLORS = ("#0072B2", "#E69F00", "#B00020", "#dcdcdc")
# For few stages; many are shades.
STAGE_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
SHADES = colormaps["viridis"]
SENT, RECEIVED = "#0072B2", "#56B4E9"


class Peers:
    """What each peer did in all; of very many, what the peers of each stage did on average."""

    def __init__(self, table):
        self.table = {name: table[name][:] for name in COLUMNS}
        for name in ("microbatches", "transfer_s"):  # files of earlier versions lack them
            there = name in table
            self.table[name] = table[name][:] if there else np.zeros(len(self.table["peer"]))
        if any(len(values) != len(self.table["peer"]) for values in self.table.values()):
            raise ValueError("the columns of /peers differ in length")
        waited_s = self.table["idle_s"] + self.table["communication_s"]
        self.table["waiting_s"] = waited_s - self.table["transfer_s"]
        self.table["compute_s"] = self.table["compute_s"] - self.table["recovery_s"]
        self.peers = np.unique(self.table["peer"])
        self.stages = np.unique(self.table["stage"])
        self.by_stage = len(self.peers) > MOST_BARS
        self.names = self.stages if self.by_stage else self.peers
        self.place = np.searchsorted(self.names, self.table["stage" if self.by_stage else "peer"])

    def __len__(self):
        return len(self.peers)

    def totals(self, column, rows=slice(None)):
        """One sum a bar, over some rows."""
        place = self.place[rows]
        sums = np.bincount(place, self.table[column][rows], len(self.names))
        return sums / self.peers_of_bars() if self.by_stage else sums

    def peers_of_bars(self):
        pairs = np.unique(np.stack([self.place, self.table["peer"]]), axis=1)
        return np.bincount(pairs[0], minlength=len(self.names))


def label_bars(axes, peers):
    """Names below the bars: all, or as many as there is room for."""
    axes.set_xlim(-0.7, len(peers.names) - 0.3)
    axes.xaxis.set_major_locator(MaxNLocator(10, steps=(1, 2, 4, 5, 8, 10), integer=True))

    def name(position, _):
        known = 0 <= position < len(peers.names) and position == int(position)
        return str(peers.names[int(position)]) if known else ""

    axes.xaxis.set_major_formatter(FuncFormatter(name))
    axes.tick_params(axis="x", length=0)
    axes.grid(axis="x", visible=False)
    axes.set_xlabel("stage (mean of its peers)" if peers.by_stage else "peer")


def bar_style(peers):
    """Bars with gaps between them where they are wide enough for that."""
    wide = len(peers.names) <= 32
    return {"width": 0.78 if wide else 1.0, "linewidth": 0, "antialiased": wide}


def legend_above(axes, columns):
    """Entries over the bars, which leave room for them."""
    legend = axes.legend(
        loc="upper left",
        bbox_to_anchor=(-0.02, 1.03),
        ncols=columns,
        frameon=False,
        handlelength=0.8,
        handleheight=0.8,
        handletextpad=0.4,
        columnspacing=0.9,
        borderaxespad=0.2,
        labelspacing=0.3,
    )
    legend.set_in_layout(False)


def scale_above(axes, colors, first, last):
    """What stages the colours of the bars mean, where they are too many to be named."""
    strip = axes.inset_axes([0.24, 0.93, 0.5, 0.045])
    strip.imshow([np.linspace(first, last, 256)], aspect="auto", cmap=colors)
    strip.set_axis_off()
    for x, text, side in ((0.22, f"stage {first}", "right"), (0.76, str(last), "left")):
        axes.text(x, 0.95, text, ha=side, va="center", transform=axes.transAxes)


def draw_time(axes, peers):
    sums = [peers.totals(column) for column in TIMES]
    whole_s = np.sum(sums, axis=0)
    longest_s = float(whole_s.max(initial=0))
    unit, unit_s = (
        ("s", 1) if longest_s < 300 else ("min", 60) if longest_s < 3 * 3600 else ("h", 3600)
    )
    places, bottom = np.arange(len(peers.names)), np.zeros(len(peers.names))
    shown = 0
    for column, color, seconds in zip(TIMES, TIME_COLORS, sums):
        if seconds.sum() <= 0:
            continue
        axes.bar(
            places,
            seconds / unit_s,
            bottom=bottom,
            color=color,
            label=column.removesuffix("_s"),
            **bar_style(peers),
        )
        bottom += seconds / unit_s
        shown += 1
    rows = 1 if shown < 4 else 2
    axes.set_ylim(0, (1.02 + 0.17 * rows) * longest_s / unit_s or 1)
    axes.set(title=f"Time ({unit})")
    label_bars(axes, peers)
    if shown:
        legend_above(axes, -(-shown // rows))


def stage_colors(peers):
    """A colour a stage: few differ clearly, many are shades, and bars of stages need none."""
    if peers.by_stage:
        return [STAGE_COLORS[0]] * len(peers.stages)
    if len(peers.stages) <= len(STAGE_COLORS):
        return STAGE_COLORS
    return SHADES(np.linspace(0, 1, len(peers.stages)))


def draw_microbatches(axes, peers):
    places, bottom = np.arange(len(peers.names)), np.zeros(len(peers.names))
    for i, (stage, color) in enumerate(zip(peers.stages, stage_colors(peers))):
        done = peers.totals("microbatches", peers.table["stage"] == stage)
        name = str(stage) if i else f"stage {stage}"
        axes.bar(places, done, bottom=bottom, color=color, label=name, **bar_style(peers))
        bottom += done
    axes.set_ylim(0, 1.22 * bottom.max(initial=0) or 1)
    axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set(title="Microbatches")
    label_bars(axes, peers)
    if peers.by_stage or len(peers.stages) == 1:
        return
    if len(peers.stages) <= len(STAGE_COLORS):
        legend_above(axes, len(peers.stages))
    else:
        scale_above(axes, SHADES, peers.stages[0], peers.stages[-1])


def draw_traffic(axes, peers):
    """What was sent upwards from the line, what was received downwards."""
    places = np.arange(len(peers.names))
    sent, received = peers.totals("bytes_sent"), peers.totals("bytes_received")
    axes.bar(places, sent, color=SENT, label="sent", **bar_style(peers))
    axes.bar(places, -received, color=RECEIVED, label="received", **bar_style(peers))
    axes.axhline(0, color="#666666", lw=0.7)
    highest, lowest = float(sent.max(initial=0)), float(received.max(initial=0))
    axes.set_ylim(-1.05 * lowest - 1, 1.05 * highest + 0.2 * (highest + lowest) + 1)
    units = EngFormatter(unit="B", sep=" ")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, place: units(abs(value), place)))
    axes.set(title="Traffic")
    label_bars(axes, peers)
    legend_above(axes, 2)


PANELS = (draw_time, draw_microbatches, draw_traffic)
