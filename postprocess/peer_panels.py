"""Panels of plot_run.py for runs with several peers: their time and how much of it was of use,
their speed, their work, their traffic."""

import numpy as np
from matplotlib import colormaps
from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator

from curves import time_unit

MOST_BARS = 128  # more peers are summed up by stage
TIMES = ("compute_s", "transfer_s", "recovery_s", "waiting_s")  # all of a peer's time
STORED_TIMES = ("compute_s", "communication_s", "recovery_s", "idle_s")
COLUMNS = ("peer", "stage", *STORED_TIMES, "repeated", "bytes_sent", "bytes_received")
TIME_COLORS = ("#0072B2", "#E69F00", "#B00020", "#dcdcdc")
# For few stages; many are shades.
STAGE_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
SHADES = colormaps["viridis"]
SENT, RECEIVED = "#0072B2", "#56B4E9"


# What a peer's time goes by with, as /goodput has it.
GOODPUT = {
    "useful": "#0072B2",
    "repeated": "#B00020",
    "reduction": "#56B4E9",
    "link": "#E69F00",
    "repair": "#D55E00",
    "checkpoint": "#CC79A7",
    "start": "#8a8a8a",
    "idle": "#dcdcdc",
}


class Goodput:
    """The seconds of each peer's life by what they went by with; early files have none."""

    def __init__(self, file):
        table = file.get("goodput", {})
        peer = table["peer"][:] if table else np.zeros(0, int)
        self.names, place = np.unique(peer, return_inverse=True)
        self.seconds = {
            name: np.bincount(place.reshape(-1), table[f"{name}_s"][:], len(self.names))
            for name in (GOODPUT if len(peer) else ())
        }
        self.by_stage = False

    def __len__(self):
        return len(self.names)

    def total_s(self):
        return np.sum(list(self.seconds.values()), axis=0)

    def share(self, *names):
        """Of the time of all peers."""
        return sum(self.seconds[name].sum() for name in names) / self.total_s().sum()


class Peers:
    """What each peer did in all; of very many, what the peers of each stage did on average."""

    def __init__(self, table):
        self.table = {name: table[name][:] for name in COLUMNS}
        # Early files lack some.
        for name in ("microbatches", "transfer_s", "useful_s"):
            there = name in table
            self.table[name] = table[name][:] if there else np.zeros(len(self.table["peer"]))
        if any(len(values) != len(self.table["peer"]) for values in self.table.values()):
            raise ValueError("the columns of /peers differ in length")
        waited_s = self.table["idle_s"] + self.table["communication_s"]
        self.table["waiting_s"] = waited_s - self.table["transfer_s"]
        self.table["compute_s"] = self.table["compute_s"] - self.table["recovery_s"]
        if not self.table["useful_s"].any():
            self.table["useful_s"] = self.table["compute_s"]
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

    def utilisation(self):
        """Of each bar the share of its time that went into passes of training, done once."""
        whole_s = np.sum([self.totals(column) for column in TIMES], axis=0)
        return self.totals("useful_s") / np.maximum(whole_s, 1e-300)

    def speeds(self):
        """Of each peer its speed beside the fastest in its stages; NaN if it has done nothing."""
        both = np.stack([self.table["peer"], self.table["stage"]])
        (peer, stage), pair = np.unique(both, axis=1, return_inverse=True)
        done = np.bincount(pair.reshape(-1), self.table["microbatches"] - self.table["repeated"])
        useful_s = np.bincount(pair.reshape(-1), self.table["useful_s"])
        known = (done > 0) & (useful_s > 0)
        rate = np.where(known, done / np.where(known, useful_s, 1), 0)
        fastest = np.zeros(len(self.stages))
        np.maximum.at(fastest, np.searchsorted(self.stages, stage), rate)
        of_fastest = rate / np.maximum(fastest[np.searchsorted(self.stages, stage)], 1e-300)
        place, weight = np.searchsorted(self.peers, peer), np.where(known, useful_s, 0)
        weights = np.bincount(place, weight, len(self.peers))
        sums = np.bincount(place, weight * of_fastest, len(self.peers))
        return np.where(weights > 0, sums / np.where(weights > 0, weights, 1), np.nan)

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


