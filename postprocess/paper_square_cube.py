"""Experiment B of paper.py: compute and communication of a stage against the model's width."""

import matplotlib.pyplot as plt
import numpy as np

from paper_runs import coded
from paper_tables import percent

WIDTHS = (768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288)
DEVICES = ("t4", "v100", "a100", "h100")
MIDDLE = 1  # a stage with a layer and two boundaries
LINKS_MBPS = (500, 200)
CODECS = {
    "fp32": coded("none"),
    "fp16": coded("fp16"),
    "8 bit": coded("blockwise8"),
    "8 bit, bottleneck to a half": coded("blockwise8")
    | {"swarm.boundary": "bottleneck", "swarm.boundary_factor": 2},
}
COLORS = {"t4": "#0072B2", "v100": "#D55E00", "a100": "#009E73", "h100": "#CC79A7"}


def at_width(study, width, codec, sequences=1):
    settings = {"model.width": width, "model.heads": width // 64} | CODECS[codec]
    settings["train.microbatch_size"] = sequences
    name = f"width_{width}_{codec.replace(', ', '_').replace(' ', '_')}_{sequences}"
    return study.run(name, "b_square_cube", settings)


def slope(widths, values):
    """Of a straight line through both logarithms."""
    return float(np.polyfit(np.log(widths), np.log(values), 1)[0])


def flops(run):
    """Of a microbatch in the middle stage: the device `unit` does 1 TFLOP/s."""
    return run.microbatch_s("unit", MIDDLE) * 1e12


def crossing(widths, compute_s, line_s):
    """The width at which computing takes as long as the line, as text: from a straight line through
    the two nearest widths; marked where it is beyond all."""
    logs, ratio = np.log(widths), np.log(np.divide(compute_s, line_s))
    last = int(np.clip(np.searchsorted(ratio, 0), 1, len(widths) - 1))
    steepness = (ratio[last] - ratio[last - 1]) / (logs[last] - logs[last - 1])
    width = np.exp(logs[last] - ratio[last] / steepness)
    beyond = not widths[0] <= width <= widths[-1]
    return f"{width:,.0f}{' (extrapolated)' if beyond else ''}"


def add_slopes(study, report, runs):
    proportional = [(width, width // 768) for width in WIDTHS if width % 768 == 0]
    growing = [at_width(study, width, "fp16", times) for width, times in proportional]
    rows = []
    for name, widths, found in (
        ("tokens fixed at 512", WIDTHS, runs),
        ("tokens proportional to d", [width for width, _ in proportional], growing),
    ):
        sent = [run.boundary_bytes(MIDDLE) for run in found]
        slopes = slope(widths, [flops(run) for run in found]), slope(widths, sent)
        rows.append([name, *(f"{value:.2f}" for value in slopes)])
    header = ["d from 768 to 12,288", "compute (FLOPs)", "communication (bytes)"]
    title = "Slopes of logarithms (by a simple model 1.9 to 2.0 and 1.00; 2.96 and 2.00)"
    report.table("slopes", title, header, rows)
    rows = []
    for device in DEVICES:
        times = [run.microbatch_s(device, MIDDLE) for run in runs]
        rows.append([device, f"{slope(WIDTHS, times):.2f}", *(f"{1e3 * s:.3g}" for s in times)])
    header = ["device", "slope in time", *(f"d = {width}" for width in WIDTHS)]
    report.table("times", "A layer and 512 tokens on a device, recomputed (ms)", header, rows)


def add_crossings(report, runs):
    for mbps in LINKS_MBPS:
        rows = []
        for device in DEVICES:
            row = [device]
            for found in runs.values():
                compute_s = [run.microbatch_s(device, MIDDLE) for run in found]
                line_s = [run.boundary_bytes(MIDDLE) * 8e-6 / mbps for run in found]
                row.append(crossing(WIDTHS, compute_s, line_s))
            rows.append(row)
        title = f"Width at which a layer computes as long as it sends, at {mbps} Mbit/s"
        report.table(f"crossings_{mbps}", title, ["device", *runs], rows)


def draw(runs):
    figure, (work, time) = plt.subplots(1, 2, figsize=(12.5, 4.6), layout="constrained")
    sent = [run.boundary_bytes(MIDDLE) for run in runs["fp16"]]
    work.plot(WIDTHS, [flops(run) / 1e9 for run in runs["fp16"]], "k.-", label="compute (GFLOP)")
    work.plot(WIDTHS, np.divide(sent, 1e6), "k.--", label="communication, fp16 (MB)")
    work.set_title("A layer and 512 tokens")
    for device in DEVICES:
        times_s = [run.microbatch_s(device, MIDDLE) for run in runs["fp16"]]
        time.plot(WIDTHS, np.multiply(1e3, times_s), ".-", color=COLORS[device], label=device)
    for (codec, found), style in zip(runs.items(), ("-", "--", "-.", ":")):
        line_ms = [run.boundary_bytes(MIDDLE) * 8e-3 / LINKS_MBPS[0] for run in found]
        time.plot(WIDTHS, line_ms, style, color="#8a8a8a", label=f"{codec}, 500 Mbit/s")
    time.set_title("The same in time (ms)")
    for axes in (work, time):
        axes.set(xscale="log", yscale="log", xlabel="width d")
        axes.set_xticks(WIDTHS[::2], [f"{width}" for width in WIDTHS[::2]], minor=False)
        axes.set_xticks([], minor=True)
        axes.grid(alpha=0.3)
    work.legend(frameon=False)
    time.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def experiment(study, report):
    """Makes all runs, tables and the picture."""
    runs = {codec: [at_width(study, width, codec) for width in WIDTHS] for codec in CODECS}
    add_slopes(study, report, runs["fp16"])
    add_crossings(report, runs)
    report.text(
        "A layer's compute is that of four forward passes (forward, recomputation, backward); what "
        "it sends is an output and a gradient. A width of 12,288 computes "
        f"{percent(flops(runs['fp16'][-1]) / flops(runs['fp16'][0]) / 100)} times what one of 768 "
        "does, and sends 16 times as much."
    )
    report.picture(draw(runs))
