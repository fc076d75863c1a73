"""Experiment A of paper.py: utilisation against round-trip time."""

import matplotlib.pyplot as plt

from paper_runs import WIDTHS, coded, model_of
from paper_tables import beside, percent

TRIPS_MS = (0, 10, 50, 100, 200)
REPORTED = {  # per cent
    "base": (18.0, 11.8, 4.88, 2.78, 1.53),
    "xxlarge": (32.1, 28.9, 20.1, 14.9, 10.1),
    "GPT-3": (82.1, 79.3, 70.3, 60.2, 48.5),
    "ours": (89.5, 87.2, 79.5, 71.5, 59.2),
}
COLORS = {"base": "#0072B2", "xxlarge": "#D55E00", "GPT-3": "#009E73", "ours": "#CC79A7"}
WINDOWS = (1, 2, 4, 8, 16, 32)  # microbatches in flight, for each pipeline
PIPELINES = 2
KINDS = (("fixed", "delayed"), ("iwrr", "delayed"), ("fixed", "synchronous"))
STAGES = (2, 4, 8, 16)
UNDER_TEST = [1]
CODECS = {"none": "fp32", "fp16": "fp16", "blockwise8": "8 bit"}


def one_in_flight(study, name, trip_ms):
    """A cell of the table: the model's stage under test, in per cent."""
    link = f"{{latency_s = {trip_ms / 4000}, up_mbps = 196, down_mbps = 196}}"
    settings = model_of(name, 2, 2) | {"links.of_the_paper": link}
    if name == "ours":
        settings |= coded("blockwise8")
    run = study.run(f"latency_{name}_{trip_ms}", "a_latency", settings)
    return 100 * run.utilisation(UNDER_TEST)


def fit(study):
    return {name: [one_in_flight(study, name, trip) for trip in TRIPS_MS] for name in WIDTHS}


def errors_of(cells):
    """By how many per cent each cell is off what is reported, all of them."""
    pairs = [pair for name in cells for pair in zip(cells[name], REPORTED[name])]
    return [100 * abs(found / reported - 1) for found, reported in pairs]


def rows_of_peers(stages):
    """[[peers]] of so many stages: those of the last one are slower, as the deck says."""
    last = [stages * pipeline + stages - 1 for pipeline in range(PIPELINES)]
    return (
        f'[{{peers = {last}, device = "v100_last", link = "far"}}, '
        f'{{device = "v100", link = "far"}}]'
    )


def overlapped(study, name, window, *, kind=KINDS[0], stages=4, codec="blockwise8"):
    """A run at 200 ms with a window of so many microbatches a pipeline."""
    wiring, updates = kind
    settings = model_of(name, stages, stages) | coded(codec)
    settings |= {
        "swarm.stages": stages,
        "swarm.peers": PIPELINES * stages,
        "swarm.window": PIPELINES * window,
        "swarm.wiring": wiring,
        "train.updates": updates,
        "peers": rows_of_peers(stages),
    }
    label = f"overlap_{name}_{window}_{wiring}_{updates}_{stages}_{codec}"
    return study.run(label, "a_overlap", settings)


def bound(run):
    """What computing over transferring allows: a stage sends an output and a gradient."""
    compute_s = run.microbatch_s("v100", 1)
    line_s = run.boundary_bytes(1) * 8 / 500e6
    return min(1.0, compute_s / line_s)


def both(run):
    return f"{percent(run.utilisation())} ({percent(run.utilisation_of_whole())})"


def draw(cells, windows):
    figure, (by_trip, by_window) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    for name, found in cells.items():
        by_trip.plot(range(5), found, color=COLORS[name], label=name)
        by_trip.plot(range(5), REPORTED[name], "o", color=COLORS[name], fillstyle="none")
    by_trip.plot([], [], "o", color="k", fillstyle="none", label="reported")
    by_trip.set_xticks(range(5), TRIPS_MS)
    by_trip.set(xlabel="round trip (ms)", title="One microbatch in flight: a fit")
    by_trip.set_ylabel("utilisation (%)")
    by_trip.set_yscale("log")
    by_trip.set_yticks((1, 2, 5, 10, 20, 50, 100), ("1", "2", "5", "10", "20", "50", "100"))
    for (wiring, updates), shares in windows.items():
        style = "--" if wiring == "iwrr" else "-"
        by_window.plot(WINDOWS, shares, style, marker=".", label=f"{wiring}, {updates}")
    by_window.axhline(REPORTED["ours"][-1], color="k", linewidth=0.8, linestyle=":")
    by_window.text(32, REPORTED["ours"][-1] - 4, "reported, one in flight", ha="right")
    by_window.set_xscale("log", base=2)
    by_window.set_xticks(WINDOWS, WINDOWS)
    by_window.set(xlabel="window (microbatches a pipeline)", ylim=(0, 104))
    by_window.set_title("Ours at 200 ms, 8 bit, reductions included")
    for axes in (by_trip, by_window):
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    return figure


def add_fit(report, cells):
    errors = errors_of(cells)
    report.table(
        "latency",
        "One microbatch in flight: utilisation in %, ours / reported (a fit)",
        ["round trip", *cells],
        [
            [f"{trip} ms"] + [beside(cells[name][i], REPORTED[name][i]) for name in cells]
            for i, trip in enumerate(TRIPS_MS)
        ],
    )
    within = sum(error <= 10 for error in errors)
    report.text(f"{within} of 20 cells are within 10 %; the farthest is {max(errors):.1f} % off.")


def add_windows(report, windows, others):
    report.table(
        "windows",
        "Ours at 200 ms, 8 bit, four stages: steady utilisation in % (whole run)",
        ["wiring, updates", *(f"window {window}" for window in WINDOWS)],
        [[", ".join(kind), *map(both, runs)] for kind, runs in windows.items()],
    )
    report.table(
        "models",
        "All at 200 ms, 8 bit, fixed wiring, delayed updates: steady utilisation in % (whole run)",
        ["model", *(f"window {window}" for window in WINDOWS)],
        [[name, *map(both, runs)] for name, runs in others.items()],
    )


def experiment(study, report):
    """Makes all runs, tables and the picture."""
    cells = fit(study)
    windows = {
        kind: [overlapped(study, "ours", window, kind=kind) for window in WINDOWS]
        for kind in KINDS
    }
    others = {name: [overlapped(study, name, window) for window in WINDOWS] for name in WIDTHS}
    add_fit(report, cells)
    add_windows(report, windows, others)
    rows = []
    for name in WIDTHS:
        runs = [overlapped(study, name, 8, codec=codec) for codec in CODECS]
        rows.append([name, *(f"{both(run)}, at most {percent(bound(run))}" for run in runs)])
    header = ["model", *CODECS.values()]
    title = "At 200 ms, a window of 8 a pipeline, by what boundaries are in"
    report.table("codecs", title, header, rows)
    rows = [
        [stages, 2 * stages, both(overlapped(study, "ours", 2 * stages, stages=stages))]
        for stages in STAGES
    ]
    header = ["stages", "window a pipeline", "utilisation"]
    report.table("stages", "Ours at 200 ms, two microbatches a stage in flight", header, rows)
    shares = {kind: [100 * run.utilisation() for run in runs] for kind, runs in windows.items()}
    report.picture(draw(cells, shares))