def legend_above(axes, columns, left=-0.02):
    """Entries over the bars, which leave room for them. `left`: of the panel's width."""
    legend = axes.legend(
        loc="upper left",
        bbox_to_anchor=(left, 1.03),
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
    unit, unit_s = time_unit(longest_s)
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


def draw_goodput(axes, goodput):
    """Of each peer the shares of its life. Of very many peers there are no gaps between bars."""
    places, whole_s = np.arange(len(goodput)), np.maximum(goodput.total_s(), 1e-300)
    shown = {name: s for name, s in goodput.seconds.items() if s.sum() >= 5e-4 * whole_s.sum()}
    bottom = np.zeros(len(goodput))
    for name, seconds in shown.items():
        share = 100 * seconds / whole_s
        style = {"color": GOODPUT[name], "label": name}
        if len(goodput) <= MOST_BARS:
            axes.bar(places, share, bottom=bottom, **style, **bar_style(goodput))
        else:
            axes.fill_between(places, bottom, bottom + share, step="mid", linewidth=0, **style)
        bottom += share
    axes.set_ylim(0, 122)
    axes.set_yticks(range(0, 101, 25))
    useful = f"{100 * goodput.share('useful'):.1f} % useful"
    ettr = f"ETTR {100 * goodput.share('useful', 'reduction', 'link', 'idle'):.1f} %"
    axes.set(title=f"Goodput (% of a peer's life): {useful}, {ettr}")
    label_bars(axes, goodput)
    if shown:
        legend_above(axes, len(shown), left=-0.005)


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


def draw_shares(axes, peers, shares, colors):
    """Bars in percent, with numbers where there is room for them."""
    places = np.arange(len(peers.names))
    axes.bar(places, 100 * shares, color=colors, **bar_style(peers))
    if len(places) <= 12:
        for place, share in zip(places, shares):
            if np.isfinite(share):
                text, style = f"{100 * share:.0f}", {"fontsize": 8, "color": "#333333"}
                axes.text(place, 100 * share, text, ha="center", va="bottom", **style)
    axes.set_ylim(0, max(100, 100 * np.nanmax(shares, initial=0)) * 1.22)
    axes.set_yticks(range(0, 101, 25))
    label_bars(axes, peers)


def draw_utilisation(axes, peers):
    draw_shares(axes, peers, peers.utilisation(), "#0072B2")
    axes.set(title="Utilisation (% of its time)")


def draw_speeds(axes, peers, devices):
    """Each peer beside the fastest of its stage; coloured by the devices that the deck names."""
    speeds, colors = peers.speeds(), np.array(["#8a8a8a" if devices else "#0072B2"] * len(peers))
    named = []
    for i, (name, speed, of) in enumerate(devices):
        color = STAGE_COLORS[i % len(STAGE_COLORS)]
        here = np.isin(peers.peers, of)
        colors[here] = color
        if here.any():
            named.append((color, f"{name}, {speed}" if speed and len(devices) < 3 else name))
    if peers.by_stage:
        stage = peers.table["stage"][np.unique(peers.table["peer"], return_index=True)[1]]
        speeds = np.array([np.nanmean(speeds[stage == name]) for name in peers.names])
        colors, named = STAGE_COLORS[0], []
    draw_shares(axes, peers, speeds, colors)
    axes.set(title="Speed (% of its stage's fastest)")
    if named and len(named) <= len(STAGE_COLORS):
        for color, name in named:
            axes.bar(0, 0, color=color, label=name)
        rows = 2 if len(named) in (2, 4, 5, 6) else 1
        legend_above(axes, -(-len(named) // rows))
        axes.set_ylim(top=100 * (1.32 if rows == 1 else 1.52))


def byte_unit(most):
    """The unit that suits a number of bytes, as the program's own tables have it."""
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    power = 0 if most < 1 else min(int(np.log2(most) / 10), len(units) - 1)
    return units[power], 1024.0**power


def draw_traffic(axes, peers):
    """What was sent upwards from the line, what was received downwards."""
    places = np.arange(len(peers.names))
    sent, received = peers.totals("bytes_sent"), peers.totals("bytes_received")
    highest, lowest = float(sent.max(initial=0)), float(received.max(initial=0))
    unit, unit_bytes = byte_unit(max(highest, lowest))
    axes.bar(places, sent / unit_bytes, color=SENT, label="sent", **bar_style(peers))
    axes.bar(places, -received / unit_bytes, color=RECEIVED, label="received", **bar_style(peers))
    axes.axhline(0, color="#666666", lw=0.7)
    above = 1.05 * highest + 0.2 * (highest + lowest)
    axes.set_ylim(-(1.05 * lowest + 1) / unit_bytes, (above + 1) / unit_bytes)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{abs(value):g}"))
    axes.set(title=f"Traffic ({unit})")
    label_bars(axes, peers)
    legend_above(axes, 2)
